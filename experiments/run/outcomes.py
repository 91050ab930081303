"""The outcomes of the runs below a directory, from their files."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from experiments.run import record
from experiments.run.plain_text import plain_text, plain_values
from experiments.run.record import Run
from t2t_jax.json_files import error_text


class Outcome(NamedTuple):
    """A run and its outcome: nothing yet, a record, or a failure.

    Its text is plain: safe to show.
    """

    directory: Path
    run: Run
    record: dict[str, Any] | None
    failure: str | None
    refused: str = ""  # why its record is not trusted, if so

    @property
    def has_diverged(self) -> bool:
        """Whether its numbers became NaN or infinite: it will never have scores."""
        return self.record is None and is_divergence(self.failure or "")


class Outcomes(NamedTuple):
    """The runs below a directory, by path, and the directories that cannot be trusted."""

    runs: list[Outcome]
    unreadable: dict[Path, str]  # directory -> why, in a sentence that names the file

    @property
    def refused(self) -> list[str]:
        """A sentence for each file that is not trusted."""
        return [*self.unreadable.values(), *(run.refused for run in self.runs if run.refused)]


def read_outcomes(workdir: Path, is_wanted: Callable[[Run], bool] = lambda run: True) -> Outcomes:
    """The outcome of every wanted run below `workdir`; a damaged file affects only its own run."""
    directories, unreadable = record.find_runs(workdir)
    found = Outcomes([], {each: plain_text(why) for each, why in unreadable.items()})
    for directory in directories:
        try:
            run = record.read_run(directory)
        except (OSError, ValueError) as error:
            found.unreadable[directory] = plain_text(error_text(error))
        else:
            if is_wanted(run):  # of the others nothing more is read
                found.runs.append(_outcome(directory, Run(**plain_values(run._asdict()))))
    return found


def _outcome(directory: Path, run: Run) -> Outcome:
    failure = record.read_failure(directory)
    if not record.is_finished(directory):
        return Outcome(directory, run, None, failure)
    try:
        values = plain_values(record.read_record(directory))
        if divergence := divergence_of(values):
            return Outcome(directory, run, None, divergence)
        return Outcome(directory, run, values, failure)
    except (OSError, ValueError) as error:
        return Outcome(directory, run, None, failure, refused=plain_text(error_text(error)))


def is_divergence(failure: str) -> bool:
    """Whether a run failed because its numbers became NaN or infinite."""
    return failure.startswith("diverged at step ")


def divergence_of(values: dict[str, Any]) -> str | None:
    """The failure of a record with a non-finite perplexity; None if all are finite."""
    if is_divergence(said := values.get("diverged") or ""):
        return said
    for split, scores in values.get("scores", {}).items():
        perplexity = scores.get("perplexity", 1.0)
        if perplexity is None or not math.isfinite(perplexity):
            return (
                f"diverged at step {values.get('steps')}, or before: the perplexity of {split} is "
                "no finite number"
            )
    return None


def one_of_each(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """One per row and seed or trial, since a copy is no second seed.

    A diverged one if any, so that no copy hides it; else a finished one.
    """
    found: dict[tuple[str, str], Outcome] = {}
    for outcome in outcomes:
        key = outcome.run.row, outcome.run.name
        if key not in found or _weight(found[key]) < _weight(outcome):
            found[key] = outcome
    return list(found.values())


def _weight(outcome: Outcome) -> int:
    return 2 if outcome.has_diverged else int(outcome.record is not None)


def of_one_config(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those with the config of their row's first seed: others are no seeds of that row.

    Trials, each of which has its own, stay.
    """
    found = [(each, record.settings(each.run.config)) for each in outcomes]
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome, its in sorted(found, key=lambda pair: pair[0].run.seed):
        first.setdefault((outcome.run.row, outcome.run.kind), its)
    return [
        outcome
        for outcome, its in found
        if outcome.run.kind == "trial" or first[outcome.run.row, outcome.run.kind] == its
    ]


def records_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """The records of the finished runs."""
    return [outcome.record for outcome in outcomes if outcome.record is not None]
