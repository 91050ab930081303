"""All seeds of a row as one run: a launcher that starts one process for each row."""

import functools
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from experiments import presence, record
from experiments.launchers.event import COMMAND, TAKEN, TOGETHER, Event, Launch, ended, failed


def together(launch: Any) -> Launch:
    """The launcher, for rows: it takes and reports runs, but starts one process for each row."""
    return functools.partial(_launch, functools.partial(launch, command=(*COMMAND, TOGETHER)))


def _launch(launch: Launch, directories: Sequence[Path]) -> Generator[Event, None, None]:
    by_row: dict[Path, list[Path]] = {}
    for directory in directories:
        by_row.setdefault(directory.parent, []).append(directory)
    for directory in directories:
        (directory / record.FAILURE_FILE).unlink(missing_ok=True)
    with closing(launch([members[0] for members in by_row.values()])) as events:
        for event in events:
            for directory in by_row[event.directory.parent]:
                yield _of(directory, event)


def _of(directory: Path, event: Event) -> Event:
    """What an event of its row means for one seed: it may be finished where another has failed."""
    if event.kind == "started":
        return event._replace(directory=directory)
    if (directory / record.RECORD_FILE).exists():
        return ended(directory, event.seconds, 0)
    if event.reason == TAKEN:
        return event._replace(directory=directory)
    presence.clear(directory)
    reason = event.reason or f"the run of its row ended without its {record.RECORD_FILE}"
    return failed(directory, event.seconds, reason)
