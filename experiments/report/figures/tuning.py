"""Dev perplexity of a tuned table's trials against the values tried, a line per row.

In: summaries. Out: a figure.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.report.figures import style
from experiments.report.summary import TableSummary
from experiments.tables.tuning import is_number

TITLE = "Dev perplexity at the values tried"

# A perplexity this many times the lowest says only that it is far off, and would flatten all
# others.
_FAR = 4.0
_MOST_TICKS = 8


class Line(NamedTuple):
    """A row's trials, by value."""

    label: str
    trials: list[tuple[float, float]]  # value and perplexity, infinite if it diverged
    chosen: float | None


class Panel(NamedTuple):
    """One table's trials of one key."""

    title: str
    key: str
    lines: list[Line]
    is_one: bool  # whether nothing else was tuned


def panels(found: Sequence[TableSummary]) -> list[Panel]:
    """A panel for each tuned key of each table, if its values are numbers."""
    made = []
    for table in found:
        rows = {row.name: row.tuned for row in table.rows if row.tuned and row.tuned.trials}
        keys = list(dict.fromkeys(k for row in rows.values() for k in row.trials[0].point))
        for key in keys:
            lines = []
            for name, row in rows.items():
                if key not in row.trials[0].point:
                    continue  # tuned by another command, over other keys
                trials = [(trial.point[key], trial.perplexity) for trial in row.trials]
                if all(is_number(value) for value, _ in trials):
                    lines.append(Line(name, sorted(trials), row.chosen.get(key)))
            if any(math.isfinite(ppl) for line in lines for _, ppl in line.trials):
                made.append(Panel(table.title, key, lines, len(keys) == 1))
    return made


def draw(drawn: Sequence[Panel]) -> Figure:
    """The panels below one another, legends outside."""
    legends = [style.legend_inches([line.label for line in p.lines], None) for p in drawn]
    figure, axes = style.stacked([3.6 + legend for legend in legends])
    for panel, [axis] in zip(drawn, axes, strict=True):
        _draw(panel, axis)
    return figure


def limits_of(lines: Sequence[Line]) -> tuple[float, float]:
    """The lowest and highest perplexity shown: all but those far off."""
    seen = [ppl for line in lines for _, ppl in line.trials if math.isfinite(ppl)]
    return min(seen), max(ppl for ppl in seen if ppl <= _FAR * min(seen))


def _draw(panel: Panel, axis: Any) -> None:
    lowest, highest = limits_of(panel.lines)
    above = {"transform": axis.get_xaxis_transform(), "clip_on": False, "zorder": 4}
    for index, line in enumerate(panel.lines):
        look = style.line_style(line.label, index) | {"marker": style.marker(line.label, index)}
        finite = [trial for trial in line.trials if math.isfinite(trial[1])]
        dots = look if panel.is_one else look | {"linestyle": ""}
        axis.plot(*np.reshape(finite, (-1, 2)).T, label=line.label, **dots)
        if gone := [value for value, ppl in line.trials if ppl > highest]:
            # One above the other, so that none hides another.
            heights = [1.02 + 0.03 * (index % 3)] * len(gone)
            axis.plot(gone, heights, "^", color=look["color"], markersize=5, **above)
        chosen = [(value, ppl) for value, ppl in finite if value == line.chosen]
        if chosen:
            best = min(chosen, key=lambda trial: trial[1])
            ring = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.2}
            axis.plot(*best, "o", markeredgecolor=look["color"], zorder=5, **ring)
    style.title(axis, TITLE, panel.title)
    axis.set_xlabel(panel.key)
    axis.set_ylabel("dev perplexity per token, logarithmic")
    _scale(axis, sorted({value for line in panel.lines for value, _ in line.trials}))
    style.log_scale(axis, lowest, highest)
    style.tidy(axis)
    style.legend_below(axis, None)


def _scale(axis: Any, values: Sequence[float]) -> None:
    """Logarithmic if the values spread widely; few values are themselves the ticks."""
    if values[0] > 0 and values[-1] > 3 * values[0]:
        axis.set_xscale("log")
    if len(values) <= _MOST_TICKS:
        axis.set_xticks(values, [_tick(value) for value in values])
        axis.xaxis.set_minor_locator(NullLocator())


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
