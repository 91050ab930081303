"""BLEU against words of the source, a line per row.

In: summaries. Out: a figure.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.report.figures import style
from experiments.report.measures import LONG_BLEU, TEST_BLEU
from experiments.report.summary import RowSummary, TableSummary
from experiments.run.outcomes import records_of

TITLE = "BLEU by length of the source"

# More lines than this cannot be told apart where they cross.
_MOST_LINES = 8
_EXTREMES = 3  # rows drawn on either side if there are more
# BLEU of fewer sentences than this says more about them than about the model.
_FEWEST_SENTENCES = 20
# Between the markers of neighbouring lines, in bins: otherwise their bars would coincide.
_DODGE = 0.05

Bin = tuple[int, int | None]  # lowest and highest number of words


class Line(NamedTuple):
    """A row's BLEU in percent by bin: mean, lowest and highest over seeds."""

    label: str
    values: dict[Bin, tuple[float, float, float]]
    num_seeds: int


class Panel(NamedTuple):
    """One table's lines."""

    title: str
    sentences: dict[Bin, tuple[int, str]]  # how many there are in a bin, and of which split
    lines: list[Line]
    left_out: list[str]  # rows between the extremes


def panels(found: Sequence[TableSummary]) -> list[Panel]:
    """A panel for each table with translations of more than one length."""
    made = []
    for table in found:
        rows = [
            row
            for row in table.rows
            if row.num_diverged == 0 and any(map(_by_bin, records_of(row.outcomes)))
        ]
        sentences = _sentences(rows)
        if len(sentences) > 1:
            chosen = _chosen(rows)
            lines = [line for row in chosen if (line := _line(row, sentences)).values]
            drawn = {row.name for row in chosen}
            left_out = [row.name for row in rows if row.name not in drawn]
            made.append(Panel(table.title, sentences, lines, left_out))
    return made


def _by_bin(record: dict[str, Any]) -> dict[tuple[Bin, str], tuple[int, float]]:
    """(bin, split) -> sentences and BLEU."""
    return {
        ((entry["words"][0], entry["words"][1]), split): (entry["sentences"], entry["bleu"])
        for split in (TEST_BLEU.split, LONG_BLEU.split)
        for entry in record.get("scores", {}).get(split, {}).get("bleu_by_length", ())
    }


def _sentences(rows: Sequence[RowSummary]) -> dict[Bin, tuple[int, str]]:
    """For each bin with enough sentences, how many, and the split with most; shortest first."""
    most: dict[Bin, tuple[int, str]] = {}
    for row in rows:
        for record in records_of(row.outcomes):
            for (words, split), (number, _) in _by_bin(record).items():
                most[words] = max(most.get(words, (0, "")), (number, split))
    shortest_first = sorted(most, key=lambda words: (words[0], words[1] or math.inf))
    return {words: most[words] for words in shortest_first if most[words][0] >= _FEWEST_SENTENCES}


def _chosen(rows: Sequence[RowSummary]) -> list[RowSummary]:
    """All rows if they are few, else base, the best and the worst, in the table's order."""
    if len(rows) <= _MOST_LINES:
        return list(rows)
    scored = [row for row in rows if row.name != "base" and TEST_BLEU.name in row.means]
    scored.sort(key=lambda row: row.means[TEST_BLEU.name].mean)
    extremes = {row.name for row in (*scored[:_EXTREMES], *scored[-_EXTREMES:])}
    return [row for row in rows if row.name == "base" or row.name in extremes]


def _line(row: RowSummary, sentences: dict[Bin, tuple[int, str]]) -> Line:
    by_seed = [_by_bin(record) for record in records_of(row.outcomes)]
    values = {}
    for words, (_, split) in sentences.items():
        scores = [seed[words, split][1] for seed in by_seed if (words, split) in seed]
        if scores:
            values[words] = statistics.fmean(scores), min(scores), max(scores)
    return Line(row.name, values, len(by_seed))


def draw(drawn: Sequence[Panel]) -> Figure:
    """The panels below one another, bins evenly spaced, legends outside."""
    legends = [
        style.legend_inches([line.label for line in panel.lines], _legend_title(panel))
        for panel in drawn
    ]
    figure, axes = style.stacked([3.7 + legend for legend in legends])
    for panel, [axis] in zip(drawn, axes, strict=True):
        _draw(panel, axis)
    return figure


def _draw(panel: Panel, axis: Any) -> None:
    place = {words: index for index, words in enumerate(panel.sentences)}
    for index, line in enumerate(panel.lines):
        shift = _DODGE * (index - (len(panel.lines) - 1) / 2)
        look = style.line_style(line.label, index) | {"marker": style.marker(line.label, index)}
        # A line per split: scores of other sentences do not continue it.
        for number, words in enumerate(_by_split(line, panel.sentences)):
            x = [place[one] + shift for one in words]
            mean, low, high = np.array([line.values[one] for one in words]).T
            axis.plot(x, mean, label="" if number else line.label, **look)
            if line.num_seeds > 1:
                axis.vlines(x, low, high, color=look["color"], linewidth=0.9)
    labels = [f"{_bin_text(words)}\n{number:,}" for words, (number, _) in panel.sentences.items()]
    axis.set_xticks(range(len(labels)), labels)
    style.title(axis, TITLE, panel.title)
    axis.set_xlabel("words of the source; below them: number of sentences")
    axis.set_ylabel("BLEU, percent")
    style.tidy(axis, grid="y")
    _mark_splits([split for _, split in panel.sentences.values()], axis)
    style.legend_below(axis, _legend_title(panel))


def _by_split(line: Line, sentences: dict[Bin, tuple[int, str]]) -> list[list[Bin]]:
    groups = groupby(line.values, key=lambda words: sentences[words][1])
    return [list(words) for _, words in groups]


def _bin_text(words: Bin) -> str:
    low, high = words
    return f"{low} or more" if high is None else f"{low}\N{EN DASH}{high}"


def _mark_splits(splits: Sequence[str], axis: Any) -> None:
    """Marks where the sentences of another split begin."""
    for place, (before, after) in enumerate(zip(splits, splits[1:], strict=False)):
        if before == after:
            continue
        axis.axvline(place + 0.5, color=style.GREY, linewidth=0.9, linestyle=(0, (4, 3)))
        for name, side, offset in ((before, "right", -4), (after, "left", 4)):
            axis.annotate(
                name,
                (place + 0.5, 0.02),
                (offset, 0),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha=side,
                fontsize=9,
                color=style.GREY,
            )


def _legend_title(panel: Panel) -> str | None:
    seeds = [line.num_seeds for line in panel.lines]
    bars = "bars: lowest to highest"
    words = [style.seeds_text(max(seeds), min(seeds), bars)]
    if panel.left_out:
        left_out = ", ".join(panel.left_out)
        drawn = f"base, and the {_EXTREMES} best and worst by BLEU; between them: {left_out}"
        words += style.wrapped(drawn)
    return "\n".join(filter(None, words)) or None
