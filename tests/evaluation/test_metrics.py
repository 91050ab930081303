"""Scores worked by hand, and sacreBLEU's own on tokenised text."""

import math

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from t2t_jax.evaluation.bleu import bleu, bleu_of, sentence_bleu_of, sentence_statistics
from t2t_jax.evaluation.metrics import METRICS, counted, moses_tokens, paper_tokens, score_of
from t2t_jax.evaluation.significance import paired_bootstrap

HYPOTHESES = ["Ein hund läuft heim.", "Zwei „alte“ Männer (dort) – vor dem Haus!", "", "nein"]
REFERENCES = ["Ein Hund läuft heim.", 'Zwei "alte" Männer stehen - vor dem Haus!', "Ja.", "Nein"]


def _percent(*precisions):
    return 100 * math.prod(precisions) ** (1 / 4)


def test_moses_bleu_by_hand():
    # Heute ist das ein Hoch-Turm .   of the six words, five pairs, four threes, three fours
    # Heute ist das ein Hoch-Haus .   all but those with the tower are matched
    found = counted(["Heute ist das ein Hoch-Turm."], ["Heute ist das ein Hoch-Haus."], "de")
    assert found["bleu_moses"].score == pytest.approx(_percent(5 / 6, 3 / 5, 2 / 4, 1 / 3))


def test_moses_bleu_without_capitals_by_hand():
    # Heute ist das hoch-haus .   as it stands two of five words, one pair of four, no three
    # heute ist Das Hoch-Haus .   are matched; without capitals all of it is
    found = counted(["Heute ist das hoch-haus."], ["heute ist Das Hoch-Haus."], "de")
    assert found["bleu_moses"].score == 0
    assert found["bleu_moses_lower"].score == pytest.approx(100)
    assert "|case:lc|" in found["bleu_moses_lower"].signature
    found = counted(["heute ist das Ein hoch-turm."], ["Heute ist das ein Hoch-Haus."], "de")
    assert found["bleu_moses_lower"].score == pytest.approx(_percent(5 / 6, 3 / 5, 2 / 4, 1 / 3))


def test_the_papers_bleu_by_hand_counts_the_parts_of_compounds():
    # Heute ist das ein Hoch ##AT##-##AT## Turm .
    # Heute ist das ein Hoch ##AT##-##AT## Haus .   eight words, all but the seventh are right
    found = counted(["Heute ist das ein Hoch-Turm."], ["Heute ist das ein Hoch-Haus."], "de")
    assert found["bleu_paper"].score == pytest.approx(_percent(7 / 8, 5 / 7, 4 / 6, 3 / 5))


def test_the_papers_tokens_written_out():
    lines = ["Die E-Mail-Liste – “neu”… – kommt z.B. heute, 50-mal.", "a - b, a-b-c -d"]
    assert paper_tokens(lines, "de") == [
        "Die E ##AT##-##AT## Mail ##AT##-##AT## Liste – &quot; neu &quot; ... – kommt z.B. heute , "
        "50 ##AT##-##AT## mal .",
        # s{(\S)-(\S)}{...}g goes on behind the b: of a-b-c one hyphen splits.
        "a - b , a ##AT##-##AT## b-c -d",
    ]
    assert moses_tokens(["Das ist's: 3-mal (z.B. hier)."], "de") == [
        "Das ist &apos; s : 3-mal ( z.B. hier ) ."
    ]


def test_quotation_marks_count_for_moses_and_not_for_the_paper():
    found = counted(["Er sagt “ja” dazu."], ['Er sagt "ja" dazu.'], "de")
    assert found["bleu_moses"].score < 100 == pytest.approx(found["bleu_paper"].score)


def test_multi_bleu_is_not_smoothed():
    found = counted(["a b c x"], ["a b c d"], "en")
    assert found["bleu_moses"].score == 0 < found["bleu_13a"].score


def test_chrf_by_hand():
    # Letters: one of two is right; pairs: none of one. No longer ones. Mean (1/2 + 0) / 2.
    assert counted(["ab"], ["ac"], "en")["chrf2"].score == pytest.approx(25)


def test_ter_by_hand():
    # One shift in three words; two words are missing of four: 3 edits in 7 words.
    found = counted(["a b c", "a b"], ["a c b", "a b c d"], "en")["ter"]
    assert found.score == pytest.approx(300 / 7)
    assert found.statistics.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("bleu_13a", BLEU(force=True)),
        ("bleu_13a_lower", BLEU(lowercase=True, force=True)),
        ("bleu_intl", BLEU(tokenize="intl", force=True)),
        ("bleu_intl_lower", BLEU(tokenize="intl", lowercase=True, force=True)),
        ("chrf2", CHRF()),
        ("ter", TER()),
    ],
)
def test_the_others_are_sacrebleus_with_its_signature(name, metric):
    found = counted(HYPOTHESES, REFERENCES, "de")[name]
    assert found.score == pytest.approx(metric.corpus_score(HYPOTHESES, [REFERENCES]).score)
    assert found.signature == str(metric.get_signature())


def test_what_moses_has_split_is_counted_by_sacrebleu_as_it_stands():
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    found = counted(HYPOTHESES, REFERENCES, "de")
    for name, tokens in (("bleu_moses", moses_tokens), ("bleu_paper", paper_tokens)):
        sides = tokens(HYPOTHESES, "de"), tokens(REFERENCES, "de")
        assert found[name].score == metric.corpus_score(sides[0], [sides[1]]).score > 0
        assert f"|tok:{name[5:]}-de-sacremoses-" in found[name].signature


def test_every_metric_has_its_name_and_a_signature_of_its_own():
    found = counted(HYPOTHESES, REFERENCES, "de")
    assert tuple(found) == METRICS
    assert len({each.signature for each in found.values()}) == len(METRICS)


def test_bleu_of_13a_is_the_one_that_is_reported():
    expected = bleu(HYPOTHESES, REFERENCES)
    found = counted(HYPOTHESES, REFERENCES, "de")["bleu_13a"]
    assert (found.score, found.signature) == expected
    statistics = sentence_statistics(HYPOTHESES, REFERENCES)
    np.testing.assert_array_equal(found.statistics, statistics)


@pytest.mark.parametrize("name", METRICS)
def test_the_counts_of_some_sentences_give_their_score(name):
    whole, few = (
        counted(HYPOTHESES, REFERENCES, "de"),
        counted(HYPOTHESES[:2], REFERENCES[:2], "de"),
    )
    assert score_of(name)(whole[name].statistics[:2].sum(0)) == few[name].score
    found = paired_bootstrap(whole[name].statistics, whole[name].statistics, score_of(name))
    assert found == (0, 0, 0, 1)


def test_bleu_of_a_sentence_takes_the_orders_it_has():
    [short, long] = sentence_statistics(["nein", "a b c d"], ["nein", "a b c d"])
    assert sentence_bleu_of(short) == pytest.approx(100) == sentence_bleu_of(long)
    assert bleu_of(short) == 0


def test_no_lines_are_refused_in_words():
    with pytest.raises(ValueError, match="at least one line"):
        counted([], [], "de")
