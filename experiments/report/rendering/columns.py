"""The columns of a printed table: titles, and the text of each row's cells."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from experiments.report.measures import (
    ACCURACY,
    DEV_BLEU,
    LONG_BLEU,
    PERPLEXITY,
    PROBES,
    TEST_BLEU,
    Mean,
    Measure,
    reported,
)
from experiments.report.notes import MARK
from experiments.report.summary import RowSummary, TableSummary


class Cell(NamedTuple):
    """What stands in one place of a table."""

    text: str = ""
    is_marked: bool = False  # its difference to the base row is taken as real

    def __str__(self) -> str:
        return f"{self.text} {MARK}" if self.is_marked else self.text


class Column(NamedTuple):
    """A column, and what it says of a row."""

    title: str
    cell: Callable[[RowSummary], Cell]
    is_text: bool = False  # words, not numbers
    is_sentence: bool = False  # what the marks say already


def columns(table: TableSummary) -> list[Column]:
    """Those in which some row of this table has something to say."""
    return [
        column
        for column in _all_columns(table)
        if column.title in _ALWAYS or any(column.cell(row).text for row in table.rows)
    ]


_ALWAYS = ("row", "changes", "n")


def _all_columns(table: TableSummary) -> Iterator[Column]:
    paper = table.paper_base is not None
    yield Column("row", lambda row: Cell(row.name), is_text=True)
    yield Column("changes", lambda row: Cell(row.changes), is_text=True)
    yield Column("n", lambda row: Cell(str(row.num_seeds)))
    yield Column("params (10^6)", lambda row: Cell(_params_text(row.params)))
    if paper:
        yield Column("paper params", lambda row: Cell(_plain(row.paper and row.paper.params, 0)))
    yield from _mean_and_difference(PERPLEXITY, "ΔPPL")
    if paper:
        yield from _of_the_paper(table, PERPLEXITY, "paper PPL", "paper ΔPPL")
    yield from _mean_and_difference(DEV_BLEU, "ΔBLEU (dev)")
    if paper:
        yield from _of_the_paper(table, DEV_BLEU, "paper BLEU", "paper ΔBLEU")
    yield from _mean_and_difference(TEST_BLEU, "ΔBLEU")
    if paper:
        yield from _of_the_paper(table, TEST_BLEU, "paper BLEU (test)", "paper ΔBLEU (test)")
    yield from _mean_and_difference(LONG_BLEU, "ΔBLEU (long)")
    yield from _mean_and_difference(ACCURACY, "Δaccuracy")
    for probe in PROBES:
        yield Column(probe.title, _mean_cell(probe, is_marked=True))
    yield Column("seconds", lambda row: Cell(_plain(row.seconds, 0)))
    yield Column("tokens (10^6)", lambda row: Cell(_plain(row.target_tokens, 2)))
    yield Column("tokens/s", lambda row: Cell(_plain(row.tokens_per_second, 0)))
    yield Column("against base", lambda row: Cell(row.verdict), is_text=True, is_sentence=True)


def _mean_and_difference(measure: Measure, difference_title: str) -> Iterator[Column]:
    yield Column(measure.title, _mean_cell(measure))

    def difference(row: RowSummary) -> Cell:
        effect = row.effects.get(measure.name)
        if effect is None:
            return Cell()
        return Cell(signed(effect.difference, measure.digits), effect.is_significant)

    yield Column(difference_title, difference)


def _mean_cell(measure: Measure, *, is_marked: bool = False) -> Callable[[RowSummary], Cell]:
    def cell(row: RowSummary) -> Cell:
        effect = row.effects.get(measure.name)
        is_real = is_marked and effect is not None and effect.is_significant
        return Cell(_mean_text(row.means.get(measure.name), measure.digits), is_real)

    return cell


def _of_the_paper(
    table: TableSummary, measure: Measure, title: str, difference_title: str
) -> Iterator[Column]:
    """What the paper reports, and how far that is from what it reports of its base."""

    base = reported(table.paper_base, measure)

    def difference(row: RowSummary) -> Cell:
        ours = reported(row.paper, measure)
        if row.name == "base" or ours is None or base is None:
            return Cell()
        return Cell(signed(ours - base, measure.digits))

    yield Column(title, lambda row: Cell(_plain(reported(row.paper, measure), measure.digits)))
    yield Column(difference_title, difference)


def signed(value: float, digits: int) -> str:
    """The number with its sign; what is rounded to zero has none."""
    text = f"{value:+.{digits}f}"
    return text if float(text) != 0 else text[1:]


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _params_text(millions: float | None) -> str:
    # Two rows of a small model may differ by ten thousand parameters, of a large one by a million.
    return "" if millions is None else f"{millions:.{3 if millions < 10 else 1}f}"


def _mean_text(mean: Mean | None, digits: int) -> str:
    if mean is None:
        return ""
    interval = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
    return f"{mean.mean:.{digits}f}{interval}"
