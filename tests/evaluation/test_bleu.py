import math

import pytest

from configs import base
from t2t_jax.evaluation.bleu import bleu, bleu_of, sentence_statistics
from t2t_jax.evaluation.config import EvaluationConfig


def test_it_is_the_corpus_bleu_counted_by_hand():
    hypotheses = ["the cat sat on the mat", "a dog barks"]
    references = ["the cat lay on the mat today", "a dog barks loudly"]
    # Matches over all lines, each n-gram at most as often as in its reference:
    # words        the cat on the mat | a dog barks            8 of 9
    # pairs        the-cat on-the the-mat | a-dog dog-barks    5 of 7
    # threes       on-the-mat | a-dog-barks                    2 of 5
    # fours        none of 3; sacreBLEU's smoothing makes the first zero a half: 1 / (2 * 3)
    precisions = [8 / 9, 5 / 7, 2 / 5, 1 / 6]
    brevity_penalty = math.exp(1 - 11 / 9)
    by_hand = 100 * brevity_penalty * math.prod(precisions) ** (1 / 4)
    assert bleu(hypotheses, references).score == pytest.approx(by_hand, rel=1e-9)


def test_the_same_text_scores_100():
    lines = ["Ein Hund läuft über die Wiese.", "Zwei Männer stehen vor einem Haus."]
    assert bleu(lines, lines).score == pytest.approx(100)


def test_case_counts_unless_lowercase():
    hypotheses, references = ["Ein hund läuft schnell heim"], ["Ein Hund läuft schnell heim"]
    assert bleu(hypotheses, references).score < 99
    assert bleu(hypotheses, references, lowercase=True).score == pytest.approx(100)


def test_the_signature_says_case_and_tokenizer():
    lines = ["Ein Hund läuft."]
    assert "|case:mixed|eff:no|tok:13a|smooth:exp|version:" in bleu(lines, lines).signature
    other = bleu(lines, lines, tokenizer="char", lowercase=True).signature
    assert "case:lc" in other and "tok:char" in other


def test_the_number_of_lines_must_agree():
    with pytest.raises(ValueError, match="there are 2 hypotheses and 1 references"):
        bleu(["a", "b"], ["a"])


def test_no_lines_are_refused_in_words():
    with pytest.raises(ValueError, match="at least one line"):
        bleu([], [])


def test_the_statistics_of_a_sentence_are_counts():
    [counts] = sentence_statistics(["the cat sat on the mat"], ["the cat lay on the mat today"])
    assert counts.tolist() == [6, 7, 5, 3, 1, 0, 6, 5, 4, 3]


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"tokenizer": "char"}])
def test_the_sum_of_the_sentences_statistics_is_corpus_bleu_exactly(options):
    hypotheses = ["Ein hund läuft heim.", "", "Zwei Männer stehen (dort) vor dem Haus!", "nein"]
    references = ["Ein Hund läuft heim.", "Ja.", "Zwei Männer stehen vor einem Haus!", "Nein"]
    for chosen in (slice(None), slice(2), slice(1, 2), slice(3, None)):
        statistics = sentence_statistics(hypotheses[chosen], references[chosen], **options)
        expected = bleu(hypotheses[chosen], references[chosen], **options).score
        assert bleu_of(statistics.sum(0)) == expected


def test_statistics_need_a_reference_for_each_line():
    with pytest.raises(ValueError, match="there are 2 hypotheses and 1 references"):
        sentence_statistics(["a", "b"], ["a"])


OPTIONS = base.get_config().evaluation.to_dict()


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "char", "zh", "none"])
def test_every_allowed_tokenizer_scores(tokenizer):
    config = EvaluationConfig(**OPTIONS | {"bleu_tokenizer": tokenizer})
    lines = ["Ein Hund läuft über die Wiese."]
    assert bleu(lines, lines, tokenizer=config.bleu_tokenizer).score == pytest.approx(100)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"bleu_tokenizer": "moses"}, ValueError, "evaluation.bleu_tokenizer='moses' is not one"),
        ({"bleu_lowercase": 1}, TypeError, "bleu_lowercase"),
        ({"bleu_on_long": "yes"}, TypeError, "bleu_on_long"),
        ({"num_probes": 501}, ValueError, "num_probes=501; the corpus has at most 500 of each"),
        ({"num_probes": -1}, ValueError, "evaluation.num_probes=-1 must be at least 0"),
    ],
)
def test_what_is_not_allowed_is_told_by_name(change, error, sentence):
    with pytest.raises(error, match=sentence):
        EvaluationConfig(**OPTIONS | change)
