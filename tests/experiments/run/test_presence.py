"""The lock and the sign of life of a run."""

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from experiments.run import presence


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(presence, "_SECONDS_BETWEEN_BEATS", 0.05)


def _stage(directory, stage):
    deadline = time.monotonic() + 10
    while (sign := presence.read(directory)) is None or sign.stage != stage:
        assert time.monotonic() < deadline, sign
        time.sleep(0.01)
    return sign


def test_a_sign_of_life_is_there_while_the_process_works_and_not_after(tmp_path, quick):
    assert presence.read(tmp_path) is None
    with presence.present(tmp_path):
        first = presence.read(tmp_path)
        assert first.pid == os.getpid() and first.is_alive
        while presence.read(tmp_path).beat == first.beat:
            time.sleep(0.01)
        assert presence.read(tmp_path).started == first.started
    assert presence.read(tmp_path) is None


def test_the_stage_follows_what_the_run_writes(tmp_path, quick):
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"of": "an earlier try"}\n{"later": "than the checkpoint"}\n')
    with presence.present(tmp_path):
        assert presence.read(tmp_path).stage == "compiling"
        shorter = tmp_path / "metrics.part"
        shorter.write_text('{"of": "an earlier try"}\n')
        shorter.replace(metrics)
        time.sleep(0.2)
        assert presence.read(tmp_path).stage == "compiling"
        with metrics.open("a") as file:
            file.write('{"new": "entry"}\n')
        _stage(tmp_path, "training")
        (tmp_path / "training.json").write_text("{}")
        _stage(tmp_path, "scoring")


def test_a_run_is_not_done_twice_at_once(tmp_path):
    code = (
        "import pathlib, sys, time\n"
        "from experiments.run import presence\n"
        "with presence.present(pathlib.Path(sys.argv[1])):\n"
        "    print('here', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "here\n"
        with pytest.raises(BlockingIOError, match=f"process {other.pid} on .* works on the run"):
            with presence.present(tmp_path, patience=0.2):
                pass
        other.kill()
    # The lock is gone with the process, and its sign says no more than that it is dead.
    assert not presence.read(tmp_path).is_alive
    with presence.present(tmp_path, patience=0.0):
        assert presence.read(tmp_path).pid == os.getpid()


def test_a_sign_that_is_replaced_elsewhere_while_it_is_read_is_none(tmp_path, monkeypatch):
    def stale(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(presence, "read_json", stale)
    assert presence.read(tmp_path) is None


def test_silence_on_another_machine_is_death_after_a_while(tmp_path):
    presence.announce(tmp_path)
    values = json.loads((tmp_path / presence.RUNNING_FILE).read_text())
    there = presence.Sign(**values | {"host": "elsewhere", "pid": 1})
    assert there.is_alive
    assert not there._replace(beat=time.time() - 1000).is_alive
