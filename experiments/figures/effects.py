"""A forest plot: how far each row is from the base row, with 95 % intervals.

In: summaries. Out: a figure, BLEU on the left and the logarithm of perplexity on the right.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from experiments.figures import style
from experiments.measures import DEV_BLEU, PERPLEXITY, TEST_BLEU, Measure
from experiments.summary import RowSummary, TableSummary

_COLOUR = "#0072B2"
_INCHES_PER_ROW = 0.27
# A row so many times as far away as the rows usually are would press all others together: the
# axis ends before it, and its value is written there.
_FAR = 6.0


class Point(NamedTuple):
    """A row's difference to the base; the interval may be missing."""

    row: str
    group: str
    difference: float
    low: float | None
    high: float | None
    is_significant: bool


class Forest(NamedTuple):
    """The points of one measure."""

    measure: Measure
    points: list[Point]


class Panel(NamedTuple):
    """One table's forests, of the same rows."""

    title: str
    rows: list[tuple[str, str]]  # name and group
    forests: list[Forest]


def panels(found: Sequence[TableSummary]) -> list[Panel]:
    """A panel for each table that has a base row and another."""
    made = []
    for table in found:
        has_test = any(TEST_BLEU.name in row.effects for row in table.rows)
        forests = [
            forest(table.rows, measure)
            for measure in (TEST_BLEU if has_test else DEV_BLEU, PERPLEXITY)
        ]
        forests = [each for each in forests if each.points]
        named = {point.row for each in forests for point in each.points}
        rows = [(row.name, row.group) for row in table.rows if row.name in named]
        if rows:
            made.append(Panel(table.title, rows, forests))
    return made


def forest(rows: Sequence[RowSummary], measure: Measure) -> Forest:
    """What the tests found of each row, in the unit that they compared."""
    points = []
    for row in rows:
        if (effect := row.effects.get(measure.name)) is None:
            continue
        difference, low, high = effect.difference, None, None
        if effect.comparison is not None:
            difference, low, high, _ = effect.comparison
        elif measure.is_logarithmic:
            this = row.means[measure.name].mean
            difference = measure.compared(this) - measure.compared(this - effect.difference)
        if math.isfinite(difference):
            points.append(Point(row.name, row.group, difference, low, high, effect.is_significant))
    return Forest(measure, points)


def draw(drawn: Sequence[Panel]) -> Figure:
    """The panels below one another, rows in the order of the table."""
    heights = [_INCHES_PER_ROW * len(panel.rows) + 1.25 for panel in drawn]
    figure, axes = style.stacked(heights, max(len(panel.forests) for panel in drawn))
    for panel, row_of_axes in zip(drawn, axes, strict=True):
        for index, axis in enumerate(row_of_axes):
            if index >= len(panel.forests):
                axis.set_visible(False)
                continue
            _draw(panel.forests[index], [name for name, _ in panel.rows], axis)
            _separate(panel.rows, axis)
            if index > 0:
                axis.tick_params(labelleft=False)
        row_of_axes[0].set_title(panel.title, loc="left")
    keys = [
        Line2D([], [], **_look(is_significant), label=meaning)
        for is_significant, meaning in (
            (True, "real (5 % level, Holm)"),
            (False, "within noise, or not tested"),
        )
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw(forest: Forest, names: Sequence[str], axis: Any) -> None:
    limits = limits_of(forest.points)
    axis.axvline(0, color="black", linewidth=1.0)
    for point in forest.points:
        _draw_point(point, names.index(point.row), limits, forest.measure, axis)
    axis.set_xlim(limits)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.set_xlabel(_label(forest.measure))
    style.tidy(axis, grid="x")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _draw_point(
    point: Point, place: int, limits: tuple[float, float], measure: Measure, axis: Any
) -> None:
    look = _look(point.is_significant)
    low_end, high_end = limits
    if low_end <= point.difference <= high_end:
        if point.low is not None and point.high is not None:
            ends = [max(point.low, low_end), min(point.high, high_end)]
            axis.plot(ends, [place, place], color=_COLOUR, linewidth=1.4, solid_capstyle="butt")
        axis.plot([point.difference], [place], **look)
        return
    is_right = point.difference > high_end
    at = limits[is_right] + (0.02 if is_right else -0.02) * (low_end - high_end)
    axis.plot([at], [place], **look | {"marker": ">" if is_right else "<"})
    axis.annotate(
        f"{point.difference:+.{_digits(measure)}f}",
        (at, place),
        (-7 if is_right else 7, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=8,
    )


def _look(is_significant: bool) -> dict[str, Any]:
    return {
        "linestyle": "",
        "marker": "o",
        "markersize": 5.5,
        "markerfacecolor": _COLOUR if is_significant else "white",
        "markeredgecolor": _COLOUR,
        "markeredgewidth": 1.4,
        "zorder": 3,
    }


def limits_of(points: Sequence[Point]) -> tuple[float, float]:
    """Where the axis begins and ends, so that zero and all but far rows are in it."""
    reaches = [
        [value for value in (point.difference, point.low, point.high) if value is not None]
        for point in points
    ]
    sizes = [max(map(abs, values)) for values in reaches]
    bound = _FAR * statistics.median(sizes)
    near = [values for values, size in zip(reaches, sizes, strict=True) if size <= bound]
    low = min(0.0, *(min(values) for values in near))
    high = max(0.0, *(max(values) for values in near))
    margin = 0.08 * (high - low) or 1.0  # no row differs at all
    return low - margin, high + margin


def _digits(measure: Measure) -> int:
    return measure.digits + measure.is_logarithmic


def _label(measure: Measure) -> str:
    unit = "nats per token" if measure.is_logarithmic else "points"
    what = f"{'ln ' if measure.is_logarithmic else ''}{measure.title}"
    label = f"Δ {what}, {unit}"
    return f"{label}   better →" if measure.is_better > 0 else f"← better   {label}"


def _separate(rows: Sequence[tuple[str, str]], axis: Any) -> None:
    place = 0
    for _, members in groupby(rows, key=lambda row: row[1]):
        if place:
            axis.axhline(place - 0.5, color=style.GREY, linewidth=0.5, linestyle=(0, (1, 2)))
        place += len(list(members))
