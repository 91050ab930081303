"""All figures of a report, by the names of their files."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from experiments.report.figures import forest_plot, learning_curves, lengths, style
from experiments.report.summary import TableSummary
from t2t_jax.json_files import write_bytes

# Name, title, caption, what makes the panels and what draws them.
_KINDS: tuple[tuple[str, str, str, Callable[[Sequence[TableSummary]], list], Any], ...] = (
    (
        "effects",
        forest_plot.TITLE,
        "With its 95 % interval. Filled: taken as real by a test over seeds, at the 5 % level "
        "after Holm's correction for the number of rows, which the intervals do not know; half "
        "filled: so by the sentences of one seed alone; hollow: within noise, or not tested. An "
        "arrow stands for a row beyond the axis.",
        forest_plot.panels,
        forest_plot.draw,
    ),
    (
        "bleu_by_length",
        lengths.TITLE,
        "Of the sentences of each length together; long: sentences longer than any of training.",
        lengths.panels,
        lengths.draw,
    ),
    (
        "learning_curves",
        learning_curves.TITLE,
        "On a logarithmic scale; of more than a few evaluations what is higher than any value of "
        "the second half is cut off.",
        learning_curves.panels,
        learning_curves.draw,
    ),
)


class Picture(NamedTuple):
    """A figure, what it shows and how to read it."""

    name: str  # of its file
    title: str
    caption: str
    figure: Figure


# By the name of the file.
TITLES = {f"{name}.png": title for name, title, *_ in _KINDS}


def pictures(found: Sequence[TableSummary]) -> Iterator[Picture]:
    """Those that have something to show, drawn one after the other."""
    for name, title, caption, make_panels, draw in _KINDS:
        if panels := make_panels(found):
            with style.fonts():
                figure = draw(panels)
            yield Picture(name, title, caption, figure)


def write_pngs(found: Sequence[TableSummary], directory: Path) -> list[Path]:
    """Writes NAME.png for each figure there is; what was written."""
    paths = []
    for picture in pictures(found):
        path = directory / f"{picture.name}.png"
        stream = io.BytesIO()
        with style.fonts():
            picture.figure.savefig(stream, dpi=160)
        write_bytes(path, stream.getvalue())
        paths.append(path)
    return paths


def data_uri(picture: Picture) -> str:
    """The figure as SVG inside an address, so that a page needs no other file."""
    stream = io.BytesIO()
    with style.fonts():
        # Without its date the same figure gives the same text.
        picture.figure.savefig(stream, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()
