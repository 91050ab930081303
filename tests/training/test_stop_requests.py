"""What a run says when asked to stop, and when it exits."""

import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_jax.training import stop_requests
from t2t_jax.training.loop import Stopped
from t2t_jax.training.stop_requests import StopRequests
from tests.training.runs import batch

# The main thread is in compiled code, for a minute and more: no handler is called meanwhile.
BUSY = """
import hashlib, os, signal, sys, threading
from pathlib import Path
from t2t_jax.training.stop_requests import StopRequests, left_text
with StopRequests(lambda: "an answer", lambda: left_text(Path(sys.argv[1]))):
    for seconds in map(float, sys.argv[2:]):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def _busy(checkpoints, *seconds):
    return subprocess.Popen(
        [sys.executable, "-c", BUSY, *map(str, (checkpoints, *seconds))],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_who_asks_is_answered_at_once_whatever_the_main_thread_does(tmp_path):
    with _busy(tmp_path, 0.1) as process:
        assert process.stderr.readline() == "an answer\n"
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize(
    ("saved", "goes"),
    [
        ("checkpoints/4", "goes on from the last checkpoint"),
        ("checkpoints/4.orbax-checkpoint-tmp", "begins anew: no checkpoint was saved yet"),
        ("elsewhere", "begins anew: no checkpoint was saved yet"),
    ],
)
def test_who_asks_twice_need_not_wait_and_is_told_what_is_left(saved, goes, tmp_path):
    (tmp_path / saved).mkdir(parents=True)
    _, told = (process := _busy(tmp_path / "checkpoints", 0.1, 0.5)).communicate(timeout=60)
    assert process.returncode == 130
    assert told == f"an answer\nstopped without saving; the same command {goes}\n"


def test_an_interrupt_after_the_warning_of_a_machine_is_the_first(monkeypatch):
    monkeypatch.setattr(stop_requests, "_SECONDS_TO_LEAVE", 60.0)
    requests = StopRequests(lambda: "an answer", lambda: "a farewell")
    with requests:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert requests.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


@pytest.mark.parametrize(
    ("asks_at", "takes"), [(0, "the first may be compiled for a minute"), (3, " s each")]
)
def test_the_answer_says_what_comes_first_and_what_is_saved(run, tmp_path, capsys, asks_at, takes):
    def feed(start, stop):
        for i in range(start, stop):
            if i == asks_at:
                os.kill(os.getpid(), signal.SIGINT)
            yield batch(i)

    with pytest.raises(Stopped):
        run.train(tmp_path, feed=feed, log_every_steps=1)
    told = capsys.readouterr().err
    assert "stopping: the steps that have begun end first (" in told and takes in told
    assert "then a checkpoint of 0.0 MB is written; a second Ctrl-C leaves at once" in told
