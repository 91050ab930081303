"""The lock and the sign of life of a run."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from experiments.run import presence
from t2t_jax.data.prepare.unfinished import only_one_process
from t2t_jax.json_files import write_json
from t2t_jax.locks import told_waiting
from tests.experiments.waiting import wait_until


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
        wait_until(lambda: presence.read(tmp_path).beat != first.beat)
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


def test_what_a_run_waits_for_is_told_until_it_has_it(tmp_path):
    corpus_lock = tmp_path / "corpus.lock"
    seen = []
    with presence.present(tmp_path):
        assert presence.waiting(tmp_path) is None
        other = corpus_lock.open("w")
        fcntl.flock(other, fcntl.LOCK_EX)

        def let_go():
            while (waiting := presence.waiting(tmp_path)) is None:
                time.sleep(0.01)
            seen.append(waiting)
            other.close()

        threading.Thread(target=let_go, daemon=True).start()
        with only_one_process(corpus_lock, seen.append):
            assert presence.waiting(tmp_path) is None
    sentence = "another process is preparing this corpus"
    waiting = presence.Waiting(socket.gethostname(), os.getpid(), os.getppid(), sentence)
    assert seen == [f"{sentence}: waiting for it", waiting]
    with told_waiting(sentence, seen.append):  # and nobody listens any more
        assert presence.waiting(tmp_path) is None


def test_what_a_dead_process_waited_for_is_not_told(tmp_path):
    with subprocess.Popen(["true"]) as dead:
        pass
    values = {"host": socket.gethostname(), "pid": dead.pid, "parent": 1, "what": "another"}
    write_json(tmp_path / "waiting.json", values)
    assert presence.waiting(tmp_path) is None
    write_json(tmp_path / "waiting.json", values | {"host": "elsewhere"})
    assert presence.waiting(tmp_path).what == "another"
    presence.clear(tmp_path)
    assert presence.waiting(tmp_path) is None


def test_who_starts_a_run_leaves_the_sign_of_one_that_does_it_already(tmp_path):
    now = time.time()
    sign = presence.Sign("elsewhere", 7, now - 60, now, "training")
    write_json(tmp_path / presence.RUNNING_FILE, sign._asdict())
    presence.announce(tmp_path)
    assert presence.read(tmp_path) == sign
    write_json(tmp_path / presence.RUNNING_FILE, sign._replace(beat=now - 3600)._asdict())
    presence.announce(tmp_path)
    assert presence.read(tmp_path).stage == "starting"
