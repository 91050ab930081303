"""What a user sees during a run: a progress bar, or plain lines without a terminal."""

import sys
import time
from typing import Any

import rich.console
import rich.progress

from t2t_jax import hosts


class Progress:
    """Progress of `total` steps, written to standard error by the first host.

    `total` is None for a stream, of which nobody knows. Use it in a `with` statement; `update`
    draws the bar or, now and then, prints a line.
    """

    # For lines in a log file: often enough to see life, rarely enough to read.
    _SECONDS_BETWEEN_LINES = 10.0

    def __init__(self, name: str, total: int | None, start: int = 0) -> None:
        self._name = name
        self._total = total
        self._done = start
        self._first: tuple[int, float] | None = None  # steps done at the first update, and when
        self._last_line = -float("inf")
        self._bar = None
        self._is_silent = not hosts.is_first()
        # A bar would be drawn over what a person types there, or reads.
        is_in_the_way = total is None and any(map(_is_terminal, (sys.stdin, sys.stdout)))
        if is_in_the_way:
            self._last_line = time.monotonic()
        if sys.stderr.isatty() and not (self._is_silent or is_in_the_way):
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"),
                rich.progress.BarColumn(bar_width=24),
                rich.progress.MofNCompleteColumn(),
                rich.progress.TextColumn("{task.fields[text]}"),
                rich.progress.TimeRemainingColumn(),
                console=rich.console.Console(stderr=True),
                speed_estimate_period=600,  # seconds; some updates are minutes apart
            )
            self._task = self._bar.add_task(name, total=total, completed=start, text="")

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, text: str) -> None:
        """`done` steps of the total are done; `text` describes the state."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)
            return
        now = time.monotonic()
        self._first = self._first or (done, now)
        if now - self._last_line >= self._SECONDS_BETWEEN_LINES or done == self._total:
            self._last_line = now
            if self._total is None:
                self.log(f"{self._name} {done} {text}")
            else:
                self.log(f"{self._name} {done}/{self._total} {text}{self._time_left(now)}")

    def log(self, message: str) -> None:
        """A line that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(message, highlight=False, markup=False)
        elif not self._is_silent:
            print(message, file=sys.stderr, flush=True)

    def _time_left(self, now: float) -> str:
        """From the rate since the first update, which excludes compilation."""
        if self._first is None or self._total is None or self._done == self._total:
            return ""
        first_done, since = self._first
        if self._done <= first_done:
            return ""
        rate = (self._done - first_done) / (now - since)
        minutes, seconds = divmod(round((self._total - self._done) / rate), 60)
        hours, minutes = divmod(minutes, 60)
        return f" time left {hours}:{minutes:02}:{seconds:02}"


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
