"""Random choices that are fast, and the same in every version of Python.

`Draw` is the method `random` of one `random.Random`: its stream is promised never to change.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
Draw = Callable[[], float]


def pick(draw: Draw, words: Sequence[T]) -> T:
    """One of `words`, the n-th with a probability near n^-3/4: a few words are frequent."""
    return words[int(len(words) * draw() ** 4)]


def any_of(draw: Draw, items: Sequence[T]) -> T:
    """One of `items`, all equally likely."""
    return items[int(len(items) * draw())]


def by_weight(weighted: Sequence[tuple[T, float | int]]) -> Callable[[Draw], T]:
    items = [item for item, _ in weighted]
    bounds = list(accumulate(weight for _, weight in weighted))
    total = bounds[-1]
    return lambda draw: items[bisect(bounds, draw() * total, hi=len(items) - 1)]
