"""What a forest plot shows of a table: differences to the base row and their intervals."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from experiments.report.measures import (
    ACCURACY,
    DEV_BLEU,
    LONG_BLEU,
    PERPLEXITY,
    TEST_BLEU,
    Measure,
    reported,
)
from experiments.report.summary import RowSummary, TableSummary

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
    paper: float | None = None  # the paper's difference to its base, where ours is comparable


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
        measures = (_bleu(table), LONG_BLEU, ACCURACY, PERPLEXITY)
        forests = [forest(table, measure) for measure in measures]
        forests = [each for each in forests if each.points]
        named = {point.row for each in forests for point in each.points}
        rows = [(row.name, row.group) for row in table.rows if row.name in named]
        if rows:
            made.append(Panel(table.title, rows, forests))
    return made


def _bleu(table: TableSummary) -> Measure:
    """That of test, unless the paper has reported that of dev."""
    has_dev, has_test = (measure in table.measures for measure in (DEV_BLEU, TEST_BLEU))
    is_dev = has_dev and (table.paper_base is not None or not has_test)
    return DEV_BLEU if is_dev else TEST_BLEU


def forest(table: TableSummary, measure: Measure) -> Forest:
    """What the tests found of each row, in the unit that they compared."""
    points = []
    for row in table.rows:
        if (effect := row.effects.get(measure.name)) is None:
            continue
        difference, low, high = effect.difference, None, None
        if effect.comparison is not None:
            difference, low, high, _ = effect.comparison
        elif measure.is_logarithmic:
            this = row.means[measure.name].mean
            difference = measure.compared(this) - measure.compared(this - effect.difference)
        if math.isfinite(difference):
            paper = _paper_difference(row, table, measure)
            significant = effect.is_significant
            points.append(Point(row.name, row.group, difference, low, high, significant, paper))
    return Forest(measure, points)


def _paper_difference(row: RowSummary, table: TableSummary, measure: Measure) -> float | None:
    this, base = (reported(paper, measure) for paper in (row.paper, table.paper_base))
    if this is None or base is None:
        return None
    return measure.compared(this) - measure.compared(base)


def limits_of(points: Sequence[Point]) -> tuple[float, float]:
    """Where the axis begins and ends: around zero, the paper's differences and all but far rows."""
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
