"""Which test is made of what, and that all rows of a table are corrected together."""

import math

import pytest
from scipy import stats

from experiments.report.effects import BOOTSTRAP, WELCH, effects
from experiments.report.measures import ACCURACY, DEV_BLEU, LONG_BLEU, PERPLEXITY, TEST_BLEU
from experiments.report.summary import summaries
from experiments.run import record
from experiments.run.outcomes import read_outcomes
from tests.experiments import fakes
from tests.experiments.sweeps import (
    CONFIG,
    TABLE,
    write_a_difference_that_holm_takes_back,
    write_sweep,
)


def _write(workdir, row, seeds, *, wrong_every=None):
    for seed in seeds:
        directory = fakes.write_record(
            workdir, TABLE, CONFIG, row, seed, perplexity=2.0 + seed / 10, bleu=90.0 + seed
        )
        if wrong_every:
            fakes.write_translations(directory, wrong_every=wrong_every + seed)


def _effects(workdir, measure=TEST_BLEU):
    outcomes = read_outcomes(workdir).runs
    rows = dict.fromkeys(outcome.run.row for outcome in outcomes)
    return effects(
        measure, {row: [outcome for outcome in outcomes if outcome.run.row == row] for row in rows}
    )


def test_seeds_are_compared_by_welch_and_perplexities_by_their_logarithm(tmp_path):
    write_sweep(tmp_path)
    found = _effects(tmp_path)["one_head"]
    expected = stats.ttest_ind([90.0, 88.0], [92.0, 91.0, 93.0], equal_var=False).pvalue
    assert (found.test, found.comparison.p_value) == (WELCH, pytest.approx(expected))

    found = _effects(tmp_path, PERPLEXITY)["one_head"]
    sides = ([math.log(x) for x in side] for side in ((1.5, 1.7), (1.2, 1.3, 1.4)))
    expected = stats.ttest_ind(*sides, equal_var=False).pvalue
    assert found.comparison.p_value == pytest.approx(expected)
    assert found.difference == pytest.approx(0.3)


def test_one_seed_is_compared_sentence_by_sentence(tmp_path):
    _write(tmp_path, "base", [0], wrong_every=20)
    _write(tmp_path, "one_head", [0], wrong_every=2)
    _write(tmp_path, "one_layer", [0], wrong_every=19)
    found = _effects(tmp_path)
    assert {effect.test for effect in found.values()} == {BOOTSTRAP}
    assert found["one_head"].is_significant and not found["one_layer"].is_significant
    assert found["one_head"].comparison.difference == pytest.approx(found["one_head"].difference)
    [table] = summaries(tmp_path)
    verdicts = {row.name: row.verdict for row in table.rows}
    assert verdicts["one_head"] == "PPL not tested; BLEU worse"
    assert verdicts["one_layer"].endswith("BLEU within the noise of the sentences")
    assert any("paired bootstrap over the sentences" in note for note in table.notes)
    assert any("nothing of the noise between seeds" in note for note in table.notes)


def test_of_several_seeds_of_the_base_the_rows_own_is_taken(tmp_path):
    _write(tmp_path, "base", [0, 1], wrong_every=3)
    _write(tmp_path, "one_head", [1], wrong_every=3)
    found = _effects(tmp_path)["one_head"]
    # The same translations as seed 1 of the base, which are better than those of seed 0: what is
    # shown is what was tested, and not the difference of the means.
    assert found.test == BOOTSTRAP
    assert found.difference == found.comparison.difference == 0


def test_sentences_of_other_translations_than_those_on_record_are_not_compared(tmp_path):
    _write(tmp_path, "base", [0], wrong_every=20)
    _write(tmp_path, "one_head", [0], wrong_every=2)
    [path] = tmp_path.glob("*/one_head/*/scores/test.sentences.json")
    values = record.read_json(path)  # as somebody left them who scored with another beam
    values["statistics"] = values["statistics"][:1] * len(values["statistics"])
    record.write_json(path, values)
    assert _effects(tmp_path)["one_head"].test == ""


@pytest.mark.parametrize("missing", ["file", "seed", "signature"])
def test_other_sentences_are_not_compared(tmp_path, missing):
    _write(tmp_path, "base", [0], wrong_every=20)
    _write(tmp_path, "one_head", [1 if missing == "seed" else 0], wrong_every=2)
    [path] = tmp_path.glob("*/one_head/*/scores/test.sentences.json")
    if missing == "file":
        path.unlink()
    if missing == "signature":
        path.write_text(path.read_text().replace("13a", "intl"))
    found = _effects(tmp_path)["one_head"]
    assert (found.test, found.comparison, found.corrected_p) == ("", None, None)
    assert not found.is_significant
    assert any("No difference was tested" in note for note in summaries(tmp_path)[0].notes)


def test_p_values_are_corrected_over_the_rows_of_the_table(tmp_path):
    for row, spread in (("base", 0.0), ("one_head", 4.0), ("one_layer", 5.0), ("no_positions", 0)):
        for seed in range(3):
            bleu = 90.0 + 0.5 * seed - spread
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=bleu)
    found = _effects(tmp_path)
    raw = {row: effect.comparison.p_value for row, effect in found.items()}
    assert raw["one_layer"] < raw["one_head"] < raw["no_positions"]
    assert found["one_layer"].corrected_p == pytest.approx(3 * raw["one_layer"])
    assert found["one_head"].corrected_p == pytest.approx(2 * raw["one_head"])
    assert found["no_positions"].corrected_p == 1
    assert [found[row].is_significant for row in ("one_head", "no_positions")] == [True, False]


def test_without_a_base_row_nothing_is_compared(tmp_path):
    _write(tmp_path, "one_head", [0, 1])
    assert _effects(tmp_path) == {}


@pytest.mark.parametrize("measure", [DEV_BLEU, LONG_BLEU], ids=lambda measure: measure.name)
def test_bleu_of_a_split_is_compared_on_the_sentences_of_that_split(tmp_path, measure):
    for row, wrong_every in (("base", 20), ("one_head", 2)):
        run_ = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=90.0)
        fakes.write_translations(run_, wrong_every=3)  # of test all have the same
        fakes.write_translations(run_, wrong_every=wrong_every, split=measure.split)
    found = _effects(tmp_path, measure)["one_head"]
    assert found.test == BOOTSTRAP and found.difference < -5


@pytest.mark.parametrize(
    ("measure", "facts"),
    [
        (TEST_BLEU, {"direction": "de-en"}),
        (TEST_BLEU, {"scores": {"test": {"bleu": 3.0, "bleu_signature": "other"}}}),
        (ACCURACY, {"vocabulary_fingerprint": "v1"}),
        (PERPLEXITY._replace(name="a new one"), {"vocabulary_fingerprint": "v1"}),
    ],
    ids=["direction", "signature", "accuracy", "any other"],
)
def test_numbers_that_cannot_be_compared_have_no_difference(tmp_path, measure, facts):
    scores = {"scores": {"test": {"accuracy": 0.5}}} if measure is ACCURACY else {}
    for seed in range(2):
        for row, its in (("base", {}), ("one_head", facts)):
            fakes.write_record(
                tmp_path, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=90.0 + seed, **scores | its
            )
    assert _effects(tmp_path, measure) == {}


def test_translations_of_other_sources_are_not_paired(tmp_path):
    for row in ("base", "one_head"):
        run_ = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=90.0)
        fakes.write_translations(run_, wrong_every=3)
    path = run_ / "scores" / "test.sentences.json"
    values = record.read_json(path)
    record.write_json(path, values | {"source_words": values["source_words"][::-1]})
    assert _effects(tmp_path)["one_head"].test == ""


def test_a_difference_that_the_correction_takes_back_is_noise(tmp_path):
    write_a_difference_that_holm_takes_back(tmp_path)
    found = _effects(tmp_path)["one_head"]
    assert found.comparison.p_value < 0.05 < found.corrected_p
    assert not found.is_significant
