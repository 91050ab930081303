"""The report of a tuned table: verdicts, losses, edges, cost; by a formula and by hand."""

import csv
import io
import math
import re
import shutil

import pytest

from configs import base
from experiments.report import report
from experiments.report.effects import BOOTSTRAP, SEEDS, Effect
from experiments.report.evidence import compare, keep
from experiments.report.export.exported_runs import read_runs
from experiments.report.figures import forest_plot
from experiments.report.figures import tuning as figure
from experiments.report.measures import TEST_BLEU
from experiments.report.summary import summaries
from experiments.report.tuned import _edges, holds, losses, verdict_of
from experiments.run import record
from experiments.run.trials import Trial
from experiments.sweep import prepared_runs, smallest_difference
from experiments.tables import table3, tuning
from t2t_jax.evaluation.significance import Comparison
from tests.experiments import tuned_sweeps
from tests.experiments.tuned_sweeps import CONFIG, RATE, launch, swept

CHOSEN = {RATE: 0.001265}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("tuned"))


@pytest.fixture(scope="module")
def rows(workdir):
    [table] = summaries(workdir)
    return {row.name: row for row in table.rows}


def _effect(difference, is_significant, test=SEEDS):
    half = abs(difference) * (0.5 if is_significant else 2)
    ends = Comparison(difference, difference - half, difference + half, 0.5)
    return Effect(difference, test, ends, (ends.low, ends.high), half)


@pytest.mark.parametrize(
    ("fixed", "tuned", "word"),
    [
        (_effect(-2, True), _effect(-1, True), "robust"),
        (_effect(2, True), _effect(-1, True), "reverses"),
        (_effect(2, True), _effect(1, False), "vanishes"),
        (_effect(2, True), _effect(-1, False), "vanishes"),
        (_effect(2, False), _effect(-1, True), "appears"),
        (_effect(2, False), _effect(1, False), "not seen"),
        (_effect(2, True), Effect(1.0), "not tested"),
        (_effect(2, True), None, "not tested"),
        (_effect(2, True, BOOTSTRAP), _effect(1, True), "robust (two models of one seed)"),
    ],
)
def test_a_verdict_is_of_sign_and_significance_both_times(fixed, tuned, word):
    assert verdict_of(fixed, tuned) == word


@pytest.mark.parametrize(
    ("fixed", "tuned", "word"),
    [
        (_effect(-2, True), _effect(-1, True), "holds"),
        (_effect(-2, False), _effect(-1, True), "holds only tuned"),
        (_effect(2, True), _effect(-1, True), "holds only tuned"),
        (_effect(-2, True), _effect(1, True), "does not hold"),
        (_effect(-2, True), _effect(1, False), "not seen under 2.0, holds untuned"),
        (_effect(2, True), _effect(1, False), "not seen under 2.0"),
        (_effect(2, True), Effect(1.0), "not tested"),
    ],
)
def test_the_papers_direction_holds_where_tuned_rows_differ_to_its_side(fixed, tuned, word):
    assert holds(-0.9, fixed, tuned, TEST_BLEU) == word


def test_fixed_and_tuned_stand_side_by_side_each_against_its_own_base(rows):
    assert all(row.tuned.chosen == CHOSEN for row in rows.values())
    words = {name: row.tuned.verdict for name, row in rows.items()}
    expected = {"too_high": "vanishes", "twin": "not seen", "worse": "robust"}
    assert words == {"base": "", **expected}
    # The formula's: 20 points of BLEU a nat; a rate for all, and the same noise in both.
    worse = rows["worse"]
    assert worse.tuned.effects["test_bleu"].difference == pytest.approx(
        worse.effects["test_bleu"].difference
    )
    too_high = rows["too_high"]
    assert too_high.effects["test_bleu"].difference < -50
    assert too_high.tuned.effects["test_bleu"].difference == pytest.approx(0, abs=1e-9)
    assert rows["twin"].tuned.means == rows["base"].tuned.means == too_high.tuned.means


def test_the_seed_of_trials_is_in_no_mean(rows):
    assert [row.num_seeds for row in rows.values()] == [3] * 4
    assert all(len(row.tuned.outcomes) == 3 for row in rows.values())
    assert all(len(row.tuned.trials) == 5 for row in rows.values())


def _trials(*pairs):
    return [Trial({RATE: value}, perplexity) for value, perplexity in pairs]


def test_a_loss_is_read_between_trials_in_the_logarithm_of_the_value():
    trials = _trials((1e-3, 4.0), (4e-3, 2.0), (8e-3, 3.0))
    # Half is in the middle of 1e-3 and 4e-3: the geometric mean of their perplexities.
    half, twice = losses(trials, {RATE: 4e-3})
    assert half == pytest.approx(math.sqrt(4 * 2) - 2) and twice == pytest.approx(3 - 2)
    assert losses(trials, {RATE: 8e-3}) == (pytest.approx(2 - 3), None)  # blank beyond the space
    gone = _trials((1e-3, 4.0), (4e-3, 2.0), (16e-3, math.inf))
    assert losses(gone, {RATE: 4e-3})[1] == math.inf
    assert losses(trials, {}) == losses(trials, {RATE: 4e-3, "b": 1}) == (None, None)
    assert losses([Trial({"a": "x"}, 2.0)], {"a": "x"}) == (None, None)


def test_what_is_chosen_at_the_edge_of_the_space_is_told(tmp_path):
    swept(tmp_path, "base,worse", found=tuned_sweeps.space([f"{RATE}=log(2e-4,6e-4)"], 3))
    [table] = summaries(tmp_path)
    assert table.rows[0].tuned.edges == ["highest peak_learning_rate=0.0006"]
    assert "widen it. base (highest peak_learning_rate=0.0006), worse (" in " ".join(table.notes)
    assert "peak_learning_rate=0.0006 (at the edge)" in report.text(tmp_path, "markdown")


def test_of_several_keys_no_point_is_at_an_edge():
    trials = [Trial({RATE: value, "b": value}, 2.0) for value in (1e-3, 2e-3)]
    assert _edges(trials, {RATE: 2e-3, "b": 2e-3}) == []
    assert _edges(_trials((1e-3, 3.0), (2e-3, 2.0)), {RATE: 2e-3}) != []


def test_a_space_that_has_nothing_as_good_as_the_rows_own_value_is_told(tmp_path):
    swept(tmp_path, "base", found=tuned_sweeps.space([f"{RATE}=log(2e-4,4e-4)"], 2))
    [table] = summaries(tmp_path)
    [row] = table.rows
    own, tuned = (means["dev_perplexity"].mean for means in (row.means, row.tuned.means))
    assert own < tuned
    assert f"or its trial had luck: base ({own:.2f}, tuned {tuned:.2f})." in " ".join(table.notes)


def test_what_tuning_took_is_told(workdir):
    [table] = summaries(workdir)
    assert not any("had luck" in note and "base (" in note for note in table.notes)
    # 20 trials and 12 runs of 62 seconds, of 44.
    said = "Tuning took 20 trials and 12 runs at chosen values: 0.55 of 0.76 hours, 73 % of all."
    assert said in table.notes
    assert any(
        note.endswith("cannot be told from noise between tuned rows.") for note in table.notes
    )


def test_trials_that_diverged_are_counted_and_no_run_is_missing(tmp_path):
    swept(tmp_path, "base,worse", found=tuned_sweeps.space([f"{RATE}=[0.0001,0.001,0.03]"], None))
    [table] = summaries(tmp_path)
    assert "6 trials, of which 2 diverged, and" in " ".join(table.notes)
    assert table.unfinished == []
    assert [trial.perplexity for trial in table.rows[0].tuned.trials][2] == math.inf
    assert "diverged" in report.text(tmp_path, "markdown").splitlines()[4]  # at twice


def test_a_row_of_which_each_trial_diverged_says_so(tmp_path):
    swept(tmp_path, "base,worse", found=tuned_sweeps.space([f"{RATE}=log(0.05,0.1)"], 2))
    assert "each trial diverged" in report.text(tmp_path, "markdown")


def test_what_the_row_has_anyway_serves_as_tuned(tmp_path):
    found = tuned_sweeps.space([f"{RATE}=[0.0005,0.003,0.01]"], None)
    swept(tmp_path, "base,too_high,worse", found=found)
    [table] = summaries(tmp_path)
    rows = {row.name: row for row in table.rows}
    assert [row.name for row in table.rows if row.tuned.is_own] == ["base", "worse"]
    assert rows["base"].tuned.means == rows["base"].means == rows["too_high"].tuned.means
    assert "so that its own runs serve: base, worse." in " ".join(table.notes)
    assert rows["worse"].tuned.verdict == "robust"


def test_what_is_not_finished_is_listed(tmp_path):
    directories = tuned_sweeps.prepared(tmp_path, "base", num_seeds=1)
    tuned_sweeps.write_record(directories[0])
    [table] = summaries(tmp_path)
    missing = [f"base {name} not finished" for name in (*(f"trial {n}" for n in range(5)),)]
    assert table.unfinished == [*missing, "base tuned seed 0 not finished"]
    assert table.rows[0].tuned.chosen == {}


@pytest.mark.parametrize("format_name", list(report.FORMATS))
def test_every_format_has_both_differences_and_the_verdict(workdir, format_name):
    text = report.text(workdir, format_name)
    for words in ("tuned", "robust", "vanishes", "0.001265"):
        assert words in text
    assert "nan" not in text and "None" not in text


def test_csv_has_all_of_it_in_full_and_without_tuning_what_it_had(workdir, tmp_path):
    found = {row["row"]: row for row in csv.DictReader(io.StringIO(report.text(workdir, "csv")))}
    assert found["worse"]["chosen"] == f"{RATE}=0.001265"
    assert float(found["worse"]["tuned_test_bleu_difference"]) == pytest.approx(-8.127, abs=1e-3)
    assert float(found["base"]["loss_at_half"]) > 0 and found["base"]["fixed_and_tuned"] == ""
    shutil.copytree(workdir, tmp_path / "w")
    for path in [*(tmp_path / "w").rglob("t*-*")]:
        shutil.rmtree(path)
    assert "tuned" not in report.text(tmp_path / "w", "csv").splitlines()[0]
    assert "tuned" not in report.text(tmp_path / "w", "markdown")


def test_the_command_that_makes_it_anew_tunes(workdir):
    [table] = summaries(workdir)
    [command] = table.commands
    assert f"--tune='{RATE}=log(2e-4,8e-3)' --trials=5" in command and "--seeds=3" in command


def test_there_is_a_figure_of_the_values_tried(workdir, tmp_path):
    [panel] = figure.panels(summaries(workdir))
    assert [line.label for line in panel.lines] == ["base", "too_high", "twin", "worse"]
    assert [value for value, _ in panel.lines[0].trials] == [
        2e-4,
        0.000503,
        0.001265,
        0.003181,
        8e-3,
    ]
    assert all(line.chosen == CHOSEN[RATE] for line in panel.lines)
    axis = figure.draw([panel]).axes[0]
    assert axis.get_xscale() == axis.get_yscale() == "log" and axis.get_xlabel() == RATE
    assert "tuning.png" in {path.name for path in report.write_report(workdir)}
    several = tuned_sweeps.space([f"{RATE}=log(2e-4,8e-3)", "model.norm=[pre,post]"], 4)
    swept(tmp_path, "base", found=several)
    [panel] = figure.panels(summaries(tmp_path))  # words have no axis
    assert not panel.is_one


def test_the_forest_plot_has_a_row_at_its_own_values_and_at_its_best_ones(workdir, rows):
    [panel] = forest_plot.panels(summaries(workdir))
    assert [name for name, _ in panel.rows] == ["too_high", "twin", "worse"]
    bleu = {(point.row, point.is_tuned): point for point in panel.forests[0].points}
    assert bleu["too_high", False].is_significant and not bleu["too_high", True].is_significant
    for name, row in rows.items():
        if name != "base":
            tuned = row.tuned.effects["test_bleu"].comparison
            assert bleu[name, True][2:5] == (tuned.difference, tuned.low, tuned.high)
    drawn = forest_plot.draw([panel])
    heights = {
        (line.get_markeredgecolor(), line.get_ydata()[0])
        for line in drawn.axes[0].lines
        if line.get_marker() in "o<>"
    }
    assert len({colour for colour, _ in heights}) == 2
    assert len({place for _, place in heights}) == 6
    [legend] = drawn.subfigs[0].legends
    assert any("tuned" in text.get_text() for text in legend.get_texts())


def test_the_papers_directions_hold_or_not_at_any_base(tmp_path):
    """At the paper's base and a smaller one, by the sign of differences that are planted."""
    for config in (CONFIG, base.get_config()):
        workdir = tmp_path / str(config.model.d_model)
        rows = table3.TABLE.rows(config).select("base,A.h=1,C.N=*")
        keys = [f"{RATE}=log(2e-4,8e-3)", "training.learning_rate_scale=log(0.5,2)"]
        words = keys[config.training.schedule == "paper"]
        space = tuning.space([words], 3, config)
        directories = prepared_runs.prepare(table3.TABLE, rows, config, 3, workdir, space=space)
        prepared_runs.do_unfinished(directories, launch)
        [table] = summaries(workdir)
        found = {row.name: row.tuned.direction for row in table.rows}
        assert found["base"] == "" and found["A.h=1"].startswith("PPL not seen under 0.")
        assert "the paper's direction" in report.text(workdir, "markdown")


def test_what_is_kept_of_a_tuned_sweep_reports_alike_and_is_compared_by_its_fixed_runs(
    workdir, tmp_path
):
    keep(workdir, tmp_path / "kept")
    assert report.text(tmp_path / "kept", "csv") == report.text(workdir, "csv")
    agreements = compare(workdir, tmp_path / "kept")
    assert len(agreements) == 8 and not any(each.differs for each in agreements)


def test_exports_tell_a_trial_from_a_seed(workdir):
    runs, _ = read_runs(workdir)
    titles = [run.title for run in runs]
    assert len(set(titles)) == len(titles) == 44
    assert {"base seed-0", "base trial-3", "base tuned-seed-2"} <= set(titles)


def test_trials_say_nothing_of_the_noise_between_seeds(workdir):
    text = smallest_difference.text(CONFIG, 3, 3, bleu=None, workdir=workdir)
    assert "the 4 rows of this base in" in text


def test_somebodys_damaged_trial_spoils_that_alone(workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / "w")
    path = tmp_path / "w/planted/worse/trial-0/run.json"
    values = record.read_json(path)
    record.write_json(path, values | {"tuning": {"point": []}})
    [table] = summaries(tmp_path / "w")
    assert "tuning must be none" in " ".join(table.damaged)
    assert table.rows[-1].tuned.verdict == "robust"


def test_where_trials_and_tuned_runs_come_from_is_told_too(workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / "w")
    for path in tmp_path.glob("w/planted/*/t*/record.json"):
        record.write_json(path, record.read_json(path) | {"commit": "4567def"})
    [table] = summaries(tmp_path / "w")
    [note] = [note for note in table.notes if note.startswith("Mixed commits")]
    told = {
        commit: set(names.split(", "))
        for commit, names in re.findall(r"(\w+) \(([^)]*)\)", note.partition(": ")[2])
    }
    assert told == {
        "0123abc": {row.name for row in table.rows},
        "4567def": {"trials", "runs at chosen values"},
    }


def test_a_row_that_diverges_at_its_own_rate_alone_has_a_verdict(workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / "w")
    directory = tmp_path / "w/planted/too_high/seed-1"
    (directory / record.RECORD_FILE).unlink()
    record.write_json(directory / record.FAILURE_FILE, {"error": "diverged at step 7: nan"})
    [table] = summaries(tmp_path / "w")
    [row] = (row for row in table.rows if row.name == "too_high")
    assert row.tuned.verdict == "fixed, 1 of 3 seeds diverged"
    assert any("the number of seeds is not n: too_high 3." in note for note in table.notes)
