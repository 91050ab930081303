"""Tables as CSV, for programs: numbers in full."""

import csv
import io
from collections.abc import Sequence

from experiments.report.effects import Effect
from experiments.report.measures import COSTS, Mean, Measure
from experiments.report.summary import RowSummary, TableSummary
from experiments.tables.ablation import Score

_FACTS = ("table", "base", "row", "changes", "num_seeds", "num_diverged", "params_millions")
# Of each measure; low, high and p hold for all rows at once.
_OF_MEASURE = ("mean", "half_width_95", "difference", "test", "low", "high", "p")
_PAPER = ("paper_perplexity", "paper_bleu", "paper_test_bleu", "paper_params_millions")


def csv_text(found: Sequence[TableSummary]) -> str:
    """One line per row of every table; an empty cell was not measured.

    Text that begins like a formula of a spreadsheet has a ' before it.
    """
    measures = list({each.name: each for table in found for each in table.measures}.values())
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    of_measures = [name for measure in measures for name in _names(measure)]
    writer.writerow([*_FACTS, *of_measures, *(cost.name for cost in COSTS), *_PAPER])
    for table in found:
        for row in table.rows:
            writer.writerow(map(cell, _line(table, row, measures)))
    return stream.getvalue()


def cell(value: object) -> object:
    """A number as it is; text that a spreadsheet would take for a formula with a ' before it."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if is_formula else value


def _names(measure: Measure) -> list[str]:
    return [f"{measure.name}_{ending}" for ending in _OF_MEASURE]


def _line(table: TableSummary, row: RowSummary, measures: Sequence[Measure]) -> list:
    cells = [table.name, table.base, row.name, row.changes, row.num_seeds, row.num_diverged]
    cells.append(row.params)
    for measure in measures:
        cells += _of_measure(row.means.get(measure.name), row.effects.get(measure.name))
    paper = (row.paper if table.has_paper_base else None) or Score(None, None)
    reported = (paper.perplexity, paper.bleu, paper.test_bleu, paper.params)
    return [*cells, *(row.costs[cost.name] for cost in COSTS), *reported]


def _of_measure(mean: Mean | None, effect: Effect | None) -> list:
    means = (mean.mean, mean.half_width) if mean else (None, None)
    if effect is None:
        return [*means, *[None] * 5]
    if effect.comparison is None or effect.ends is None:
        return [*means, effect.difference, *[None] * 4]
    return [*means, effect.difference, effect.test, *effect.ends, effect.comparison.p_value]
