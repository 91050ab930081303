"""Records -> the content of a table: means over seeds, differences to the base row, sentences.

In: the JSON files below a workdir. Out: numbers and sentences, no layout.
"""

import json
import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.report.effects import BOOTSTRAP, Effect, effects
from experiments.report.measures import (
    ACCURACY,
    COSTS,
    DEV_BLEU,
    PERPLEXITY,
    TEST_BLEU,
    Mean,
    Measure,
    mean,
    measures_of,
    values_of,
)
from experiments.report.method import method
from experiments.report.notes import hardware, notes
from experiments.report.run_files import damage, no_curve, page_of
from experiments.report.samples import Sample, first_seeds, samples
from experiments.report.sweep_command import sweep_commands
from experiments.report.tuned import TunedRow, Tuning, tuning
from experiments.run import record
from experiments.run.outcomes import (
    Outcome,
    of_one_config,
    one_of_each,
    read_outcomes,
    records_of,
)
from experiments.run.plain_text import counted, plain_text
from experiments.tables.ablation import LeftOut, Row, Rows, Score, changes_text
from experiments.tables.equal import Equal, is_stretched
from experiments.tables.registry import find_table
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.keys import with_later_keys

_BETTER, _WORSE = "better", "worse"
# Points of BLEU or accuracy: by default, a smaller difference is of no interest.
MARGIN = 0.5

_EQUAL: Mapping[Equal, str] = {
    "tokens": "Equal: tokens. Each row has as many updates as come to base's target tokens.",
    "flops": "Equal: operations. Each row has as many updates as come to base's operations of "
    "matrix products, forward and backward, padding included, without those of the optimizer.",
    "seconds": "Equal: seconds. Each row has as many updates as come to base's seconds, by what an "
    "update of it took on a run's share of the machine that the sweep was started on.",
}


class RowSummary(NamedTuple):
    """One line of a table; None, or no entry, if nothing was measured."""

    name: str
    changes: str
    num_seeds: int  # that are finished
    params: float | None  # millions
    means: Mapping[str, Mean]  # by name of the measure
    effects: Mapping[str, Effect]  # by name of the measure; empty for the base row
    verdict: str  # against the base row, in words
    costs: Mapping[str, float | None]  # by name of the cost, mean over seeds
    paper: Score | None
    outcomes: list[Outcome]  # finished or not
    note: str = ""  # what the changes alone do not tell
    page: str = ""  # path of the page of its first finished seed, relative to the report
    tuned: TunedRow | None = None

    @property
    def num_diverged(self) -> int:
        """How many seeds diverged."""
        return sum(outcome.has_diverged for outcome in self.outcomes)

    @property
    def group(self) -> str:
        """Rows of a group stand together: "A" for "A.h=4", "" for "big"; base is alone."""
        head, dot, _ = self.name.partition("=")[0].partition(".")
        return "base" if self.name == "base" else head if dot else ""


class TableSummary(NamedTuple):
    """All the rows of one table at one base, and the notes below them."""

    name: str
    title: str
    base: str  # what distinguishes its base from those of the table's other summaries
    has_paper_base: bool
    rows: list[RowSummary]
    method: list[str]  # what was done
    notes: list[str]
    unfinished: list[str]
    samples: list[Sample]
    commands: list[str]  # that reproduce it; none for a base unknown to this code
    damaged: list[str]  # a sentence for each damaged file of its runs
    tuning: Tuning | None = None

    @property
    def paper_base(self) -> Score | None:
        """The paper's scores of its base row, if ours are comparable."""
        return next((row.paper for row in self.rows if row.name == "base"), None)

    @property
    def measures(self) -> list[Measure]:
        """The measures that some row was scored by."""
        possible = self.possible_measures
        return [each for each in possible if any(each.name in row.means for row in self.rows)]

    @property
    def possible_measures(self) -> list[Measure]:
        """The measures that its rows could be scored by."""
        return measures_of(outcome for row in self.rows for outcome in row.outcomes)


def summaries(
    workdir: Path, num_samples: int | None = None, margin: float = MARGIN
) -> list[TableSummary]:
    """Every table with runs below `workdir`; the same table at two bases counts as two.

    A damaged file affects only its own run, and is named.

    Args:
      num_samples: sentences of the test split with their translations, see `samples`.
      margin: points of BLEU or accuracy below which a difference is of no interest.

    Raises:
      ValueError: no run can be read.
    """
    found = read_outcomes(workdir)
    if not found.runs and found.unreadable:
        raise ValueError(f"no run below {workdir} can be read: {_first(found.unreadable)}")
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in found.runs:
        base = json.dumps(record.settings(outcome.run.base), sort_keys=True)
        groups.setdefault((outcome.run.table, base), []).append(outcome)
    # Trials alone, without the runs that they were made for, make no table.
    groups = {
        place: outcomes
        for place, outcomes in groups.items()
        if any(outcome.run.kind == "fixed" for outcome in outcomes)
    }
    if not groups and found.unreadable:
        raise ValueError(f"no table can be made below {workdir}: {_first(found.unreadable)}")
    bases: dict[str, list[dict[str, Any]]] = {}
    for name, base in groups:
        bases.setdefault(name, []).append(json.loads(base))
    tables = [
        _summary(outcomes, _own_settings(json.loads(base), bases[name]), num_samples, margin)
        for (name, base), outcomes in groups.items()
    ]
    tables = [
        table._replace(rows=[row._replace(page=_page(row, workdir)) for row in table.rows])
        for table in tables
    ]
    for directory, sentence in found.unreadable.items():
        of_name = (table for table in tables if table.name == directory.parent.parent.name)
        table = next(of_name, tables[0] if tables else None)
        if table is not None:
            table.damaged.append(sentence)
            table.notes.append(_damage_text(sentence))
    return tables


def _first(sentences: Mapping[Path, str]) -> str:
    """The first sentence, and how many more there are."""
    first, *others = sentences.values()
    return f"{first}, and {len(others)} more" if others else first


def _page(row: RowSummary, workdir: Path) -> str:
    paths = [page_of(outcome) for outcome in first_seeds(row.outcomes)]
    return next((path.relative_to(workdir).as_posix() for path in paths if path), "")


def _damage_text(sentence: str) -> str:
    return f"Damaged, left out: {sentence}."


def _own_settings(base: dict[str, Any], bases: Sequence[dict[str, Any]]) -> str:
    """The keys of a base that are not the same in all of `bases`; "" if there is no other."""
    own = {
        key: value
        for key, value in base.items()
        if any(key not in other or other[key] != value for other in bases)
    }
    return changes_text(own) or ("" if len(bases) == 1 else "fewer keys")


def _summary(
    all_outcomes: Sequence[Outcome], own_settings: str, num_samples: int | None, margin: float
) -> TableSummary:
    each_once = one_of_each(all_outcomes)
    all_kinds = of_one_config(each_once)
    outcomes = [outcome for outcome in all_kinds if outcome.run.kind == "fixed"]
    name = outcomes[0].run.table
    rows, title, has_paper_base = _expected_rows(name, outcomes)
    if own_settings:
        title += f" [{own_settings}]"
    by_row = {
        row.name: [outcome for outcome in outcomes if outcome.run.row == row.name] for row in rows
    }
    by_measure = {measure.name: effects(measure, by_row) for measure in measures_of(outcomes)}
    tuned = tuning(all_kinds, by_row, by_measure)
    lines = [
        _row_summary(
            row,
            by_row[row.name],
            {name: found[row.name] for name, found in by_measure.items() if row.name in found},
            num_base_seeds=len(records_of(by_row.get("base", ()))),
            margin=margin,
            tuned=None if tuned is None else tuned.rows.get(row.name),
        )
        for row in rows
        if by_row[row.name]
    ]
    of_tuning = [outcome for outcome in all_kinds if outcome.run.kind != "fixed"]
    damaged = damage(all_kinds)
    return TableSummary(
        name=name,
        title=title,
        base=own_settings,
        has_paper_base=has_paper_base,
        rows=lines,
        method=_method(lines, outcomes, all_kinds) + (tuned.method if tuned else []),
        notes=[
            *notes(outcomes, has_paper_base, by_measure, of_tuning),
            *(tuned.notes if tuned else []),
            *no_curve(outcomes),
            *_diverged(by_row),
            *_left_out("Each seed of a row counts once", all_outcomes, each_once),
            *_left_out("All seeds of a row have its first one's config", each_once, all_kinds),
            *map(_damage_text, damaged),
        ],
        unfinished=_unfinished(rows, all_kinds),
        samples=samples([each for row in rows for each in by_row[row.name]], num_samples),
        commands=sweep_commands(
            name, outcomes, [row.name for row in rows], _tune_flags(tuned) if tuned else ()
        ),
        damaged=[*damaged, *(outcome.refused for outcome in all_kinds if outcome.refused)],
        tuning=tuned,
    )


def _tune_flags(tuned: Tuning) -> list[str]:
    words = [f"--tune={shlex.quote(each)}" for each in tuned.words]
    return [*words, f"--trials={tuned.num_trials}"]


def _method(
    rows: Sequence[RowSummary], outcomes: Sequence[Outcome], all_kinds: Sequence[Outcome]
) -> list[str]:
    """What was done, in sentences, which include the rows' notes."""
    records = records_of(outcomes)
    records.sort(key=lambda values: values["row"] != "base")  # whose facts come first
    of_base = next((values["config"] for values in records if values["row"] == "base"), None)
    told = method(of_base or outcomes[0].run.base, records) + hardware(all_kinds) + _equal(outcomes)
    return told + [f"Row {row.name}: {row.note}." for row in rows if row.note]


def _equal(outcomes: Sequence[Outcome]) -> list[str]:
    """What rows have in common with base; names the rows if it is not the same for all."""
    rows: dict[Equal, list[str]] = {}
    others = [outcome for outcome in outcomes if outcome.run.row != "base"]
    for outcome in others or outcomes:
        rows.setdefault(outcome.run.equal, []).append(outcome.run.row)
    told = []
    for equal, names in sorted(rows.items()):
        which = f" This holds for {', '.join(dict.fromkeys(names))} only." if len(rows) > 1 else ""
        told += [_EQUAL[equal] + which] if equal in _EQUAL else []
    return told


def _expected_rows(name: str, outcomes: Sequence[Outcome]) -> tuple[list[Row], str, bool]:
    """The table's rows in the table's order, then those that only the runs know."""
    try:
        # Of equivalent bases, the one with the most keys.
        base = max(
            (outcome.run.base for outcome in outcomes), key=lambda base: len(flat_dict(base))
        )
        table = find_table(name)
        known, title = table.rows(ConfigDict(with_later_keys(base))), table.title
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        # The runs are older or newer than this code, or its table is broken; their own files
        # suffice.
        known, title = Rows([], list[LeftOut]()), name
    has_paper_base = any(row.paper is not None for row in known.rows)
    rows = {row.name: row for row in known.rows}
    for outcome in outcomes:
        row = rows.get(outcome.run.row)
        changes = outcome.run.changes  # as the run knows it
        if row is not None and outcome.run.equal != "steps" and is_stretched(row, changes):
            rows[outcome.run.row] = row._replace(changes=changes)
        elif row is None or dict(row.changes) != changes:
            rows[outcome.run.row] = Row(outcome.run.row, changes)
    return list(rows.values()), title, has_paper_base


def _diverged(by_row: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """A note on rows with diverged seeds, and the scores of their other seeds."""
    rows = []
    for name, outcomes in by_row.items():
        if any(outcome.has_diverged for outcome in outcomes):
            others = [
                f"; seed {outcome.run.seed}: {record.score_text(outcome.record)}"
                for outcome in outcomes
                if outcome.record is not None
            ]
            rows.append(f"{name} ({_divergence(outcomes)}{''.join(others)})")
    if not rows:
        return []
    return [
        "A row with a diverged seed has neither mean nor test: its other seeds would misrepresent "
        f"it. {', '.join(rows)}."
    ]


def _left_out(why: str, all_outcomes: Sequence[Outcome], counted: Sequence[Outcome]) -> list[str]:
    """A note on runs that do not count."""
    kept = {outcome.directory for outcome in counted}
    others = [
        plain_text(outcome.directory) for outcome in all_outcomes if outcome.directory not in kept
    ]
    if not others:
        return []
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    return [f"{why}; left out: {', '.join(others[:2])}{more}."]


def _row_summary(
    row: Row,
    outcomes: list[Outcome],
    its_effects: Mapping[str, Effect],
    num_base_seeds: int,
    margin: float,
    tuned: TunedRow | None,
) -> RowSummary:
    records = records_of(outcomes)
    means = {measure.name: mean(values_of(measure, outcomes)) for measure in measures_of(outcomes)}
    return RowSummary(
        name=row.name,
        changes=changes_text(row.changes),
        num_seeds=len(records),
        params=_mean(records, lambda values: values["params"] / 1e6),
        means={name: found for name, found in means.items() if found is not None},
        effects=its_effects,
        verdict=_divergence(outcomes)
        or _verdict(its_effects, _seeds_text(len(records), num_base_seeds), margin),
        costs={cost.name: _mean(records, cost.value) for cost in COSTS},
        paper=row.paper,
        outcomes=outcomes,
        note=row.note,
        tuned=tuned,
    )


def _seeds_text(here: int, of_base: int) -> str:
    text = counted(here, "seed")
    return text if here == of_base else f"{text} against {of_base} of base"


def _divergence(outcomes: Sequence[Outcome]) -> str:
    """Says that a row diverged, or how many of its seeds did; "" if none did."""
    number = sum(outcome.has_diverged for outcome in outcomes)
    if number == 0 or number == len(outcomes):
        return "diverged" if number else ""
    return f"{number} of {len(outcomes)} seeds diverged"


def _verdict(found: Mapping[str, Effect], seeds: str, margin: float) -> str:
    """The verdict on perplexity and score, such as "PPL worse; BLEU differs by less than 0.5"."""
    bleu = TEST_BLEU if TEST_BLEU.name in found else DEV_BLEU
    measures_by_verdict: dict[str, list[str]] = {}
    for measure in (PERPLEXITY, bleu, ACCURACY):
        if measure.name in found:
            verdict = _verdict_on(found[measure.name], measure, seeds, margin)
            measures_by_verdict.setdefault(verdict, []).append(measure.short)
    if len(measures_by_verdict) == 1:
        [(verdict, measures)] = measures_by_verdict.items()
        if len(measures) == 2 and verdict not in (_BETTER, _WORSE):
            return verdict
    return "; ".join(
        f"{' and '.join(measures)} {verdict}" for verdict, measures in measures_by_verdict.items()
    )


def _verdict_on(effect: Effect, measure: Measure, seeds: str, margin: float) -> str:
    if effect.comparison is None:
        return "not tested"
    is_bootstrap = effect.test == BOOTSTRAP
    # A margin in points means nothing for perplexity.
    is_within = not measure.is_logarithmic and effect.is_within(margin)
    if effect.is_significant:
        is_more = effect.comparison.difference > 0
        verdict = _BETTER if is_more == measure.more_is_better else _WORSE
        if is_bootstrap:
            return f"{verdict} (two models of one seed)"
        return f"{verdict} by less than {margin:g}" if is_within else verdict
    if is_bootstrap:
        return "within the noise of the sentences"
    if is_within:
        return f"differs by less than {margin:g}"
    return f"no difference seen at {seeds}"


def _mean(records: Iterable[dict], value: Callable[[dict], float]) -> float | None:
    found = []
    for values in records:
        try:
            found.append(value(values))
        except (KeyError, TypeError, ZeroDivisionError):
            continue  # a record that lacks this fact still counts for others
    return statistics.fmean(found) if found else None


def _unfinished(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for row in rows:
        for outcome in (each for each in outcomes if each.run.row == row.name):
            is_over = outcome.run.kind == "trial" and outcome.has_diverged  # a trial has lost
            if outcome.record is None and not is_over:
                what = f"failed: {outcome.failure}" if outcome.failure else "not finished"
                if outcome.has_diverged:
                    what = str(outcome.failure)
                what = f"refused: {outcome.refused}" if outcome.refused else what
                log = outcome.directory / record.LOG_FILE
                where = f"; log: {plain_text(log)}" if log.exists() else ""
                which = outcome.run.name.replace("-", " ")
                lines.append(f"{row.name} {which} {what}{where}")
    asked_for = {outcome.run.row for outcome in outcomes}
    never = [row.name for row in rows if row.name not in asked_for]
    if never:
        lines.append(f"not asked for: {', '.join(never)}")
    return lines
