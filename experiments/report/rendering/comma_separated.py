"""Tables as CSV, for programs: numbers in full."""

import csv
import io
from collections.abc import Sequence

from experiments.report.effects import Effect
from experiments.report.measures import COSTS, Mean, Measure
from experiments.report.summary import RowSummary, TableSummary
from experiments.report.tuned import TunedRow
from experiments.tables.ablation import Score

_FACTS = ("table", "base", "row", "changes", "num_seeds", "num_diverged", "params_millions")
# For each measure; low, high and p hold for all rows at once.
_OF_MEASURE = ("mean", "half_width_95", "difference", "test", "low", "high", "p")
# For a tuned table, besides each measure at a row's chosen values.
_TUNING = ("chosen", "at_edge", "loss_at_half", "loss_at_twice", "fixed_and_tuned", "direction")
_PAPER = ("paper_perplexity", "paper_bleu", "paper_test_bleu", "paper_params_millions")


def csv_text(found: Sequence[TableSummary]) -> str:
    """One line per row of every table; an empty cell was not measured.

    Text that a spreadsheet would take for a formula has a ' before it.
    """
    measures = list({each.name: each for table in found for each in table.measures}.values())
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    of_measures = [name for measure in measures for name in _names(measure)]
    of_tuning = [*(f"tuned_{name}" for name in of_measures), *_TUNING]
    is_tuned = any(table.tuning for table in found)
    names = [*_FACTS, *of_measures, *(cost.name for cost in COSTS), *_PAPER]
    writer.writerow(names + of_tuning * is_tuned)
    for table in found:
        for row in table.rows:
            cells = _line(table, row, measures)
            cells += _of_tuning(row.tuned, measures) if is_tuned else []
            writer.writerow(map(cell, cells))
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


def _of_tuning(tuned: TunedRow | None, measures: Sequence[Measure]) -> list:
    if tuned is None:
        return [None] * (len(_OF_MEASURE) * len(measures) + len(_TUNING))
    cells = []
    for measure in measures:
        cells += _of_measure(tuned.means.get(measure.name), tuned.effects.get(measure.name))
    chosen = " ".join(f"{key}={value}" for key, value in tuned.chosen.items())
    return [*cells, chosen, "; ".join(tuned.edges), *tuned.losses, tuned.verdict, tuned.direction]


def _of_measure(mean: Mean | None, effect: Effect | None) -> list:
    means = (mean.mean, mean.half_width) if mean else (None, None)
    if effect is None:
        return [*means, *[None] * 5]
    if effect.comparison is None or effect.ends is None:
        return [*means, effect.difference, *[None] * 4]
    return [*means, effect.difference, effect.test, *effect.ends, effect.comparison.p_value]
