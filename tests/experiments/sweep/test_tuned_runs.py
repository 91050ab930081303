"""Trials, and the runs at the values they choose; a formula replaces the training."""

import shutil

import pytest

from experiments.launchers.event import Event
from experiments.report.figures.tuning import panels
from experiments.report.summary import summaries
from experiments.run import record
from experiments.sweep import dry_run, prepared_runs, status, time_left, tuned_runs
from tests.experiments import tuned_sweeps
from tests.experiments.tuned_sweeps import CONFIG, RATE, TABLE, launch, prepared, swept

CHOSEN = 0.001265  # the third of five


def _names(directories):
    return [f"{path.parent.name}/{path.name}" for path in directories]


def _rate(directory):
    return record.read_run(directory).config["training"]["peak_learning_rate"]


def test_every_row_has_its_seeds_the_same_trials_and_runs_that_wait(tmp_path):
    directories = prepared(tmp_path, "base,worse", num_seeds=2)
    assert _names(directories[:4]) == [
        *("base/seed-0", "worse/seed-0", "base/seed-1", "worse/seed-1"),
    ]
    assert _names(directories[4:14]) == [
        f"{row}/trial-{trial}" for trial in range(5) for row in ("base", "worse")
    ]
    assert _names(directories[14:]) == [
        f"{row}/tuned-seed-{seed}" for seed in (0, 1) for row in ("base", "worse")
    ]
    trials = [record.read_run(path) for path in directories[4:14]]
    assert [run.point[RATE] for run in trials[::2]] == [run.point[RATE] for run in trials[1::2]]
    assert {run.seed for run in trials}.isdisjoint(range(100)) and len(
        {r.seed for r in trials}
    ) == 1
    assert all(record.read_run(path).awaits_trials for path in directories[14:])


def test_the_best_point_of_each_row_is_trained_with_the_seeds_of_the_table(tmp_path, capsys):
    swept(tmp_path)
    said = capsys.readouterr().out
    assert "44 runs, 0 of them finished before" in said
    assert "base goes on with peak_learning_rate=0.001265" in said
    for row in ("base", "too_high", "twin", "worse"):
        for seed in range(3):
            directory = tmp_path / f"planted/{row}/tuned-seed-{seed}"
            assert _rate(directory) == CHOSEN and record.read_run(directory).seed == seed
            assert record.read_record(directory)["tuning"]["point"] == {RATE: CHOSEN}
    assert _rate(tmp_path / "planted/too_high/seed-0") == 0.03


def test_the_same_command_again_does_what_is_not_finished_and_repeats_nothing(tmp_path, capsys):
    did = []

    def stops_after(number):
        def launched(directories):
            for directory in directories:
                if len(did) == number:
                    raise KeyboardInterrupt
                did.append(directory)
                yield from launch([directory])

        return launched

    for number in (3, 9, 19):  # among the seeds, the trials, the tuned runs
        with pytest.raises(KeyboardInterrupt):
            prepared_runs.do_unfinished(prepared(tmp_path, "base,worse"), stops_after(number))
    assert prepared_runs.do_unfinished(prepared(tmp_path, "base,worse"), stops_after(99)) == 0
    assert len(did) == len(set(did)) == 2 * (3 + 5 + 3)
    capsys.readouterr()
    swept(tmp_path, "base,worse")
    assert capsys.readouterr().out == "22 runs, 22 of them finished before\n"


def test_a_row_whose_trial_failed_is_not_tuned_and_the_others_are(tmp_path, capsys):
    def one_fails(directories):
        for directory in directories:
            if directory.parent.name == "base" and directory.name == "trial-2":
                yield Event(directory, "failed", 1.0, "the machine is gone")
            else:
                yield from launch([directory])

    assert prepared_runs.do_unfinished(prepared(tmp_path, "base,worse"), one_fails) == 1
    assert "base is not tuned yet: a trial of it is not over" in capsys.readouterr().out
    assert _rate(tmp_path / "planted/worse/tuned-seed-0") == CHOSEN
    assert record.read_run(tmp_path / "planted/base/tuned-seed-0").awaits_trials
    swept(tmp_path, "base,worse")
    assert _rate(tmp_path / "planted/base/tuned-seed-0") == CHOSEN


def test_what_a_row_has_anyway_is_not_trained_twice(tmp_path, capsys):
    found = tuned_sweeps.space([f"{RATE}=[0.0005,0.003,0.01]"], None)
    for _ in range(2):
        swept(tmp_path, "base,too_high", found=found)
        said = capsys.readouterr().out
        assert "base has peak_learning_rate=0.003 already, which was chosen: its own runs" in said
    assert not list(tmp_path.glob("planted/base/tuned-*"))
    assert _rate(tmp_path / "planted/too_high/tuned-seed-1") == 0.003


def test_a_trial_that_diverged_loses_and_a_row_without_another_is_not_tuned(tmp_path, capsys):
    swept(tmp_path, "base", found=tuned_sweeps.space([f"{RATE}=log(0.01,0.1)"], 3))
    assert "base trial-2 finished in 1 s: diverged at step 7" in capsys.readouterr().out
    assert _rate(tmp_path / "planted/base/tuned-seed-0") == 0.01
    states = {run.name: run.state for run in status.standing(tmp_path).runs}
    assert states["planted base trial-2"] == "diverged"
    swept(tmp_path / "all", "base", found=tuned_sweeps.space([f"{RATE}=log(0.05,0.1)"], 2))
    assert "base is not tuned: each of its trials diverged" in capsys.readouterr().out


def test_another_space_in_the_same_directory_is_refused(tmp_path):
    swept(tmp_path, "base")
    with pytest.raises(ValueError, match=rf"trial-1 holds a run with another config: {RATE} is"):
        prepared(tmp_path, "base", found=tuned_sweeps.space(trials=4))


def test_what_fewer_trials_chose_is_not_taken_for_the_best_of_more(tmp_path):
    def of(*values):
        return tuned_sweeps.space([f"{RATE}=[{','.join(map(str, values))}]"], None)

    swept(tmp_path, "worse", found=of(0.0003, 0.0005), num_seeds=1)
    assert _rate(tmp_path / "planted/worse/tuned-seed-0") == 0.0005
    for _ in range(2):  # nothing is written
        with pytest.raises(ValueError, match="tuned-seed-0 is at the best of 2 trials of"):
            prepared(tmp_path, "worse", found=of(0.0003, 0.0005, CHOSEN), num_seeds=2)
        assert not (tmp_path / "planted/worse/tuned-seed-1").exists()
    shutil.rmtree(tmp_path / "planted/worse/tuned-seed-0")
    swept(tmp_path, "worse", found=of(0.0003, 0.0005, CHOSEN), num_seeds=2)
    assert {_rate(tmp_path / f"planted/worse/tuned-seed-{seed}") for seed in (0, 1)} == {CHOSEN}
    [table] = summaries(tmp_path)
    assert table.tuning.num_trials == 3


def test_a_run_that_has_its_point_and_not_begun_keeps_it_from_more_trials(tmp_path):
    def of(*values):
        return tuned_sweeps.space([f"{RATE}=[{','.join(map(str, values))}]"], None)

    def stops(directories):
        for directory in directories:
            if directory.name.startswith("tuned"):
                raise KeyboardInterrupt
            yield from launch([directory])

    directories = prepared(tmp_path, "worse", found=of(0.0003, 0.0005), num_seeds=1)
    with pytest.raises(KeyboardInterrupt):
        prepared_runs.do_unfinished(directories, stops)
    assert _rate(tmp_path / "planted/worse/tuned-seed-0") == 0.0005
    with pytest.raises(ValueError, match="tuned-seed-0 is at the best of 2 trials of"):
        prepared(tmp_path, "worse", found=of(0.0003, 0.0005, CHOSEN), num_seeds=1)


def test_trials_left_from_a_larger_space_do_not_count(tmp_path):
    def of(*values):
        return tuned_sweeps.space([f"{RATE}=[{','.join(map(str, values))}]"], None)

    directories = prepared(tmp_path, "worse", found=of(0.0003, 0.0005, CHOSEN), num_seeds=1)
    list(launch(path for path in directories if path.name.startswith("trial")))
    shutil.rmtree(tmp_path / "planted/worse/trial-1")
    directories = prepared(tmp_path, "worse", found=of(0.0003, 0.0005), num_seeds=1)
    waiting = [path for path in directories if path.name == "tuned-seed-0"]
    assert tuned_runs.settle(waiting, print) == waiting
    assert record.read_run(waiting[0]).awaits_trials  # two trials are over, but not these two
    assert prepared_runs.do_unfinished(directories, launch) == 0
    assert _rate(waiting[0]) == 0.0005
    [table] = summaries(tmp_path)
    assert table.tuning.num_trials == 2
    assert [trial.point[RATE] for trial in table.tuning.rows["worse"].trials] == [0.0003, 0.0005]


def test_rows_tuned_over_different_keys_are_drawn_each_with_its_own(tmp_path):
    swept(tmp_path, "base")
    smoothing = tuned_sweeps.space(["training.label_smoothing=[0.05,0.15]"], None)
    swept(tmp_path, "worse", found=smoothing)
    [table] = tables = summaries(tmp_path)
    said = " ".join(table.method)
    assert f"Tuning: base was trained at the same 5 points of {RATE}=" in said
    assert "worse was trained at the same 2 points of training.label_smoothing=" in said
    assert "had other chances than base" in said
    drawn = panels(tables)
    assert [(panel.key, [line.label for line in panel.lines]) for panel in drawn] == [
        (RATE, ["base"]),
        ("training.label_smoothing", ["worse"]),
    ]


def test_what_somebody_tried_with_a_run_that_waits_does_not_block_the_sweep(tmp_path):
    found = tuned_sweeps.space([f"{RATE}=[0.0005,0.003,0.01]"], None)
    directories = prepared(tmp_path, "base", found=found)
    (tmp_path / "planted/base/tuned-seed-0/failure.json").write_text("{}")
    assert prepared_runs.do_unfinished(directories, launch) == 0
    assert not list(tmp_path.glob("planted/base/tuned-*"))


def test_what_another_command_has_removed_is_left_out(tmp_path):
    directories = prepared(tmp_path, "base,worse")
    [removed] = [path for path in directories if str(path).endswith("base/tuned-seed-0")]
    (removed / record.RUN_FILE).unlink()
    left = tuned_runs.settle(directories, print)
    assert removed not in left and len(left) == len(directories) - 1


def test_a_sweep_without_tuning_becomes_a_tuned_one_and_back(tmp_path, capsys):
    rows = TABLE.rows(CONFIG).select("base")
    fixed = prepared_runs.prepare(TABLE, rows, CONFIG, 3, tmp_path)
    prepared_runs.do_unfinished(fixed, launch)
    capsys.readouterr()
    swept(tmp_path, "base")
    assert "11 runs, 3 of them finished before" in capsys.readouterr().out
    assert prepared_runs.prepare(TABLE, rows, CONFIG, 3, tmp_path) == fixed


def test_a_run_of_before_has_no_tuning(tmp_path):
    [directory] = prepared(tmp_path, "base", num_seeds=1)[:1]
    values = record.read_json(directory / "run.json")
    record.write_json(directory / "run.json", {k: v for k, v in values.items() if k != "tuning"})
    assert record.read_run(directory).kind == "fixed"


def test_status_and_time_left_count_what_waits_too(tmp_path):
    directories = prepared(tmp_path, "base,worse", num_seeds=1)
    for directory in directories[:3]:  # two seeds and a trial of base
        tuned_sweeps.write_record(directory)
    found = status.standing(tmp_path)
    assert [run.name for run in found.runs[:7]] == [
        f"planted base {name}" for name in ("seed-0", *(f"trial-{n}" for n in range(5)))
    ] + ["planted base tuned-seed-0"]
    assert found.runs[6].remark == "for the trials of its row"
    assert len(found.runs) == 14
    # A trial takes what its training takes, and the little that it is scored by.
    assert found.forecast.seconds == pytest.approx(9 * (60 + 2) + 2 * (60 + 2 + 2))


def test_a_trial_says_nothing_of_how_long_translating_takes(tmp_path):
    trial, fixed = (time_left.Job("base", 1.0, 1.0, beam) for beam in (0.0, 4.0))
    over = trial._replace(stage="over", train=10.0, overhead=1.0)
    assert time_left.forecast([over, trial], 1).of_runs == [0.0, 11.0]
    scoring = trial._replace(stage="scoring", trained=1.0, train=10.0, elapsed=2.0)
    assert time_left.forecast([over, scoring], 1).of_runs == [0.0, pytest.approx(0.2)]
    assert time_left.forecast([over, fixed], 1).seconds is None
    scored = fixed._replace(stage="over", train=10.0, score=100.0, overhead=0.0)
    assert time_left.forecast([over, scored, fixed], 1).seconds > 100


def test_a_dry_run_counts_trials_and_tuned_runs():
    rows = TABLE.rows(CONFIG)
    lines = dry_run.text(TABLE, rows, CONFIG, 3, None, tuned_sweeps.space()).splitlines()
    assert lines[3].split()[:2] == ["base", "11"] and lines[7].split()[:2] == ["all", "44"]
    said = " ".join(lines)
    assert "3 runs at its own values, 5 trials of one seed, at peak_learning_rate=0.0002;" in said
