"""How cost grows, from results: a line with its slope for each axis and cost, and a table."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.benchmarks.growth import AXES, PART, place
from experiments.benchmarks.results import Result, number_text

_HEAD = ("axis", "cost", "from", "to", "~ axis to the power of", "of the last two points")


class Line(NamedTuple):
    """A cost along an axis; the rate, another view of it, is left out."""

    axis: str
    what: str
    unit: str
    values: list[int]  # on the axis, ascending
    costs: list[float]

    @property
    def slope(self) -> float | None:
        """The b of cost ~ value^b, by least squares on the logarithms; None for one point."""
        return _slope(self.values, self.costs)

    @property
    def last_slope(self) -> float | None:
        """The slope of the last two points, where the fastest-growing term weighs most."""
        return _slope(self.values[-2:], self.costs[-2:])

    @property
    def words(self) -> str:
        """The first and last cost, and the slope, in words."""
        first, last = number_text(self.costs[0]), number_text(self.costs[-1])
        if self.slope is None:
            return f"{self.what}: {first} {self.unit}"
        last_slope = "" if len(self.values) == 2 else f", last two ^{self.last_slope:.2f}"
        grows = f"~ {self.axis}^{self.slope:.2f}{last_slope}"
        return f"{self.what}, {first} to {last} {self.unit}: {grows}"


def lines_of(results: Iterable[Result]) -> list[Line]:
    """The lines of growth's results, in the order of the axes; a point's last result counts."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for one in results:
        if one.part == PART and one.what != "rate" and one.value > 0:
            axis, value = place(one.size)
            found.setdefault((axis, one.what, one.unit), {})[value] = one.value
    lines = [
        Line(*key, sorted(costs), [costs[value] for value in sorted(costs)])
        for key, costs in found.items()
    ]
    return sorted(lines, key=lambda line: [*AXES].index(line.axis))


def growth_table(lines: Sequence[Line]) -> str:
    """The lines as Markdown; empty without any."""
    rows = [
        (
            f"{line.axis}, {line.values[0]:,} to {line.values[-1]:,}",
            line.what,
            *(f"{number_text(cost)} {line.unit}" for cost in (line.costs[0], line.costs[-1])),
            *("" if slope is None else f"{slope:.2f}" for slope in (line.slope, line.last_slope)),
        )
        for line in lines
    ]
    head = ["| " + " | ".join(_HEAD) + " |", "|" + "--|" * len(_HEAD)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)]) if rows else ""


def _slope(values: Sequence[int], costs: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return statistics.linear_regression([*map(math.log, values)], [*map(math.log, costs)]).slope
