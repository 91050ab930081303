"""Each sentence is in one bin, and each bin scored by itself."""

import pytest

from t2t_jax.evaluation.bleu import bleu, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import BINS, bleu_by_length, num_words

HYPOTHESES = ["Der Hund läuft schnell heim.", "Eine Katze schläft dort.", "Er sieht den Vogel."]
REFERENCES = ["Der Hund läuft schnell.", "Eine Katze schläft.", "Er sieht einen Vogel."]


def test_the_bins_leave_no_length_out():
    assert BINS[0][0] == 1 and BINS[-1][1] is None
    for (_, high), (low, _) in zip(BINS, BINS[1:], strict=False):
        assert low == high + 1


def test_a_bin_is_scored_as_if_there_were_no_other():
    statistics = sentence_statistics(HYPOTHESES, REFERENCES)
    short, long = bleu_by_length(statistics, [5, 31, 3])
    assert short == ([1, 5], 2, bleu(HYPOTHESES[::2], REFERENCES[::2]).score)
    assert long == ([31, None], 1, bleu(HYPOTHESES[1:2], REFERENCES[1:2]).score)


@pytest.mark.parametrize(
    ("words", "bin"),
    [(0, (1, 5)), (6, (6, 10)), (10, (6, 10)), (11, (11, 15)), (30, (21, 30)), (31, (31, None))],
)
def test_the_ends_of_a_bin_belong_to_it(words, bin):
    [found] = bleu_by_length(sentence_statistics(HYPOTHESES, REFERENCES), [words] * 3)
    assert found.words == list(bin) and found.sentences == 3


def test_words_are_what_white_space_separates():
    assert num_words(["", "one", " two  words. "]) == [0, 1, 2]


def test_every_sentence_needs_a_length():
    with pytest.raises(ValueError, match="2 lengths and 3 sentences"):
        bleu_by_length(sentence_statistics(HYPOTHESES, REFERENCES), [1, 2])
