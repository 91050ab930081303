"""The trials of a row of a tuned table: the result of each, and which is chosen.

In: outcomes of trials. Out: points and dev perplexities.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from experiments.run.outcomes import Outcome, one_of_each
from experiments.run.record import is_number


class Trial(NamedTuple):
    """A finished trial."""

    point: dict[str, Any]  # dotted key -> value
    perplexity: float  # on dev, per token, at the end; infinite if it diverged


def trials_of(outcomes: Iterable[Outcome], number: int) -> list[Trial]:
    """The finished trials of one row, in the order of their numbers.

    Args:
      number: of trials there are to be; later ones are left from a larger space.
    """

    def place(outcome: Outcome) -> int:
        return (outcome.run.tuning or {})["trial"]

    trials = [each for each in one_of_each(outcomes) if each.run.kind == "trial"]
    over: list[Trial] = []
    for outcome in sorted((each for each in trials if place(each) < number), key=place):
        if over and outcome.run.point.keys() != over[0].point.keys():
            continue  # of another command, over other keys
        scores = (outcome.record or {}).get("scores", {}).get("dev", {})
        if is_number(perplexity := scores.get("perplexity")) and perplexity > 0:
            over.append(Trial(outcome.run.point, perplexity))
        elif outcome.has_diverged:
            over.append(Trial(outcome.run.point, math.inf))
    return over


def best(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """The point with the lowest perplexity, the first if equal; None if all diverged."""
    found = min(trials, key=lambda trial: trial.perplexity, default=None)
    return None if found is None or math.isinf(found.perplexity) else found.point
