"""How a run ended, from the files it left."""

import signal
import sys

import pytest

from experiments.launchers import event
from experiments.run import presence
from t2t_jax.json_files import write_json

CONFIG = {"seed": 0, "training": {"steps": 100}}


@pytest.mark.parametrize("of_record", [{}, {"config": CONFIG}])
@pytest.mark.parametrize("exit_code", [0, -6])
def test_a_record_that_does_not_contradict_its_run_is_the_end(tmp_path, of_record, exit_code):
    write_json(tmp_path / "run.json", {"config": CONFIG})
    write_json(tmp_path / "record.json", of_record)
    assert event.ended(tmp_path, 1.0, exit_code).kind == "finished"


def test_a_run_that_was_stopped_is_told_from_one_that_failed():
    assert all(map(event.was_stopped, (130, -signal.SIGTERM, -signal.SIGINT)))
    assert not any(map(event.was_stopped, (0, 1, -signal.SIGKILL)))


def test_the_files_of_a_run_that_another_command_does_are_left_alone(tmp_path):
    write_json(tmp_path / "running.json", {"pid": 1})
    end = event.ended(tmp_path, 1.0, presence.IS_TAKEN)
    assert (end.kind, end.reason) == ("failed", "another command works on it")
    assert [path.name for path in tmp_path.iterdir()] == ["running.json"]


def test_a_record_of_another_config_is_no_end_of_this_run(tmp_path):
    write_json(tmp_path / "run.json", {"config": CONFIG})
    write_json(tmp_path / "record.json", {"config": CONFIG | {"training": {"steps": 7}}})
    end = event.ended(tmp_path, 1.0, 0)
    assert end.kind == "failed"
    assert end.reason == (
        "its record.json is of another run, remove it: training.steps is 7 there, 100 in run.json"
    )


def test_the_reason_of_a_killed_run_may_be_in_the_log_of_another_host(tmp_path):
    (tmp_path / "log.txt").write_text("t2t-jax: this process has ended before it was done: ...\n")
    (tmp_path / "log-1.txt").write_text("Traceback\nrun: [Errno 28] No space left on device\n")
    (tmp_path / "log-2.txt").write_text("t2t-jax: this process has ended before it was done: ...\n")
    end = event.ended(tmp_path, 1.0, -6)
    assert end.reason == "killed by signal 6; log-1.txt: run: [Errno 28] No space left on device"


def test_a_terminal_that_is_gone_stops_no_clean_up(monkeypatch):
    class Gone:
        def write(self, text):
            raise OSError("input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    event.tell("stopping 2 runs")
