"""The style of figures: readable for the colour-blind, and in black and white."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from t2t_jax.explain.look import COLOURS
from t2t_jax.explain.look import GREY as GREY
from t2t_jax.explain.look import fonts as fonts

# Inches, for every figure: on a phone, 400 pixels wide, the text is still nine pixels high.
_WIDTH = 6.2
_LETTERS_PER_LINE = 62
_GRID = "#dddddd"

# Dashes and markers alone tell the rows apart in black and white: 5 x 7 pairs before one repeats.
_DASHES: tuple = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (7, 2, 1, 1.5, 1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def line_style(label: str, index: int) -> dict[str, Any]:
    """Options of `plot` for the row `label`, the `index`th drawn; the base stands out."""
    if label == "base":
        return {"color": "black", "linestyle": "-", "linewidth": 2.2, "zorder": 3}
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.4,
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
    }


def marker(label: str, index: int) -> str:
    """The marker of a row with all points marked; the base has a large dot."""
    return "." if label == "base" else _MARKERS[index % len(_MARKERS)]


def stacked(heights: Sequence[float], columns: int = 1) -> tuple[Figure, Any]:
    """A figure with a row of panels per height, in inches, and the panels.

    Each row is a subfigure, with room for a legend.
    """
    figure = Figure(figsize=(_WIDTH, sum(heights)))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    parts = figure.subfigures(len(heights), squeeze=False, height_ratios=heights)
    return figure, [part.subplots(1, columns, squeeze=False)[0] for part in parts[:, 0]]


def title(axis: Any, what: str, table: str) -> None:
    """A title over the whole row of panels: what the figure shows, and below it the table."""
    words = "\n".join([what, *wrapped(table)])
    axis.figure.suptitle(words, x=0.015, ha="left", fontsize=10.5, fontweight="bold")


def wrapped(words: str) -> list[str]:
    """The words wrapped to a figure's width."""
    return textwrap.wrap(words, _LETTERS_PER_LINE, break_on_hyphens=False)


def round_ticks(most: int, *, whole: bool = False) -> MaxNLocator:
    """At most `most` intervals between ticks at 1, 2 or 5 times a power of ten."""
    return MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole)


def log_scale(axis: Any, lowest: float, highest: float) -> None:
    """A logarithmic y axis with a margin beyond these limits, and plain numbers at its ticks."""
    axis.set_yscale("log")
    margin = max(1.02, (highest / lowest) ** 0.04)
    axis.set_ylim(lowest / margin, highest * margin)
    if highest / lowest < 3:
        # Too narrow for powers of ten: evenly spaced plain numbers.
        axis.yaxis.set_major_locator(round_ticks(6))
        axis.yaxis.set_minor_locator(NullLocator())
    else:
        subs = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0) if highest / lowest < 60 else (1.0, 2.0, 5.0)
        axis.yaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def tidy(axis: Any, *, grid: str = "both") -> None:
    """A light grid, of "both" axes or one, and no frame at the top and the right."""
    axis.grid(which="both", axis=grid, color=_GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def legend_below(axis: Any, title: str | None) -> None:
    """Puts the legend below the panel, where it hides nothing and takes no width."""
    handles, labels = axis.get_legend_handles_labels()
    axis.figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=_legend_columns(labels),
        frameon=False,
        handlelength=3.6,
        title=title,
        title_fontsize=10,
        alignment="left",
    )


def legend_inches(labels: Sequence[str], title: str | None) -> float:
    """The height of such a legend."""
    num_lines = math.ceil(len(labels) / _legend_columns(labels))
    return 0.21 * (num_lines + len((title or "").splitlines())) + 0.2


def _legend_columns(labels: Sequence[str]) -> int:
    return max(1, min(3, _LETTERS_PER_LINE // (max(map(len, labels), default=0) + 9)))


def seeds_text(most: int, fewest: int, spread: str) -> str | None:
    """What a line is, and what shows the `spread` of the seeds; None for one seed."""
    if most == 1:
        return None
    up_to = "" if most == fewest else "up to "
    return f"mean of {up_to}{most} seeds, {spread}"
