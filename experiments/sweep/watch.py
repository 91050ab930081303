"""Watches the runs of a sweep while a launcher executes them: time left, and which runs wait.

On a terminal, a bar in the last line is redrawn every two seconds. Elsewhere, one line reports the
time left as soon as it is known. A run that waits for another process is reported once.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import rich.console
import rich.live
import rich.text

from experiments.run import presence, record
from experiments.run.plain_text import plain_text
from experiments.sweep import time_left
from experiments.sweep.time_left import Forecast, Job, duration_text, left_text

_SECONDS_BETWEEN_LOOKS = 2.0
_WIDEST_BAR = 30
_NARROWEST_BAR = 8


class Totals(NamedTuple):
    """The state of a sweep, as shown by its bar."""

    runs: int
    done: int
    running: int
    failed: int
    spent: float  # seconds since the command was given
    forecast: Forecast
    held_up: str = ""  # names of runs whose processes wait for another one
    is_stopping: bool = False  # stopped by the user: the runs save their state


class Watch:
    """Looks at `directories` every two seconds, inside a `with` block.

    Runs in `failed` have failed for good; those with a record are finished. Once `stopping` is set,
    none continues.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        failed: Iterable[Path] = (),
        stopping: threading.Event | None = None,
    ) -> None:
        self._directories = directories
        self._stopping = stopping or threading.Event()
        self._ended = {path: "finished" for path in directories if record.is_finished(path)}
        self._ended.update(dict.fromkeys(failed, "failed"))
        self._over: dict[Path, Job] = {}  # what need not be read again
        self._running: dict[Path, float] = {}  # since when
        self._parallel = 1
        self._waits: dict[Path, str] = {}
        self._has_told = False
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_often, daemon=True)
        self._live = None
        console = rich.console.Console()
        if sys.stdout.isatty() and console.is_interactive:
            self._live = rich.live.Live(
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stderr=sys.stderr.isatty(),
            )

    def __enter__(self) -> "Watch":
        if self._live is not None:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """Prints a line that stays, above the bar if there is one."""
        if self._live is None:
            print(line, flush=True)
        else:
            # The terminal wraps it: a path cut at the width could not be copied.
            self._live.console.print(line, soft_wrap=True, markup=False, highlight=False)

    def started(self, directory: Path) -> None:
        """A launcher has started this run."""
        with self._lock:
            self._running[directory] = time.monotonic()
            self._parallel = max(self._parallel, len(self._running))

    def ended(self, directory: Path, kind: str) -> None:
        """This run has ended: `kind` is "finished" or "failed"."""
        with self._lock:
            self._running.pop(directory, None)
            self._ended[directory] = kind

    def left_out(self, directories: Iterable[Path]) -> None:
        """These runs are no longer part of the sweep."""
        gone = set(directories)
        self._directories = [path for path in self._directories if path not in gone]

    def again(self, directories: Iterable[Path]) -> None:
        """These runs have failed and will be retried."""
        with self._lock:
            for directory in directories:
                self._ended.pop(directory, None)
                self._over.pop(directory, None)

    def totals(self) -> Totals:
        """The current state of the sweep, from its files."""
        now = time.monotonic()
        with self._lock:
            ended, running, parallel = dict(self._ended), dict(self._running), self._parallel
        jobs = [self._job(path, ended, running, now) for path in self._directories]
        num_failed = sum(kind == "failed" for kind in ended.values())
        return Totals(
            runs=len(jobs),
            done=len(ended) - num_failed,
            running=len(running),
            failed=num_failed,
            spent=now - self._start,
            forecast=time_left.forecast(jobs, parallel),
            held_up=", ".join(name(path) for path in running if self._waits.get(path)),
            is_stopping=self._stopping.is_set(),
        )

    def _job(
        self, path: Path, ended: dict[Path, str], running: dict[Path, float], now: float
    ) -> Job:
        if path in ended and path in self._over:
            return self._over[path]
        job = time_left.job_of(path)
        if path in ended:
            job = self._over[path] = job._replace(stage="over")
        elif path in running and job.stage == "waiting":  # no sign of life yet
            job = job._replace(stage="starting", elapsed=now - running[path])
        return job

    def _look_often(self) -> None:
        while True:
            self._look()
            if self._stop.wait(_SECONDS_BETWEEN_LOOKS):
                return

    def _look(self) -> None:
        with self._lock:
            running = list(self._running)
        for path in running:
            what = _waits_for(path)
            if what and what != self._waits.get(path):
                self.say(f"        {name(path)} waits: {what}")
            self._waits[path] = what
        if self._live is not None:
            text = bar_text(self.totals(), self._live.console.width - 1)
            self._live.update(rich.text.Text(text, no_wrap=True, overflow="crop"), refresh=True)
        elif running and not self._has_told and not self._stopping.is_set():
            found = self.totals()
            if found.forecast.seconds is not None and found.running:
                self._has_told = True
                self.say(to_go_text(found))


def name(directory: Path) -> str:
    """Row and seed: "A.h=1 seed-0"."""
    return f"{directory.parent.name} {directory.name}"


def _waits_for(directory: Path) -> str:
    """What our process of this run waits for, ignoring processes of other commands."""
    waiting, sign = presence.waiting(directory), presence.read(directory)
    if waiting is None:
        return ""
    is_of_another_command = (
        sign is not None
        and (sign.host, sign.pid) != (waiting.host, waiting.pid)
        and waiting.host == socket.gethostname()
        and waiting.parent != os.getpid()
    )
    return "" if is_of_another_command else plain_text(waiting.what)


def to_go_text(found: Totals) -> str:
    """A log line: how many runs are to come, and the time they take if it is known."""
    to_go = found.runs - found.done - found.failed
    left = "" if found.forecast.seconds is None else f", {left_text(found.forecast)}"
    return f"        {to_go} to go{left}"


def bar_text(found: Totals, width: int) -> str:
    """One line of at most `width` characters; the least important parts are dropped first."""
    percent = f"{min(99, int(100 * found.forecast.share)):2} %"
    if found.done + found.failed == found.runs:
        percent = "100 %"
    done = f"{found.done} of {found.runs} done"
    waiting = found.runs - found.done - found.failed - found.running
    counts = [f"{found.running} running", f"{waiting} waiting"]
    failed = [f"{found.failed} failed"] if found.failed else []
    seconds = found.forecast.seconds
    left = "time left unknown" if seconds is None else f"about {duration_text(seconds)} left"
    if found.is_stopping:
        left = "stopping"
        counts = [f"{found.running} stopping", f"{waiting} not begun"]
    held_up = [f"{found.held_up} waits"] if found.held_up else []
    spent = f"after {duration_text(found.spent)}"
    without = ["scoring not counted"] if seconds is not None and found.forecast.missing else []
    all_counts = ", ".join([done, *failed, *counts])
    choices = [
        [percent, all_counts, f"{spent}, {left}", *without, *held_up],
        [percent, all_counts, f"{spent}, {left}", *held_up],
        [percent, ", ".join([done, *failed]), left, *held_up],
        [percent, all_counts, f"{spent}, {left}"],
        [percent, ", ".join([done, *failed]), left],
        [done, left],
        [done],
    ]
    for parts in choices:
        text = "  ".join(parts)
        room = min(_WIDEST_BAR, width - len(text) - 3)
        if room >= _NARROWEST_BAR:
            filled = int(found.forecast.share * room)
            return f"[{'#' * filled}{'.' * (room - filled)}] {text}"
        if len(text) <= width and parts is not choices[0]:
            return text
    return done[: max(0, width)]
