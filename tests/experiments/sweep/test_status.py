"""The state of runs, from their files."""

import io
import json
import subprocess
import sys
import time

import pytest
import rich.console

from experiments.run import presence, record
from experiments.sweep import prepared_runs, status
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, prepared


@pytest.fixture
def directory(tmp_path):
    return prepared(tmp_path, "base")[0]


def _train_entry(step, seconds):
    entry = {"split": "train", "step": step, "loss": 2.5, "seconds": seconds}
    return json.dumps(entry | {"target_tokens_per_second": 1234.5}) + "\n"


def _sign(directory, **values):
    sign = presence.Sign("elsewhere", 7, time.time() - 60, time.time(), "training")
    record.write_json(directory / presence.RUNNING_FILE, sign._replace(**values)._asdict())


def test_a_run_nobody_has_begun_is_waiting(directory):
    assert status.status(directory) == status.Status(
        "quickstart base seed-0", "waiting", 0, CONFIG.training.steps
    )


def test_a_training_run_tells_step_loss_speed_and_time_left(directory, tmp_path):
    # The first entry holds the compilation; the speed is that of what follows.
    lines = [_train_entry(1, 100.0), _train_entry(101, 120.0), _train_entry(151, 130.0)]
    (directory / "metrics.jsonl").write_text("".join(lines) + '{"split": "tra')
    _sign(directory)
    seen = status.status(directory)
    assert (seen.state, seen.step, seen.loss) == ("training", 151, 2.5)
    assert seen.tokens_per_second == 1234.5
    [one] = status.standing(tmp_path).runs
    assert one.seconds_left == pytest.approx((CONFIG.training.steps - 151) * 0.2, rel=0.05)
    assert seen.remark == "on elsewhere"


@pytest.mark.parametrize("stage", ["starting", "compiling", "scoring"])
def test_other_stages_have_no_speed(directory, stage):
    (directory / "metrics.jsonl").write_text(_train_entry(1, 10.0))
    _sign(directory, stage=stage)
    seen = status.status(directory)
    assert (seen.state, seen.tokens_per_second, seen.seconds_left) == (stage, None, None)


def test_a_run_that_gives_no_sign_any_more_is_lost(directory):
    _sign(directory, beat=time.time() - 3600)
    seen = status.status(directory)
    assert seen.state == "lost" and seen.remark == "no sign from elsewhere for 1:00:00"


def test_a_stopped_run_waits_to_go_on(directory):
    (directory / "metrics.jsonl").write_text(_train_entry(50, 10.0))
    seen = status.status(directory)
    assert (seen.state, seen.step) == ("waiting", 50)
    assert seen.remark == "stopped, will go on"


def test_a_failed_run_says_why_until_it_is_tried_again(directory):
    record.write_json(directory / record.FAILURE_FILE, {"error": "ValueError: no such thing"})
    seen = status.status(directory)
    assert (seen.state, seen.remark) == ("failed", "ValueError: no such thing")
    _sign(directory, stage="compiling")
    assert status.status(directory).state == "compiling"


def test_a_finished_run_has_its_scores(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.234, bleu=91.26)
    [seen] = status.standing(tmp_path).runs
    assert (seen.state, seen.remark) == ("done", "PPL 1.23  BLEU 91.3")
    assert seen.step == 300


def test_the_table_has_a_line_for_each_run_and_counts_the_states(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.234, bleu=91.26)
    failing, _ = prepared(tmp_path, "one_head,one_layer")
    record.write_json(failing / record.FAILURE_FILE, {"error": "[red] is no markup"})
    console = rich.console.Console(width=120, record=True, file=io.StringIO())
    console.print(status.table(status.standing(tmp_path)))
    lines = console.export_text().splitlines()
    assert [line.split()[:2] for line in lines if "quickstart" in line] == [
        ["quickstart", "base"],
        ["quickstart", "one_head"],
        ["quickstart", "one_layer"],
    ]
    assert "[red] is no markup" in "\n".join(lines)
    assert [line.strip() for line in lines[-3:]] == [
        "3 runs: 1 done, 0 running, 1 waiting, 1 failed, 0 diverged",
        "time spent: 64 s, all runs added up",
        "time left: about 47 s; 1 to go, 1 at a time",
    ]


@pytest.mark.parametrize("height", [10, 24])
def test_of_a_sweep_that_is_higher_than_the_terminal_the_runs_under_way_and_the_totals_show(
    tmp_path, height
):
    for seed in range(20):
        fakes.write_record(tmp_path, TABLE, CONFIG, "base", seed, perplexity=1.2, bleu=91.0)
    prepared(tmp_path, "one_head", num_seeds=20)
    found = status.standing(tmp_path)
    console = rich.console.Console(width=120, record=True, file=io.StringIO())
    console.print(status.fitting(found, height))
    lines = console.export_text().splitlines()
    assert len(lines) < height
    assert lines[-3].strip().startswith("40 runs: 20 done") and "one_head" in lines[3]
    num_shown = sum("quickstart" in line for line in lines)
    assert f"... and {40 - num_shown} other runs; --once shows all" in lines[-4]
    assert status.fitting(found, 60).row_count == 40


def test_rows_stand_in_the_order_of_the_table_and_those_that_it_lacks_come_last(tmp_path):
    prepared(tmp_path, "*", num_seeds=2)
    unknown = tmp_path / "quickstart" / "a_row_of_before" / "seed-0"
    values = record.read_json(tmp_path / "quickstart/base/seed-0/run.json")
    record.write_json(unknown / record.RUN_FILE, values | {"row": "a_row_of_before"})
    record.write_json(tmp_path / "an_old_table/base/seed-0/run.json", values | {"table": "old"})
    (tmp_path / "quickstart/one_head/seed-1/run.json").write_text("{")
    names = [run.name.removeprefix("quickstart ") for run in status.standing(tmp_path).runs]
    known = ["base", "one_head", "one_layer", "learned_positions", "no_positions"]
    expected = [f"{row} seed-{seed}" for row in known for seed in (0, 1)]
    expected.remove("one_head seed-1")
    last = ["a_row_of_before seed-0", "one_head seed-1"]
    assert names == ["old base seed-0", *expected, *last]


def test_one_run_is_no_runs(directory, tmp_path, capsys):
    assert status.totals_text(status.standing(tmp_path)).startswith("1 run: 0 done, ")
    prepared_runs.do_unfinished([directory], lambda directories: (event for event in ()))
    assert capsys.readouterr().out.startswith("1 run, 0 of them finished before")


def test_the_command_prints_once_where_no_terminal_is(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.234, bleu=91.26)
    prepared(tmp_path, "one_head")

    def said(*arguments):
        command = [sys.executable, "-m", "experiments.sweep", "status", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    shown = said(str(tmp_path))
    assert shown.returncode == 0
    assert "2 runs: 1 done, 0 running, 1 waiting" in shown.stdout
    wrong = said(str(tmp_path / "absent"))
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("sweep: there are no runs below ")


def test_the_totals_tell_what_is_done_running_and_lost_and_the_time(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.2, bleu=91.0)
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 1, perplexity=float("inf"), bleu=0.0)
    directories = prepared(tmp_path, "base,one_head", num_seeds=4)
    diverged, training, scoring, lost = directories[1::2]
    record.write_json(diverged / record.FAILURE_FILE, {"error": "diverged at step 7: nan"})
    _sign(training)
    _sign(scoring, stage="scoring")
    _sign(lost, beat=time.time() - 3600)
    found = status.standing(tmp_path)
    counted, spent, left = status.totals_text(found).splitlines()
    assert counted == "8 runs: 1 done, 2 running, 2 waiting, 0 failed, 2 diverged, 1 lost"
    assert spent == "time spent: 2 min, all runs added up"
    assert left.startswith("time left: about 2 min; 5 to go, 2 at a time")


def test_of_a_sweep_of_which_nothing_is_known_the_totals_say_so(tmp_path):
    prepared(tmp_path, "base,one_head")
    assert status.totals_text(status.standing(tmp_path)).splitlines()[-1] == (
        "time left: unknown: no run has come far enough to tell; 2 to go, 1 at a time"
    )


def test_a_run_that_waits_for_another_process_says_so(directory, monkeypatch):
    _sign(directory, stage="compiling")
    sentence = "another process is preparing this corpus"
    waiting = presence.Waiting("elsewhere", 7, 1, sentence)
    monkeypatch.setattr(presence, "waiting", lambda path: waiting)
    assert status.status(directory).remark == f"on elsewhere, waits: {sentence}"
    waiting = presence.Waiting("here", 9, 1, "process 7 on elsewhere works on the run")
    assert status.status(directory).remark == (
        "on elsewhere; process 9 on here waits to do the same run"
    )
