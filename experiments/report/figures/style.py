"""How figures look: told apart by colour-blind readers, and in black and white."""

from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_WIDTH = 8.4  # inches, of every figure
GREY = "#767676"
_GRID = "#dddddd"

# Okabe and Ito's colours; yellow is too pale for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Dashes and markers alone tell the rows apart in black and white: 5 x 7 pairs before one repeats.
_DASHES: tuple = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (7, 2, 1, 1.5, 1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def line_style(label: str, index: int) -> dict[str, Any]:
    """Options of `plot` for the row `label`, the `index`th that is drawn; the base stands out."""
    if label == "base":
        return {"color": "black", "linestyle": "-", "linewidth": 2.2, "zorder": 3}
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.4,
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
    }


def marker(label: str, index: int) -> str:
    """The marker of a row whose points all are marked; the base has a large dot."""
    return "." if label == "base" else _MARKERS[index % len(_MARKERS)]


def fonts() -> Any:
    """The context to draw and to save in."""
    return rc_context(
        {
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            # A dollar sign in a title is one, and begins no formula.
            "text.parse_math": False,
            # The same text gives the same file.
            "svg.hashsalt": "t2t_jax",
        }
    )


def stacked(heights: list[float], columns: int = 1) -> tuple[Figure, Any]:
    """A figure of as many rows of panels as there are heights, in inches; the panels."""
    figure = Figure(figsize=(_WIDTH, sum(heights)))
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    axes = figure.subplots(
        len(heights), columns, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    return figure, axes


def title(axis: Any, what: str, table: str) -> None:
    """What the figure shows, and below it of which table."""
    axis.set_title(f"{what}\n{table}", loc="left")


def round_ticks(most: int, *, whole: bool = False) -> MaxNLocator:
    """At most so many intervals between ticks at 1, 2 or 5 times a power of ten."""
    return MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole)


def tidy(axis: Any, *, grid: str = "both") -> None:
    """A quiet grid, of "both" axes or of one, and no frame at the top and the right."""
    axis.grid(which="both", axis=grid, color=_GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def legend_beside(axis: Any, title: str | None) -> None:
    """The legend to the right of the panel, where it hides nothing."""
    axis.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        handlelength=3.6,
        fontsize=9,
        title=title,
        title_fontsize=8,
        alignment="left",
    )


def seeds_text(most: int, fewest: int, spread: str) -> str | None:
    """What a line is, and what shows the `spread` of the seeds; nothing to say of one seed."""
    if most == 1:
        return None
    up_to = "" if most == fewest else "up to "
    return f"mean of {up_to}{most} seeds,\n{spread}"
