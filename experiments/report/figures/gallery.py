"""All figures of a report, by the names of their files."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from experiments.report.figures import forest_plot, learning_curves, lengths, style, tuning
from experiments.report.summary import TableSummary
from t2t_jax.json_files import write_bytes

# Name, title, caption, the function that makes the panels and the one that draws them.
_KINDS: tuple[tuple[str, str, str, Callable[[Sequence[TableSummary]], list], Any], ...] = (
    (
        "effects",
        forest_plot.TITLE,
        "How far each row is from the base row, which is the line at 0: BLEU in points, and the "
        "natural logarithm of perplexity in nats per token, so that 0.1 is about 10 % more. Both "
        f"axes are linear. Filled marker: {forest_plot.SIGNS['filled']}. Half-filled: "
        f"{forest_plot.SIGNS['half-filled']}, which knows nothing of the noise between seeds. "
        f"Hollow: {forest_plot.SIGNS['hollow']}. The horizontal bars are 95 % intervals that hold "
        "for all rows at once: one that does not touch zero is what has a mark in the table. Of a "
        "tuned table each row has a second one below, in another colour: at its best values. A "
        "triangle at the edge points to a row beyond the axis, with its number.",
        forest_plot.panels,
        forest_plot.draw,
    ),
    (
        "bleu_by_length",
        lengths.TITLE,
        "BLEU in percent, on a linear axis that need not begin at 0, of the sentences of each "
        "length taken together; below each length stands how many they are. Vertical bars reach "
        "from the lowest seed to the highest. Markers stand side by side only so that none hides "
        "another. Where a part is called long, its sentences are longer than any of training.",
        lengths.panels,
        lengths.draw,
    ),
    (
        "tuning",
        tuning.TITLE,
        "Perplexity per token of dev at the end of each trial, on a logarithmic axis, against the "
        "value that was tried, all of one seed; lower is better. A ring is what was chosen, of one "
        "row where rings of several fall together. A triangle at the upper edge: the trial "
        "diverged, or is further up. Where several values are tuned at once, each has a panel of "
        "its own, without lines.",
        tuning.panels,
        tuning.draw,
    ),
    (
        "learning_curves",
        learning_curves.TITLE,
        "Perplexity per token of dev, on a logarithmic axis, after so many training steps, on a "
        "linear one; lower is better. A line is the mean over seeds, its band reaches from the "
        "lowest to the highest. Of more than five evaluations the axis ends at the highest value "
        "of the second half of training: what is above it, at the beginning, is cut off.",
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


# Title and caption, by the name of the file.
WORDS = {f"{name}.png": (title, caption) for name, title, caption, *_ in _KINDS}


def pictures(found: Sequence[TableSummary]) -> Iterator[Picture]:
    """The figures that have something to show, drawn one after the other."""
    for name, title, caption, make_panels, draw in _KINDS:
        if panels := make_panels(found):
            with style.fonts():
                figure = draw(panels)
            yield Picture(name, title, caption, figure)


def write_pngs(found: Sequence[TableSummary], directory: Path) -> list[Path]:
    """Writes NAME.png for each figure there is; returns the files written."""
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
    """The figure as SVG in a data URI, so that a page needs no other file."""
    stream = io.BytesIO()
    with style.fonts():
        # Without a date, the same figure gives the same text.
        picture.figure.savefig(stream, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()
