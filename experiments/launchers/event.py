"""What all launchers share: the command they start, the events they report, how a run ended.

A launcher is a function of the run directories and its own options. It yields an `Event` when a run
starts and when it ends, whatever happens to the others. Closing it, or an exception such as
KeyboardInterrupt inside it, stops the runs it has started, except SLURM's.
"""

import contextlib
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.run import presence, record
from experiments.run.plain_text import plain_text

# The command of a run; the directory is its last argument.
COMMAND = (sys.executable, "-m", "experiments.run")

_TAKEN = "another command works on it"  # so its files are left alone
_STOPPED = 130  # exit code of a run that was asked to stop and saved its state


class Event(NamedTuple):
    """Something that happened to a run."""

    directory: Path
    kind: str  # "started" | "finished" | "failed"
    seconds: float  # since it started
    reason: str = ""  # of a failure; for a start, the machine if it is another one


Launch = Callable[[Sequence[Path]], Generator[Event, None, None]]


def tell(text: str) -> None:
    """Prints to standard error, if it is still there: whoever cleans up must not fail by it."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def clear(directory: Path) -> None:
    """Removes what an earlier try left, before a run is requested again."""
    presence.clear(directory)
    (directory / record.FAILURE_FILE).unlink(missing_ok=True)


def start_event(
    directory: Path, before: presence.Sign | None
) -> tuple[presence.Sign | None, Event | None]:
    """The last sign of a run, maybe on another machine, and an event if it shows a new start.

    Args:
      before: the last sign seen, None at first.
    """
    sign = presence.read(directory) or before
    if sign is None or (before is not None and sign.started == before.started):
        return sign, None
    again = "again " if before is not None else ""
    return sign, Event(directory, "started", 0.0, f"{again}on {sign.host}")


def ended(directory: Path, seconds: float, exit_code: int) -> Event:
    """The event of a run whose process has ended; a failure leaves `failure.json`."""
    if exit_code == presence.IS_TAKEN:
        return Event(directory, "failed", seconds, _TAKEN)
    presence.clear(directory)
    # Written at the very end: what fails after it, such as the end of a runtime, changes nothing.
    if record.is_finished(directory):
        if contradiction := plain_text(_contradiction(directory)):
            return failed(directory, seconds, contradiction)
        (directory / record.FAILURE_FILE).unlink(missing_ok=True)  # of an earlier try
        return Event(directory, "finished", seconds)
    return failed(directory, seconds, _reason(directory, exit_code))


def failed(directory: Path, seconds: float, reason: str) -> Event:
    """A failure for this reason, unless the run itself wrote a better one."""
    path = directory / record.FAILURE_FILE
    if path.exists():
        return Event(directory, "failed", seconds, record.read_failure(directory) or reason)
    # A later report reads it there; the next try removes it.
    record.write_json(path, {"error": reason})
    return Event(directory, "failed", seconds, reason)


def was_stopped(exit_code: int) -> bool:
    """Whether the run was asked to stop: by its machine, if not by us."""
    return exit_code in (_STOPPED, -signal.SIGTERM, -signal.SIGINT)


def last_line(path: Path) -> str:
    """The last line of a text file; empty if there is none."""
    if not path.exists():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return plain_text(lines[-1].strip()) if lines else ""


def _contradiction(directory: Path) -> str:
    """What shows that the record is damaged or another run's; empty if it is this run's."""
    try:
        of_record, of_run = (
            record.read_json(path) if path.exists() else {}
            for path in (directory / record.RECORD_FILE, directory / record.RUN_FILE)
        )
    except (OSError, ValueError) as error:
        return str(error)
    shown = record.differences_text(of_record, of_run)
    return f"its {record.RECORD_FILE} is of another run, remove it: {shown}" if shown else ""


def _reason(directory: Path, exit_code: int) -> str:
    if exit_code == 0:
        return f"it ended without a {record.RECORD_FILE}"
    if exit_code < 0:
        # Of several hosts, one may have failed for a reason, and the others because they lost it.
        others = {path.name: last_line(path) for path in sorted(directory.glob("log-*.txt"))}
        reasons = [f"; {name}: {line}" for name, line in others.items() if line.startswith("run: ")]
        return f"killed by signal {-exit_code}" + "".join(reasons)
    line = last_line(directory / record.LOG_FILE)
    return f"exit code {exit_code}" + (f": {line}" if line else "")
