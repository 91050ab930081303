"""What has come of the runs below a directory, as their files say."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from experiments.run import record
from experiments.run.record import Run


class Outcome(NamedTuple):
    """A run, and what has come of it: nothing yet, a record, or a failure."""

    directory: Path
    run: Run
    record: dict[str, Any] | None
    failure: str | None

    @property
    def has_diverged(self) -> bool:
        """Whether its numbers became none, so that it has no scores and never will."""
        return self.record is None and (self.failure or "").startswith("diverged at step ")


def read_outcomes(workdir: Path) -> list[Outcome]:
    """Of every run below `workdir`, by path.

    Raises:
      ValueError: a file is no JSON, or lacks what a run needs.
    """
    outcomes = []
    for path in sorted(workdir.rglob(record.RUN_FILE)):
        directory = path.parent
        finished, failed = directory / record.RECORD_FILE, directory / record.FAILURE_FILE
        values = record.read_json(finished) if finished.exists() else None
        failure = str(record.read_json(failed).get("error")) if failed.exists() else None
        if values is not None and (divergence := divergence_of(values)):
            values, failure = None, divergence
        outcomes.append(Outcome(directory, record.read_run(directory), values, failure))
    return outcomes


def divergence_of(values: dict[str, Any]) -> str | None:
    """What a record amounts to whose perplexity is no finite number; None where all are."""
    for split, scores in values.get("scores", {}).items():
        perplexity = scores.get("perplexity", 1.0)
        if perplexity is None or not math.isfinite(perplexity):
            return (
                f"diverged at step {values.get('steps')}, or before: the perplexity of {split} is "
                "no finite number"
            )
    return None


def one_of_each(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """One for each row and seed, a finished one if any is: a copy is no second seed."""
    found: dict[tuple[str, int], Outcome] = {}
    for outcome in outcomes:
        key = outcome.run.row, outcome.run.seed
        if key not in found or (found[key].record is None and outcome.record is not None):
            found[key] = outcome
    return list(found.values())


def records_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """The records of those that are finished."""
    return [outcome.record for outcome in outcomes if outcome.record is not None]
