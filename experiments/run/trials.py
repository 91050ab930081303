"""The trials of a row of a tuned table: what each came to, and which is chosen.

In: outcomes of trials. Out: points and dev perplexities.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from experiments.run.outcomes import Outcome, one_of_each
from experiments.run.record import is_number


class Trial(NamedTuple):
    """A trial that is over."""

    point: dict[str, Any]  # dotted key -> value
    perplexity: float  # of dev, per token, at the end; infinite where it diverged


def trials_of(outcomes: Iterable[Outcome]) -> list[Trial]:
    """Those of one row that are over, in the order of their numbers."""
    trials = [each for each in one_of_each(outcomes) if each.run.kind == "trial"]
    trials.sort(key=lambda each: (each.run.tuning or {})["trial"])
    over = []
    for outcome in trials:
        scores = (outcome.record or {}).get("scores", {}).get("dev", {})
        if is_number(perplexity := scores.get("perplexity")):
            over.append(Trial(outcome.run.point, perplexity))
        elif outcome.has_diverged:
            over.append(Trial(outcome.run.point, math.inf))
    return over


def best(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """The point of the lowest perplexity, of equal ones the first; None where all have diverged."""
    found = min(trials, key=lambda trial: trial.perplexity, default=None)
    return None if found is None or math.isinf(found.perplexity) else found.point
