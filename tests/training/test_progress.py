"""What a log says about a run in progress, without a terminal."""

import io
import sys

import pytest

from t2t_jax.training import progress


@pytest.fixture
def clock(monkeypatch):
    """What the time is, in seconds; a test sets it."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_time_left_is_told_from_the_second_line_and_knows_no_compiler(clock, capsys):
    with progress.Progress("translate", 1000) as shown:
        for clock[0], done in ((90.0, 16), (91.0, 36), (101.0, 236), (150.0, 1000)):
            shown.update(done, "sentences")
    assert capsys.readouterr().err.splitlines() == [
        "translate 16/1000 sentences",
        "translate 236/1000 sentences time left 0:00:38",
        "translate 1000/1000 sentences",
    ]


def test_without_progress_there_is_no_time_left(clock, capsys):
    shown = progress.Progress("train", 100, start=40)
    for clock[0] in (1.0, 20.0):
        shown.update(40, "of 100")
    assert "time left" not in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("name", ["stdin", "stdout", ""])
def test_no_bar_is_drawn_over_a_stream_on_a_terminal(clock, monkeypatch, name):
    monkeypatch.setattr(sys, "stderr", _Terminal())
    if name:
        monkeypatch.setattr(sys, name, _Terminal())
    with progress.Progress("translate", None) as shown:
        for clock[0] in (1.0, 12.0):
            shown.update(3, "sentences")
    said = sys.stderr.getvalue()
    assert said == "translate 3 sentences\n" if name else "\x1b[" in said
    with progress.Progress("translate", 3) as shown:  # of a whole file
        shown.update(3, "sentences")
    assert "\x1b[" in sys.stderr.getvalue()
