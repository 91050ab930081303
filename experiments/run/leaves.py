"""The runs below a directory: what each was to do, and what came of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from experiments.run import record
from experiments.run.record import Run


class Leaf(NamedTuple):
    """A run's directory, what it was to do, and what came of it."""

    directory: Path
    run: Run
    record: dict[str, Any] | None
    failure: str | None


def read_leaves(workdir: Path) -> list[Leaf]:
    """The runs below `workdir`, by path.

    Raises:
      ValueError: a file is no JSON, or lacks what a run needs.
    """
    leaves = []
    for path in sorted(workdir.rglob(record.RUN_FILE)):
        directory = path.parent
        finished, failed = directory / record.RECORD_FILE, directory / record.FAILURE_FILE
        values = record.read_json(finished) if finished.exists() else None
        failure = str(record.read_json(failed).get("error")) if failed.exists() else None
        leaves.append(Leaf(directory, record.read_run(directory), values, failure))
    return leaves


def one_of_each(leaves: Iterable[Leaf]) -> list[Leaf]:
    """Of each row and seed one, if there is, a finished one: the same run twice is no two seeds."""
    found: dict[tuple[str, int], Leaf] = {}
    for leaf in leaves:
        key = leaf.run.row, leaf.run.seed
        if key not in found or (found[key].record is None and leaf.record is not None):
            found[key] = leaf
    return list(found.values())


def records_of(leaves: Iterable[Leaf]) -> list[dict[str, Any]]:
    """The records of those that are finished."""
    return [leaf.record for leaf in leaves if leaf.record is not None]
