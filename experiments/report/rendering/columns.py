"""The columns of a printed table: titles, and the text of each row's cells."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from experiments.report.measures import COSTS, PERPLEXITY, Cost, Mean, Measure, reported
from experiments.report.summary import RowSummary, TableSummary


class Cell(NamedTuple):
    """One cell of a table."""

    text: str = ""
    mark: str = ""  # its difference to the base row is taken as real, see effects.Effect

    def __str__(self) -> str:
        return f"{self.text} {self.mark}" if self.mark else self.text


class Column(NamedTuple):
    """A column, and its cell for a row."""

    title: str
    cell: Callable[[RowSummary], Cell]
    is_text: bool = False  # words, not numbers
    is_sentence: bool = False  # repeats in words what the marks say
    is_score: bool = False  # shown first on a narrow page


def columns(table: TableSummary) -> list[Column]:
    """The columns that are not empty in this table."""
    return [
        column
        for column in _all_columns(table)
        if column.title in _ALWAYS or any(column.cell(row).text for row in table.rows)
    ]


_ALWAYS = ("row", "changes", "n")


def _all_columns(table: TableSummary) -> Iterator[Column]:
    paper = table.has_paper_base
    yield Column("row", lambda row: Cell(row.name), is_text=True)
    yield Column("changes", lambda row: Cell(row.changes), is_text=True)
    yield Column("n", lambda row: Cell(str(row.num_seeds)))
    yield Column("params (10^6)", lambda row: Cell(_params_text(row.params)))
    if paper:
        yield Column("paper params", lambda row: Cell(_plain(row.paper and row.paper.params, 0)))
    for measure in table.possible_measures:
        yield from _of_measure(measure)
        if table.tuning and measure.difference:
            yield from _of_tuned(measure)
        if paper and measure.paper:
            yield from _of_the_paper(table, measure)
    for cost in COSTS:
        yield Column(cost.title, partial(_cost_cell, cost))
    if table.tuning:
        yield from _of_tuning(table)
    yield Column("against base", lambda row: Cell(row.verdict), is_text=True, is_sentence=True)


def _of_measure(measure: Measure) -> Iterator[Column]:
    """Its mean, and the difference to the base row."""

    def mean(row: RowSummary) -> Cell:
        effect = row.effects.get(measure.name)
        mark = effect.mark if effect is not None and not measure.difference else ""
        return Cell(_mean_text(row.means.get(measure.name), measure.digits), mark)

    def difference(row: RowSummary) -> Cell:
        effect = row.effects.get(measure.name)
        if effect is None:
            return Cell()
        return Cell(signed(effect.difference, measure.digits), effect.mark)

    yield Column(measure.title, mean, is_score=True)
    if measure.difference:
        yield Column(measure.difference, difference, is_score=True)


def _of_tuned(measure: Measure) -> Iterator[Column]:
    """The same for each row at its chosen values."""
    for column in _of_measure(measure):

        def cell(row: RowSummary, column: Column = column) -> Cell:
            if row.tuned is None:
                return Cell()
            return column.cell(row._replace(means=row.tuned.means, effects=row.tuned.effects))

        yield column._replace(title=f"tuned {column.title}", cell=cell)


def _of_tuning(table: TableSummary) -> Iterator[Column]:
    """The chosen values, what missing them costs, and the verdict on the row's difference."""
    [perplexity] = (each for each in table.possible_measures if each.name == PERPLEXITY.name)

    def loss(place: int, row: RowSummary) -> Cell:
        value = None if row.tuned is None else row.tuned.losses[place]
        if value is None or math.isinf(value):
            return Cell("" if value is None else "diverged")
        return Cell(signed(value, perplexity.digits))

    def words(name: str, row: RowSummary) -> Cell:
        return Cell("" if row.tuned is None else getattr(row.tuned, name))

    yield Column("chosen", partial(words, "chosen_text"), is_text=True)
    yield Column("ΔPPL at half", partial(loss, 0))
    yield Column("ΔPPL at twice", partial(loss, 1))
    yield Column("fixed and tuned", partial(words, "verdict"), is_text=True)
    yield Column("the paper's direction", partial(words, "direction"), is_text=True)


def _cost_cell(cost: Cost, row: RowSummary) -> Cell:
    return Cell(_plain(row.costs[cost.name], cost.digits))


def _of_the_paper(table: TableSummary, measure: Measure) -> Iterator[Column]:
    """The paper's number, and its difference to the paper's base."""
    base = reported(table.paper_base, measure)

    def difference(row: RowSummary) -> Cell:
        ours = reported(row.paper, measure)
        if row.name == "base" or ours is None or base is None:
            return Cell()
        return Cell(signed(ours - base, measure.digits))

    def value(row: RowSummary) -> Cell:
        return Cell(_plain(reported(row.paper, measure), measure.digits))

    yield Column(f"paper {measure.paper}", value)
    yield Column(f"paper Δ{measure.paper}", difference)


def signed(value: float, digits: int) -> str:
    """The number with its sign; without one if it rounds to zero."""
    text = f"{value:+.{digits}f}"
    return text if float(text) != 0 else text[1:]


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _params_text(millions: float | None) -> str:
    # Rows of a small model may differ by ten thousand parameters, of a large one by a million.
    return "" if millions is None else f"{millions:.{3 if millions < 10 else 1}f}"


def _mean_text(mean: Mean | None, digits: int) -> str:
    if mean is None:
        return ""
    interval = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
    return f"{mean.mean:.{digits}f}{interval}"
