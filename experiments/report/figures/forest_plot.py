"""A forest plot: how far each row is from the base row, with simultaneous intervals.

In: summaries. Out: a figure. BLEU is on the left, the logarithm of perplexity on the right, in nats
per token; between them, if known, BLEU on sentences longer than any in training.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.report.effects import BOOTSTRAP, Effect
from experiments.report.figures import style
from experiments.report.measures import (
    ACCURACY,
    DEV_BLEU,
    LONG_BLEU,
    PERPLEXITY,
    TEST_BLEU,
    Mean,
    Measure,
    reported,
)
from experiments.report.summary import RowSummary, TableSummary
from t2t_jax.explain.look import COLOURS

TITLE = "Difference to the base row"
# What a marker says about a difference, at the 5 % level.
SIGNS = {
    "filled": "the rows differ, over seeds",
    "half-filled": "two models differ, over the sentences of one seed",
    "hollow": "no difference seen, or not tested",
}

# A row this many times as far away as the median would squeeze all others: the axis ends before it,
# and its value is written there.
_FAR = 6.0

# For rows at their own values, and at those that tuning chose.
_OWN, _TUNED = COLOURS[:2]
_SHIFT = 0.17  # one up and the other down, in rows, if a table has both
_INCHES_PER_ROW = 0.27
_INCHES_OF_LEGEND = 1.0
_INTERVAL_LOOK: dict[str, Any] = {"linewidth": 1.4, "solid_capstyle": "butt"}
_PAPER_LOOK: dict[str, Any] = {
    "linestyle": "",
    "marker": "x",
    "markersize": 5.5,
    "markeredgecolor": "black",
    "zorder": 4,
}


class Point(NamedTuple):
    """A row's difference to the base; the interval may be missing."""

    row: str
    group: str
    difference: float
    low: float | None
    high: float | None
    is_significant: bool
    is_bootstrap: bool = False  # tested over the sentences of one seed alone
    paper: float | None = None  # the paper's difference to its base, if ours is comparable
    is_tuned: bool = False  # the row at its best values against base at its best values

    @property
    def colour(self) -> str:
        """The colour of its marker and interval."""
        return _TUNED if self.is_tuned else _OWN


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
    """A panel for each table with a base row and another row."""
    made = []
    for table in found:
        measures = (_bleu(table), LONG_BLEU, ACCURACY, PERPLEXITY)
        forests = [_forest(table, measure) for measure in measures]
        forests = [each for each in forests if each.points]
        named = {point.row for each in forests for point in each.points}
        rows = [(row.name, row.group) for row in table.rows if row.name in named]
        if rows:
            made.append(Panel(table.title, rows, forests))
    return made


def _bleu(table: TableSummary) -> Measure:
    """BLEU on test; on dev if the paper's numbers are of dev, or without one on test."""
    measures = {measure.name: measure for measure in table.measures}
    dev, test = (measures.get(measure.name) for measure in (DEV_BLEU, TEST_BLEU))
    is_dev = dev is not None and (reported(table.paper_base, DEV_BLEU) is not None or test is None)
    return DEV_BLEU if is_dev else test or TEST_BLEU


def _forest(table: TableSummary, measure: Measure) -> Forest:
    """What the tests found for each row, in the unit that they compared."""
    points = []
    for row in table.rows:
        if (effect := row.effects.get(measure.name)) is not None:
            paper = _paper_difference(row, table, measure)
            points.append(_point(row, effect, row.means, measure)._replace(paper=paper))
        if row.tuned is not None and (effect := row.tuned.effects.get(measure.name)) is not None:
            point = _point(row, effect, row.tuned.means, measure)
            points.append(point._replace(is_tuned=True))
    return Forest(measure, [point for point in points if math.isfinite(point.difference)])


def _point(row: RowSummary, effect: Effect, means: Mapping[str, Mean], measure: Measure) -> Point:
    difference, low, high = effect.difference, None, None
    if effect.comparison is not None:
        difference, low, high, _ = effect.comparison
    elif measure.is_logarithmic:
        this = means[measure.name].mean
        difference = measure.compared(this) - measure.compared(this - effect.difference)
    verdict = effect.is_significant, effect.test == BOOTSTRAP
    return Point(row.name, row.group, difference, low, high, *verdict)


def _paper_difference(row: RowSummary, table: TableSummary, measure: Measure) -> float | None:
    this, base = (reported(paper, measure) for paper in (row.paper, table.paper_base))
    if this is None or base is None:
        return None
    return measure.compared(this) - measure.compared(base)


def limits_of(points: Sequence[Point]) -> tuple[float, float]:
    """Limits of the axis: around zero, the paper's differences and all rows but far ones."""
    reaches = [
        [value for value in (point.difference, point.low, point.high) if value is not None]
        for point in points
    ]
    sizes = [max(map(abs, values)) for values in reaches]
    bound = _FAR * statistics.median(sizes)
    shown = [0.0, *(point.paper for point in points if point.paper is not None)]
    for values, size in zip(reaches, sizes, strict=True):
        shown += values if size <= bound else []
    margin = 0.08 * (max(shown) - min(shown)) or 1.0  # no row differs at all
    return min(shown) - margin, max(shown) + margin


def draw(drawn: Sequence[Panel]) -> Figure:
    """The panels below one another, rows in the order of the table."""
    heights = [_INCHES_PER_ROW * len(panel.rows) * _lines(panel) + 1.6 for panel in drawn]
    heights[-1] += _INCHES_OF_LEGEND
    figure, axes = style.stacked(heights, max(len(panel.forests) for panel in drawn))
    for panel, row_of_axes in zip(drawn, axes, strict=True):
        for index, axis in enumerate(row_of_axes):
            if index >= len(panel.forests):
                axis.set_visible(False)
                continue
            names = [name for name, _ in panel.rows]
            _draw(panel.forests[index], names, axis, len(row_of_axes))
            _separate(panel.rows, axis)
            if index > 0:
                axis.tick_params(labelleft=False)
        style.title(row_of_axes[0], TITLE, panel.title)
    points = [point for panel in drawn for forest in panel.forests for point in forest.points]
    _legend(axes[-1][0].figure, points)
    return figure


def _lines(panel: Panel) -> float:
    """The height of each row, in rows: the tuned point is drawn below the other."""
    return 1.6 if any(p.is_tuned for forest in panel.forests for p in forest.points) else 1.0


def _legend(figure: Any, points: Sequence[Point]) -> None:
    """The meaning of the signs in the figure."""
    real, of_sentences, hollow = (_look(point) for point in _SIGNS)
    looks = [_look(point._replace(is_tuned=False)) for point in points]
    meanings = (
        (real, SIGNS["filled"], real in looks),
        (of_sentences, SIGNS["half-filled"], of_sentences in looks),
        (hollow, SIGNS["hollow"], hollow in looks),
        (
            {**_INTERVAL_LOOK, "color": _OWN},
            "95 % interval, of all rows at once",
            any(point.low is not None for point in points),
        ),
        (
            {**_INTERVAL_LOOK, "color": _TUNED},
            "the same at values tuned for each row, for base too",
            any(point.is_tuned for point in points),
        ),
        (_PAPER_LOOK, "the paper's difference", any(point.paper is not None for point in points)),
    )
    keys = [Line2D([], [], **look, label=words) for look, words, is_there in meanings if is_there]
    figure.legend(
        handles=keys,
        loc="outside lower left",
        frameon=False,
    )


def _draw(forest: Forest, names: Sequence[str], axis: Any, num_beside: int) -> None:
    limits = limits_of(forest.points)
    axis.axvline(0, color="black", linewidth=1.0)
    shift = _SHIFT if any(point.is_tuned for point in forest.points) else 0.0
    for point in forest.points:
        place = names.index(point.row) + (shift if point.is_tuned else -shift)
        _draw_point(point, place, limits, forest.measure, axis)
        if point.paper is not None:
            axis.plot([point.paper], [place], **_PAPER_LOOK)
    axis.set_xlim(limits)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names)
    axis.xaxis.set_major_locator(style.round_ticks(4 if num_beside < 3 else 2))
    axis.set_xlabel(_label(forest.measure))
    style.tidy(axis, grid="x")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _draw_point(
    point: Point, place: float, limits: tuple[float, float], measure: Measure, axis: Any
) -> None:
    look = _look(point)
    low_end, high_end = limits
    margin = 0.02 * (high_end - low_end)
    # A marker right on the edge would be cut in half.
    if low_end + margin <= point.difference <= high_end - margin:
        if point.low is not None and point.high is not None:
            ends = [max(point.low, low_end), min(point.high, high_end)]
            axis.plot(ends, [place, place], color=point.colour, **_INTERVAL_LOOK)
        axis.plot([point.difference], [place], **look)
        return
    is_right = point.difference > 0
    at = high_end - margin if is_right else low_end + margin
    axis.plot([at], [place], **look | {"marker": ">" if is_right else "<"})
    axis.annotate(
        f"{point.difference:+.{_digits(measure)}f}".replace("-", "\N{MINUS SIGN}"),
        (at, place),
        (-7 if is_right else 7, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


# Significant over seeds, over the sentences of one seed, and not at all.
_SIGNS = (
    Point("", "", 0.0, None, None, True),
    Point("", "", 0.0, None, None, True, is_bootstrap=True),
    Point("", "", 0.0, None, None, False),
)


def _look(point: Point) -> dict[str, Any]:
    """Filled if significant over seeds, half-filled if over the sentences of one seed."""
    return {
        "linestyle": "",
        "marker": "o",
        "markersize": 5.5,
        "fillstyle": "left" if point.is_significant and point.is_bootstrap else "full",
        "markerfacecolor": point.colour if point.is_significant else "white",
        "markerfacecoloralt": "white",
        "markeredgecolor": point.colour,
        "markeredgewidth": 1.4,
        "zorder": 3,
    }


def _digits(measure: Measure) -> int:
    return measure.digits + measure.is_logarithmic


def _label(measure: Measure) -> str:
    unit = "nats per token" if measure.is_logarithmic else "points"
    what = f"{'ln ' if measure.is_logarithmic else ''}{measure.title}"
    return f"Δ {what},\n{unit}\n{'better →' if measure.more_is_better else '← better'}"


def _separate(rows: Sequence[tuple[str, str]], axis: Any) -> None:
    place = 0
    for _, members in groupby(rows, key=lambda row: row[1]):
        if place:
            axis.axhline(place - 0.5, color=style.GREY, linewidth=0.5, linestyle=(0, (1, 2)))
        place += len(list(members))
