"""Runs -> figures: dev perplexity against step, a line per row.

In: summaries, and the metrics.jsonl of their runs. Out: a PNG file.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.summary import Leaf, TableSummary
from t2t_jax.training.metrics_file import read_metrics

METRICS_FILE = "metrics.jsonl"

# Okabe and Ito's colours, told apart by colour-blind readers; yellow is too pale for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Dashes and markers alone tell the rows apart in black and white: 5 x 7 pairs before one repeats.
_DASHES: tuple = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (7, 2, 1, 1.5, 1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# More markers on a line than this hide its dashes.
_MARKERS_PER_LINE = 7


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
    """A panel for each table, curves of the finished runs in the table's order."""
    made = []
    for table in found:
        by_row: dict[str, list[Leaf]] = {}
        for leaf in table.leaves:
            if leaf.record is not None:
                by_row.setdefault(leaf.run.row, []).append(leaf)
        curves = [
            curve(row, [_dev(leaf.directory) for leaf in leaves]) for row, leaves in by_row.items()
        ]
        curves = [one for one in curves if one.steps]
        if curves:
            made.append(Panel(table.title, curves))
    return made


def curve(label: str, runs: Iterable[dict[int, float]]) -> Curve:
    """One row's curve from step -> perplexity of each seed; a step needs only one seed."""
    seeds = [points for points in runs if points]
    steps = sorted({step for points in seeds for step in points})
    at_steps = [[points[step] for points in seeds if step in points] for step in steps]
    return Curve(
        label,
        steps,
        [statistics.fmean(values) for values in at_steps],
        [min(values) for values in at_steps],
        [max(values) for values in at_steps],
        len(seeds),
    )


def _dev(directory: Path) -> dict[int, float]:
    """Step -> dev perplexity of a run."""
    entries = read_metrics(directory / METRICS_FILE)
    return {
        entry["step"]: entry["perplexity"]
        for entry in entries
        if entry["split"] == "dev" and math.isfinite(entry["perplexity"])
    }


def learning_curves(drawn: Sequence[Panel], path: Path) -> None:
    """Draws the panels below one another, logarithmic perplexity, legends outside."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # A legend of 20 rows needs the height.
    heights = [max(3.8, 0.24 * len(panel.curves) + 1.0) for panel in drawn]
    with plt.rc_context({"font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold"}):
        figure, axes = plt.subplots(
            len(drawn),
            1,
            figsize=(8.4, sum(heights)),
            squeeze=False,
            layout="constrained",
            gridspec_kw={"height_ratios": heights},
        )
        for panel, axis in zip(drawn, axes[:, 0], strict=True):
            _draw(panel, axis)
        figure.savefig(path, dpi=160)
        plt.close(figure)


def _draw(panel: Panel, axis) -> None:
    for index, one in enumerate(panel.curves):
        style = _style(one.label, index)
        every = max(1, math.ceil(len(one.steps) / _MARKERS_PER_LINE))
        # Each row's markers begin at another point, so that those of close lines do not coincide.
        axis.plot(one.steps, one.mean, label=one.label, markevery=(index % every, every), **style)
        if one.num_seeds > 1:
            axis.fill_between(
                one.steps, one.low, one.high, color=style["color"], alpha=0.15, linewidth=0
            )
    axis.set_title(panel.title, loc="left")
    axis.set_xlabel("step")
    axis.set_ylabel("dev perplexity per token")
    _scale(axis, panel.curves)
    axis.grid(which="both", color="#dddddd", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        handlelength=3.6,
        fontsize=9,
        title=_seeds_text(panel.curves),
        title_fontsize=8,
        alignment="left",
    )


def _seeds_text(curves: Sequence[Curve]) -> str | None:
    most = max(one.num_seeds for one in curves)
    if most == 1:
        return None
    up_to = "" if all(one.num_seeds == most for one in curves) else "up to "
    return f"mean of {up_to}{most} seeds,\nband: lowest to highest"


def _scale(axis, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_yscale("log")
    lowest = min(min(one.low) for one in curves)
    highest = max(max(one.high) for one in curves)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    if highest / lowest < 3:
        # Too narrow for powers of ten: evenly spaced plain numbers.
        axis.yaxis.set_major_locator(MaxNLocator(6))
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        subs = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0) if highest / lowest < 60 else (1.0, 2.0, 5.0)
        axis.yaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(plain)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _style(label: str, index: int) -> dict:
    if label == "base":
        return {"color": "black", "linestyle": "-", "linewidth": 2.2, "zorder": 3}
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.4,
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
    }
