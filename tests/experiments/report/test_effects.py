"""Which test is used when, and that all rows of a table are corrected together."""

import math

import pytest
from scipy import stats

from experiments.report import report
from experiments.report.effects import BOOTSTRAP, SEEDS, WELCH, effects
from experiments.report.measures import ACCURACY, DEV_BLEU, LONG_BLEU, PERPLEXITY, TEST_BLEU
from experiments.report.summary import summaries
from experiments.run import record
from experiments.run.outcomes import read_outcomes
from tests.experiments import fakes
from tests.experiments.sweeps import (
    CONFIG,
    TABLE,
    write_a_difference_that_other_rows_take_back,
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


def test_the_same_seeds_are_compared_and_perplexities_by_their_logarithm(tmp_path):
    write_sweep(tmp_path)
    found = _effects(tmp_path)["one_head"]
    expected = stats.ttest_rel([90.0, 88.0], [92.0, 91.0]).pvalue
    assert (found.test, found.comparison.p_value) == (SEEDS, pytest.approx(expected))
    # Of the two seeds that both have, which the report says; the other row has a single seed.
    assert any(
        note.startswith("Not the same seeds as base (no_positions, one_head)")
        for note in summaries(tmp_path)[0].notes
    )
    assert found.difference == found.comparison.difference == pytest.approx(-2.5)
    assert found.ends == found.comparison[1:3]

    found = _effects(tmp_path, PERPLEXITY)["one_head"]
    sides = ([math.log(x) for x in side] for side in ((1.5, 1.7), (1.2, 1.3)))
    test = stats.ttest_rel(*sides)
    assert found.comparison.p_value == pytest.approx(test.pvalue)
    assert found.difference == pytest.approx(0.35)
    # Its interval is turned back into PPL, at the base of those seeds.
    base = math.sqrt(1.2 * 1.3)
    expected = [base * (math.exp(end) - 1) for end in test.confidence_interval(0.95)]
    assert found.ends == pytest.approx(expected, rel=1e-5)


def _write_noisy(workdir, row, seeds, worse=0.0):
    noise = {"base": 1, "one_head": 2, "one_layer": 3, "no_positions": 5, "learned_positions": 7}
    for seed in seeds:
        bleu = 90.0 - worse + math.sin(10.0 * seed + noise[row])
        fakes.write_record(workdir, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=bleu)


def test_rows_of_the_same_seeds_are_tested_together_and_the_others_at_their_share(tmp_path):
    rows = ("one_head", "one_layer", "no_positions")
    for row in ("base", *rows):
        _write_noisy(tmp_path, row, range(3), worse=3.0 * (row == "one_head"))
    alone = _effects(tmp_path)
    _write_noisy(tmp_path, "learned_positions", range(5, 8))
    found = _effects(tmp_path)
    assert [found[row].test for row in (*rows, "learned_positions")] == [SEEDS] * 3 + [WELCH]
    for row in rows:
        # Three quarters of the 5 % are left to them.
        p_value = min(1.0, alone[row].comparison.p_value * 4 / 3)
        assert found[row].comparison.p_value == pytest.approx(p_value)
        assert found[row].smallest > alone[row].smallest
        assert found[row].is_significant == (p_value < 0.05)
    there = [90 + math.sin(10.0 * seed + 1) for seed in range(3)]
    here = [90 + math.sin(10.0 * seed + 7) for seed in range(5, 8)]
    test = stats.ttest_ind(here, there, equal_var=False)
    its = found["learned_positions"].comparison
    assert its.p_value == pytest.approx(min(1.0, 4 * test.pvalue))
    assert its[1:3] == pytest.approx(test.confidence_interval(1 - 0.05 / 4))
    assert any("Fewer than two seeds" in note for note in summaries(tmp_path)[0].notes)


def test_several_rows_of_other_seeds_share_the_level(tmp_path):
    _write_noisy(tmp_path, "base", range(3))
    rows = {"learned_positions": 7, "no_positions": 5}
    for row in rows:
        _write_noisy(tmp_path, row, range(5, 8), worse=1.0)
    found = _effects(tmp_path)
    there = [90 + math.sin(10.0 * seed + 1) for seed in range(3)]
    for row, noise in rows.items():
        here = [89 + math.sin(10.0 * seed + noise) for seed in range(5, 8)]
        test = stats.ttest_ind(here, there, equal_var=False)
        its = found[row].comparison
        assert found[row].test == WELCH
        assert its.p_value == pytest.approx(min(1.0, 2 * test.pvalue))
        assert its[1:3] == pytest.approx(test.confidence_interval(0.975))


def test_a_row_that_is_not_finished_is_compared_at_the_seeds_it_has(tmp_path):
    for row, num_seeds in (("base", 3), ("one_head", 3), ("one_layer", 2)):
        _write_noisy(tmp_path, row, range(num_seeds))
    found = _effects(tmp_path)
    assert {effect.test for effect in found.values()} == {SEEDS}
    sides = ([math.sin(10.0 * seed + noise) for seed in range(2)] for noise in (3, 1))
    test = stats.ttest_rel(*sides)
    its = found["one_layer"].comparison
    assert its.p_value == pytest.approx(min(1.0, 2 * test.pvalue))
    assert its[1:3] == pytest.approx(test.confidence_interval(0.975), rel=1e-5)


def test_a_difference_that_would_have_been_seen_is_told(tmp_path):
    for row in ("base", "one_head", "one_layer", "no_positions"):
        _write_noisy(tmp_path, row, range(4))
    found = _effects(tmp_path)
    low, middle, high = sorted(effect.smallest for effect in found.values())
    sentence = f"{middle:.1f} BLEU ({low:.1f} to {high:.1f} by row) cannot be told"
    assert any(sentence in note for note in summaries(tmp_path)[0].notes)


def test_what_is_shown_to_be_near_is_told_from_what_is_not_known(tmp_path):
    for row in ("base", "one_head"):
        _write_noisy(tmp_path, row, range(3))
    found = _effects(tmp_path)["one_head"]
    reach = max(map(abs, found.ends))
    assert found.is_within(1.01 * reach) and not found.is_within(0.99 * reach)
    for margin, verdict in ((1.01 * reach, "BLEU differs by less than "), (0.1, "no difference")):
        [table] = summaries(tmp_path, margin=margin)
        assert verdict in {row.name: row.verdict for row in table.rows}["one_head"]


def test_scores_that_do_not_vary_are_compared_with_the_same_only(tmp_path):
    for row, bleu in (("base", 90.0), ("one_head", 90.0)):
        for seed in range(2):
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=2.0, bleu=bleu)
    assert _effects(tmp_path)["one_head"].comparison == (0, 0, 0, 1)
    for seed in range(2):
        fakes.write_record(tmp_path, TABLE, CONFIG, "one_layer", seed, perplexity=2.0, bleu=80.0)
    found = _effects(tmp_path)
    assert found["one_layer"].test == "" and found["one_head"].comparison == (0, 0, 0, 1)


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
    assert verdicts["one_head"] == "PPL not tested; BLEU worse (two models of one seed)"
    assert verdicts["one_layer"].endswith("BLEU within the noise of the sentences")
    assert found["one_head"].mark == "†" and found["one_layer"].mark == ""
    assert any("†: these two models, of one seed each" in note for note in table.notes)
    assert any("nothing of the noise between seeds" in note for note in table.notes)


def test_of_several_seeds_of_the_base_the_rows_own_is_taken(tmp_path):
    _write(tmp_path, "base", [0, 1], wrong_every=3)
    _write(tmp_path, "one_head", [1], wrong_every=3)
    found = _effects(tmp_path)["one_head"]
    # The same translations as seed 1 of the base, which are better than those of seed 0: what is
    # shown is what was tested, and not the difference of the means.
    assert found.test == BOOTSTRAP
    assert found.difference == found.comparison.difference == 0
    # Perplexity, which nothing tests at one seed, is compared at the same one.
    found = _effects(tmp_path, PERPLEXITY)["one_head"]
    assert (found.test, found.difference) == ("", 0)
    assert any(
        note.startswith("Not the same seeds as base (one_head)")
        for note in summaries(tmp_path)[0].notes
    )


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
    assert (found.test, found.comparison, found.mark) == ("", None, "")
    assert not found.is_significant
    assert any("No difference was tested" in note for note in summaries(tmp_path)[0].notes)


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


def test_a_difference_that_other_rows_take_back_is_none(tmp_path):
    write_a_difference_that_other_rows_take_back(tmp_path)
    outcomes = read_outcomes(tmp_path).runs
    both = {
        row: [outcome for outcome in outcomes if outcome.run.row == row]
        for row in ("base", "one_head")
    }
    assert effects(TEST_BLEU, both)["one_head"].is_significant
    assert not _effects(tmp_path)["one_head"].is_significant


@pytest.mark.parametrize("others", [["one_layer"], ["one_layer", "no_positions"]])
def test_a_row_that_is_base_to_the_last_digit_does_not_widen_the_others_intervals(tmp_path, others):
    for row in ("base", *others):
        _write_noisy(tmp_path, row, range(3))
    alone = _effects(tmp_path)[others[0]]
    for seed in range(3):
        bleu = 90.0 + math.sin(10.0 * seed + 1)  # base's
        fakes.write_record(tmp_path, TABLE, CONFIG, "one_head", seed, perplexity=2.0, bleu=bleu)
    found = _effects(tmp_path)
    assert found["one_head"].difference == found["one_head"].comparison.difference == 0.0
    assert not found["one_head"].is_significant
    assert found[others[0]].smallest < 4 * alone.smallest


def test_an_interval_beyond_all_numbers_ends_no_report(tmp_path):
    for row, perplexities in (("base", (2.0, 2.1)), ("one_head", (5.0, 1e99))):
        for seed, perplexity in enumerate(perplexities):
            fakes.write_record(tmp_path, TABLE, CONFIG, row, seed, perplexity=perplexity, bleu=9.0)
    assert math.isinf(_effects(tmp_path, PERPLEXITY)["one_head"].smallest)
    for format_name in report.FORMATS:
        assert "one_head" in report.text(tmp_path, format_name).replace("\\", "")
