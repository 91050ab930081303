"""What is kept of a sweep, and when another agrees with it."""

import math
import shutil

import pytest

from configs import tiny
from experiments.report import evidence
from experiments.report.measures import TEST_BLEU, Mean
from experiments.run import record
from t2t_jax.json_files import read_json, write_json
from tests.experiments import fakes, sweeps


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    directory = sweeps.write_sweep(place / "sweep")
    fakes.write_translations(
        directory / "quickstart" / "no_positions" / "seed-0", wrong_every=2, split="long"
    )
    evidence.keep(directory, place / "kept")
    return place


@pytest.fixture
def kept(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "kept"


def test_records_and_curves_are_kept_and_reported(tmp_path, kept):
    [run] = kept.glob("*/no_positions/seed-0")
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    sentences = "scores/long.sentences.json"  # a bootstrap needs them
    assert names == {"run.json", "record.json", "metrics.jsonl", sentences}
    assert "one_head" in (kept / "report.md").read_text()
    with pytest.raises(ValueError, match="kept is not empty"):
        evidence.keep(tmp_path / "sweep", kept)
    with pytest.raises(ValueError, match="no finished runs"):
        evidence.keep(tmp_path / "nothing", tmp_path / "other")


def test_the_counts_of_a_test_set_that_one_seed_of_several_has_are_kept(tmp_path):
    workdir = sweeps.write_sweep(tmp_path / "w")
    for row in ("base", "one_head"):
        directory = workdir / "quickstart" / row / "seed-0"
        values = read_json(directory / "record.json")
        values["scores"]["test2017"] = {"name": "test2017", "bleu": 12.5}
        write_json(directory / "record.json", values)
        fakes.write_translations(directory, wrong_every=2, split="test2017")
    evidence.keep(workdir, tmp_path / "kept")
    assert len(list((tmp_path / "kept").rglob("test2017.sentences.json"))) == 2


def test_where_prepared_data_lay_is_not_kept(tmp_path):
    config = tiny.get_config()
    config.data.cache = "/home/ada/cache"
    fakes.write_record(tmp_path / "w", sweeps.TABLE, config, "base", 0, perplexity=2.0, bleu=9.0)
    evidence.keep(tmp_path / "w", tmp_path / "kept")
    files = [path for path in (tmp_path / "kept").rglob("*.json*") if path.is_file()]
    assert len(files) >= 2 and not any("/home/ada" in path.read_text() for path in files)
    before, after = (next((tmp_path / name).rglob("record.json")) for name in ("w", "kept"))
    assert read_json(before)["scores"] == read_json(after)["scores"]


def test_the_same_sweep_agrees_with_what_was_kept_of_it(tmp_path, kept):
    found = evidence.compare(tmp_path / "sweep", kept)
    assert {each.row: each.is_inside for each in found} == {
        "base": True,
        "one_head": True,
        "no_positions": None,  # one seed has no interval
    }
    assert not any(each.differs for each in found)
    said = evidence.agreement_text(found)
    num_inside = sum(each.row != "no_positions" for each in found)
    assert f"{num_inside} of {num_inside} means lie within the intervals kept; 0 differ" in said
    assert f"; {len(found) - num_inside}, of one seed or of no finite numbers, have none" in said


def test_the_same_seeds_are_the_same_to_the_last_digit_or_so_far_apart(tmp_path, kept):
    sweep = tmp_path / "sweep"
    all_of_them = ["same seeds, a test: 6 of 6 agree to the last digit"]
    assert evidence.same_seeds(sweep, kept) == all_of_them
    [path] = sweep.glob("*/one_head/seed-0/record.json")
    values = read_json(path)
    values["hardware"] = "1 x other"
    values["scores"]["test"]["bleu"] += 0.25
    write_json(path, values)
    other, same = evidence.same_seeds(sweep, kept)
    assert same == "same seeds, a test: 5 of 5 agree to the last digit"
    assert other == (
        "same seeds, a test kept, 1 x other now: 0 of 1 agree to the last digit; "
        "at the most apart: BLEU 0.25"
    )


@pytest.mark.parametrize(
    ("bleus", "is_inside", "differs"),
    [((94.0, 93.5, 94.5), True, False), ((96.0,), False, False), ((50.0, 50.5, 51.0), False, True)],
)
def test_a_mean_outside_of_what_was_kept_is_told(tmp_path, kept, bleus, is_inside, differs):
    # Kept are 92, 91 and 93 BLEU: 92.0 ± 2.5.
    sweeps.write_row(tmp_path / "w", "base", [(1.3, bleu) for bleu in bleus])
    [_, agreement] = evidence.compare(tmp_path / "w", kept)
    assert agreement.measure.short == "BLEU"
    assert (agreement.is_inside, agreement.differs) == (is_inside, differs)
    assert ("DIFFERS" in evidence.agreement_text([agreement])) == differs


def test_a_row_of_which_a_seed_has_diverged_here_is_told_and_not_compared(tmp_path, kept):
    sweeps.write_row(tmp_path / "w", "base", [(1.3, 92.0), (1.3, 91.0)])
    sweeps.write_row(tmp_path / "w", "one_head", [(1.6, 90.0), (1.7, 88.0)])
    [lost] = (tmp_path / "w").glob("*/base/seed-1")
    (lost / record.RECORD_FILE).unlink()
    write_json(lost / record.FAILURE_FILE, {"error": "diverged at step 7: the loss is nan"})
    assert {each.row for each in evidence.compare(tmp_path / "w", kept)} == {"one_head"}
    assert evidence.diverged_alone(tmp_path / "w", kept) == ["base (here)"]
    assert len(evidence.same_seeds(tmp_path / "w", kept)) >= 1
    assert evidence.diverged_alone(kept, kept) == []


def test_another_base_is_refused(tmp_path, kept):
    config = sweeps.CONFIG.copy_and_resolve_references()
    config.training.steps = 77
    # Beside runs of the base that was kept, of which the same seed is one.
    for name, base in (("a", sweeps.CONFIG), ("b", config)):
        fakes.write_record(
            tmp_path / "w" / name, sweeps.TABLE, base, "base", 0, perplexity=1.3, bleu=92.0
        )
    with pytest.raises(ValueError, match="row base has another config: training.steps 1100 there"):
        evidence.compare(tmp_path / "w", kept)


def test_a_row_that_means_something_else_now_is_refused(tmp_path, kept):
    directory = fakes.write_record(
        tmp_path / "w", sweeps.TABLE, sweeps.CONFIG, "one_head", 0, perplexity=1.3, bleu=92.0
    )
    for name in (record.RUN_FILE, record.RECORD_FILE):
        values = record.read_json(directory / name)
        values["config"]["model"]["d_k"] = 64
        record.write_json(directory / name, values)
    with pytest.raises(ValueError, match="row one_head has another config: model.d_k 128 there"):
        evidence.compare(tmp_path / "w", kept)


def test_other_data_are_refused(tmp_path, kept):
    fakes.write_record(
        tmp_path / "w",
        sweeps.TABLE,
        sweeps.CONFIG,
        "base",
        7,
        perplexity=1.3,
        bleu=92.0,
        data_fingerprint="d1",
    )
    with pytest.raises(ValueError, match="row base is of other data: d0 there, d1 here"):
        evidence.compare(tmp_path / "w", kept)


def test_a_key_that_an_earlier_version_lacks_had_the_value_of_base(tmp_path, kept):
    for path in (*kept.rglob("run.json"), *kept.rglob("record.json")):
        run = record.read_json(path)
        del run["config"]["model"]["norm"]
        record.write_json(path, run)
    assert evidence.compare(tmp_path / "sweep", kept)
    config = sweeps.CONFIG.copy_and_resolve_references()
    config.model.norm = "pre"
    other = (sweeps.TABLE, config, "base", 7)
    fakes.write_record(tmp_path / "w", *other, perplexity=1.3, bleu=92.0)
    with pytest.raises(ValueError, match="another config: model.norm 'post' there, 'pre' here"):
        evidence.compare(tmp_path / "w", kept)


@pytest.mark.parametrize(
    ("then", "now", "differs"),
    [
        ([100.0] * 3, [50.0] * 3, True),
        ([100.0] * 3, [100.0] * 3, False),
        ([1.2, 1.3], [math.inf, 1.3], True),
        ([1.2], [math.inf], True),
        ([math.inf] * 2, [math.inf] * 2, False),
        ([100.0] * 3, [50.0], False),  # one seed tells nothing
    ],
)
def test_what_no_test_can_compare_is_compared_all_the_same(then, now, differs):
    p_value = evidence._p_value(TEST_BLEU, then, now)
    assert (p_value is not None and p_value < 0.05) == differs


def test_runs_that_did_not_come_out_are_kept_and_told(tmp_path, kept, capsys):
    sweep = tmp_path / "sweep"
    for row in ("base", "one_head"):
        [directory] = sweep.glob(f"*/{row}/seed-1")
        (directory / "record.json").unlink()
        if row == "base":
            record.write_json(directory / "failure.json", {"error": "ValueError: boom"})
        else:
            (directory / "run.json").unlink()
    evidence.keep(sweep, tmp_path / "again")
    missing = (tmp_path / "again" / "report.md").read_text().partition("Missing:")[2]
    assert "base seed 1 failed: ValueError: boom" in missing
    assert evidence.not_compared(sweep, kept) == (
        ["quickstart/base/seed-1"],
        ["quickstart/one_head/seed-1"],
    )
    with pytest.raises(SystemExit, match="^1$"):
        evidence.main(["evidence", "compare", str(sweep), str(kept)])
    assert capsys.readouterr().out.endswith(
        f"not finished in {sweep}:\n  quickstart/base: seed-1\n"
        f"not asked for in {sweep}:\n  quickstart/one_head: seed-1\n"
    )


def test_a_sweep_that_agrees_ends_with_0(tmp_path, kept):
    with pytest.raises(SystemExit, match="^0$"):
        evidence.main(["evidence", "compare", str(tmp_path / "sweep"), str(kept)])


def test_sweeps_without_a_common_row_are_told(tmp_path, kept):
    fakes.write_record(
        tmp_path / "other", sweeps.TABLE, sweeps.CONFIG, "one_layer", 0, perplexity=1.3, bleu=1.0
    )
    with pytest.raises(ValueError, match="no finished row in common"):
        evidence.compare(tmp_path / "other", kept)


def test_a_copy_of_a_run_is_no_second_seed_of_a_comparison(tmp_path, kept):
    for name in "ab":
        fakes.write_record(
            tmp_path / "w" / name, sweeps.TABLE, sweeps.CONFIG, "base", 0, perplexity=1.3, bleu=96.0
        )
    assert [each.now for each in evidence.compare(tmp_path / "w", kept)] == [
        Mean(1.3, None),
        Mean(96.0, None),
    ]


def test_many_comparisons_are_corrected_for_their_number(tmp_path, kept):
    sweeps.write_row(tmp_path / "w", "base", [(1.2, 94.6), (1.3, 93.6), (1.4, 95.6)])
    found = evidence.compare(tmp_path / "w", kept)
    assert evidence._p_value(TEST_BLEU, [92.0, 91.0, 93.0], [94.6, 93.6, 95.6]) < 0.05
    assert not any(each.differs for each in found)


def test_what_equal_seconds_took_is_kept(tmp_path):
    workdir = sweeps.write_sweep(tmp_path / "sweep")
    write_json(workdir / "quickstart" / record.SECONDS_FILE, {"base": 0.1})
    evidence.keep(workdir, tmp_path / "kept")
    assert read_json(tmp_path / "kept" / "quickstart" / record.SECONDS_FILE) == {"base": 0.1}


def test_rows_of_several_tables_are_told_apart(tmp_path):
    other = sweeps.TABLE._replace(name="other")
    for table in (sweeps.TABLE, other):
        fakes.write_record(
            tmp_path / "w", table, sweeps.CONFIG, "base", 0, perplexity=1.2, bleu=9.0
        )
    found = evidence.compare(tmp_path / "w", tmp_path / "w")
    assert {each.row for each in found} == {"quickstart/base", "other/base"}
    # Near 1 a perplexity has a digit more.
    assert {each.measure.digits for each in found if each.measure.is_logarithmic} == {3}
