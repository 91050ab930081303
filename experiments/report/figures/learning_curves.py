"""Dev perplexity against step, a line per row.

In: summaries, and the metrics.jsonl of their runs. Out: a figure.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from experiments.report.figures import style
from experiments.report.run_files import dev_curve
from experiments.report.summary import TableSummary

TITLE = "Dev perplexity while training"

# More markers on a line than this hide its dashes.
_MARKERS_PER_LINE = 7
# So few evaluations are shown in full.
_FEW = 5


class Curve(NamedTuple):
    """Mean over seeds at each step, and the lowest and highest seed."""

    label: str
    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    num_seeds: int


class Panel(NamedTuple):
    """One table's curves."""

    title: str
    curves: list[Curve]


def panels(found: Sequence[TableSummary]) -> list[Panel]:
    """A panel for each table, with the curves of the finished runs in the table's order.

    No panel if every run has a single evaluation, which is no curve; a note below the table says
    so.
    """
    made = []
    for table in found:
        curves = [
            curve(
                row.name,
                [_dev(outcome.directory) for outcome in row.outcomes if outcome.record is not None],
            )
            for row in table.rows
            if row.num_diverged == 0
        ]
        curves = [one for one in curves if one.steps]
        if any(len(one.steps) > 1 for one in curves):
            made.append(Panel(table.title, curves))
    return made


def curve(label: str, runs: Iterable[dict[int, float]]) -> Curve:
    """A row's curve from each seed's step -> perplexity, at the steps that all seeds have."""
    seeds = [points for points in runs if points]
    steps = sorted(set.intersection(*map(set, seeds))) if seeds else []
    at_steps = [[points[step] for points in seeds] for step in steps]
    return Curve(
        label,
        steps,
        [statistics.fmean(values) for values in at_steps],
        [min(values) for values in at_steps],
        [max(values) for values in at_steps],
        len(seeds),
    )


def _dev(directory: Path) -> dict[int, float]:
    """Step -> dev perplexity of a run; empty for a damaged file, which a note names."""
    try:
        return dev_curve(directory)
    except (OSError, ValueError):
        return {}


def draw(drawn: Sequence[Panel]) -> Figure:
    """The panels below one another, logarithmic perplexity, legends outside."""
    legends = [
        style.legend_inches([one.label for one in panel.curves], _legend_title(panel))
        for panel in drawn
    ]
    figure, axes = style.stacked([4.0 + legend for legend in legends])
    for panel, [axis] in zip(drawn, axes, strict=True):
        _draw(panel, axis)
    return figure


def _draw(panel: Panel, axis: Any) -> None:
    for index, one in enumerate(panel.curves):
        look = style.line_style(one.label, index)
        every = max(1, math.ceil(len(one.steps) / _MARKERS_PER_LINE))
        # Each row's markers begin at another point, so that close lines do not hide each other's.
        if every == 1:  # every evaluation is marked, even a row's only one
            look["marker"] = style.marker(one.label, index)
        axis.plot(one.steps, one.mean, label=one.label, markevery=(index % every, every), **look)
        spread: dict[str, Any] = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
        if one.num_seeds > 1 and len(one.steps) == 1:  # a band of no width
            axis.vlines(one.steps, one.low, one.high, **spread | {"linewidth": 6})
        elif one.num_seeds > 1:
            axis.fill_between(one.steps, one.low, one.high, **spread)
    style.title(axis, TITLE, panel.title)
    axis.set_xlabel("training step")
    axis.set_ylabel("dev perplexity per token, logarithmic")
    _scale(axis, panel.curves)
    style.tidy(axis)
    style.legend_below(axis, _legend_title(panel))


def _legend_title(panel: Panel) -> str | None:
    seeds = [one.num_seeds for one in panel.curves]
    return style.seeds_text(max(seeds), min(seeds), "band: lowest to highest")


def limits_of(curves: Sequence[Curve]) -> tuple[float, float]:
    """Lowest and highest value of the second halves: the initial fall would flatten the rest.

    With few evaluations, of all of them.
    """
    ends = [
        (low, high)
        for one in curves
        for step, low, high in zip(one.steps, one.low, one.high, strict=True)
        if 2 * step >= one.steps[-1] or len(one.steps) <= _FEW
    ]
    return min(low for low, _ in ends), max(high for _, high in ends)


def steps_of(curves: Sequence[Curve]) -> tuple[int, int]:
    """Limits of the axis of steps: from 0, or from just before the first curve comes into view."""
    highest = limits_of(curves)[1]
    in_sight = [
        one.steps[place - 1] if place else 0
        for one in curves
        for place in [next(i for i, low in enumerate(one.low) if low <= highest)]
    ]
    return min(in_sight), max(one.steps[-1] for one in curves)


def _scale(axis: Any, curves: Sequence[Curve]) -> None:
    first, last = steps_of(curves)
    margin = 0.03 * (last - first)
    axis.set_xlim(first - margin if first else 0, last + margin)
    axis.xaxis.set_major_locator(style.round_ticks(7, whole=True))
    style.log_scale(axis, *limits_of(curves))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
