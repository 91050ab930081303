"""Records -> what a table says: means and spreads over seeds, differences to the base, warnings.

In: the JSON files below a workdir. Out: numbers and sentences, no layout.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments import record, tables
from experiments.ablation import LeftOut, Row, Rows, Score, changes_text
from experiments.record import Run


class Leaf(NamedTuple):
    """A run's directory, what it was to do, and what came of it."""

    directory: Path
    run: Run
    record: dict[str, Any] | None
    failure: str | None


class Measure(NamedTuple):
    """Mean over seeds and sample standard deviation (divided by n - 1), which one seed lacks."""

    mean: float
    spread: float | None


class RowSummary(NamedTuple):
    """One line of a table; None where nothing was measured."""

    name: str
    changes: str
    num_seeds: int
    params: float | None  # millions
    perplexity: Measure | None  # dev, per token
    perplexity_difference: float | None  # to the base row's mean
    dev_bleu: Measure | None  # percent
    bleu: Measure | None  # test, percent
    bleu_difference: float | None  # test, to the base row's mean
    seconds: float | None  # training and scoring, mean over seeds
    target_tokens: float | None  # millions trained on, mean over seeds
    paper: Score | None


class TableSummary(NamedTuple):
    """All the rows of one table at one base, and what is to be said below them."""

    name: str
    title: str
    has_paper_base: bool
    rows: list[RowSummary]
    notes: list[str]
    unfinished: list[str]
    leaves: list[Leaf]


def summaries(workdir: Path) -> list[TableSummary]:
    """Every table there are runs of below `workdir`; the same table at two bases is two tables."""
    groups: dict[tuple[str, str], list[Leaf]] = {}
    for leaf in read_leaves(workdir):
        base = json.dumps(leaf.run.base | {"seed": None}, sort_keys=True)
        groups.setdefault((leaf.run.table, base), []).append(leaf)
    names = [name for name, _ in groups]
    return [
        _summary(leaves, workdir if names.count(name) > 1 else None)
        for (name, _), leaves in groups.items()
    ]


def read_leaves(workdir: Path) -> list[Leaf]:
    """The runs below `workdir`, by path.

    Raises:
      ValueError: a file is no JSON, or lacks what a run needs.
    """
    leaves = []
    for path in sorted(workdir.rglob(record.RUN_FILE)):
        directory = path.parent
        finished, failed = directory / record.RECORD_FILE, directory / record.FAILURE_FILE
        values = record.read_json(finished) if finished.exists() else None
        failure = str(record.read_json(failed).get("error")) if failed.exists() else None
        leaves.append(Leaf(directory, record.read_run(directory), values, failure))
    return leaves


def _summary(leaves: Sequence[Leaf], workdir: Path | None) -> TableSummary:
    name = leaves[0].run.table
    rows, title, has_paper_base = _expected_rows(name, leaves)
    if workdir is not None:
        title += f" [{leaves[0].directory.parents[2].relative_to(workdir)}]"
    by_row = {row.name: [leaf for leaf in leaves if leaf.run.row == row.name] for row in rows}
    base = _records(by_row.get("base", []))
    lines = [
        _row_summary(row, _records(by_row[row.name]), base) for row in rows if by_row[row.name]
    ]
    return TableSummary(
        name=name,
        title=title,
        has_paper_base=has_paper_base,
        rows=lines,
        notes=_notes(leaves, has_paper_base),
        unfinished=_unfinished(rows, by_row),
        leaves=[leaf for row in rows for leaf in by_row[row.name]],
    )


def _expected_rows(name: str, leaves: Sequence[Leaf]) -> tuple[list[Row], str, bool]:
    """The table's rows in the table's order, then those that only the runs know."""
    base = ConfigDict(leaves[0].run.base)
    try:
        table = tables.find_table(name)
        known, title, has_paper_base = table.rows(base), table.title, table.has_paper_base(base)
    except (KeyError, TypeError, ValueError):
        # The runs are older or newer than this code; what they say of themselves is enough.
        known, title, has_paper_base = Rows([], list[LeftOut]()), name, False
    rows = {row.name: row for row in known.rows}
    for leaf in leaves:
        rows.setdefault(leaf.run.row, Row(leaf.run.row, leaf.run.changes))
    return list(rows.values()), title, has_paper_base


def _records(leaves: Iterable[Leaf]) -> list[dict[str, Any]]:
    return [leaf.record for leaf in leaves if leaf.record is not None]


def _row_summary(row: Row, records: list[dict], base: list[dict]) -> RowSummary:
    perplexity = measure(_scores(records, "dev", "perplexity"))
    bleu = measure(_scores(records, "test", "bleu"))
    base_perplexity = measure(_scores(base, "dev", "perplexity"))
    base_bleu = measure(_scores(base, "test", "bleu"))
    is_base = row.name == "base"
    return RowSummary(
        name=row.name,
        changes=changes_text(row.changes),
        num_seeds=len(records),
        params=_mean(records, lambda values: values["params"] / 1e6),
        perplexity=perplexity,
        perplexity_difference=None if is_base else _difference(perplexity, base_perplexity),
        dev_bleu=measure(_scores(records, "dev", "bleu")),
        bleu=bleu,
        bleu_difference=None if is_base else _difference(bleu, base_bleu),
        seconds=_mean(records, lambda values: sum(values["seconds"].values())),
        target_tokens=_mean(records, lambda values: values["target_tokens"] / 1e6),
        paper=row.paper,
    )


def measure(values: Sequence[float]) -> Measure | None:
    """Mean and sample standard deviation of the seeds; None of no values."""
    if not values:
        return None
    return Measure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _difference(this: Measure | None, base: Measure | None) -> float | None:
    return None if this is None or base is None else this.mean - base.mean


def _scores(records: Iterable[dict], split: str, key: str) -> list[float]:
    found = [values.get("scores", {}).get(split, {}).get(key) for values in records]
    return [value for value in found if value is not None]


def _mean(records: Iterable[dict], value: Callable[[dict], float]) -> float | None:
    found = []
    for values in records:
        try:
            found.append(value(values))
        except (KeyError, TypeError):
            continue  # a record that lacks a fact still counts for the others
    return statistics.fmean(found) if found else None


def _notes(leaves: Sequence[Leaf], has_paper_base: bool) -> list[str]:
    """Convention and provenance, and whatever makes rows incomparable."""
    records = _records(leaves)
    if not records:
        return []
    notes = [
        "PPL: perplexity per token of the dev split; BLEU: percent. ±: sample standard deviation"
    ]
    notes[0] += " over n seeds. Differences are to the base row."
    facts = [
        ("direction", "Direction", lambda values: values.get("direction")),
        ("BLEU signatures", "BLEU signature", _signature),
        ("vocabularies", "Vocabulary", lambda values: values.get("vocabulary_fingerprint")),
        ("data", "Data", lambda values: values.get("data_fingerprint")),
        ("commits", "Commit", lambda values: values.get("commit")),
        ("hardware", "Hardware", lambda values: values.get("hardware")),
    ]
    for plural, label, value in facts:
        notes += _one_or_mixed(plural, label, [(v["row"], value(v)) for v in records])
    if has_paper_base:
        notes.append(_paper_note(leaves[0].run.table, leaves[0].run.base))
    return notes


def _signature(values: dict) -> str | None:
    return values.get("scores", {}).get("test", {}).get("bleu_signature")


_COMPARABLE = {
    "vocabularies": "perplexities are not comparable",
    "direction": "scores are not comparable",
    "BLEU signatures": "BLEU is not comparable",
    "data": "scores are not comparable",
}


def _one_or_mixed(plural: str, label: str, found: Sequence[tuple[str, str | None]]) -> list[str]:
    rows_by_value: dict[str, list[str]] = {}
    for row, value in found:
        if value is not None:
            rows_by_value.setdefault(str(value), []).append(row)
    if not rows_by_value:
        return []
    if len(rows_by_value) == 1:
        return [f"{label}: {next(iter(rows_by_value))}."]
    parts = [f"{value} ({', '.join(dict.fromkeys(rows))})" for value, rows in rows_by_value.items()]
    why = _COMPARABLE.get(plural)
    head = f"Warning: mixed {plural}, {why}" if why else f"Mixed {plural}"
    return [f"{head}: {'; '.join(parts)}."]


def _paper_note(table_name: str, base: dict[str, Any]) -> str:
    """What of the paper's recipe the base departs from, beside the model that it shares."""
    here = record.flat_dict(base)
    differences = [
        f"{key.partition('.')[2]}={here[key]} (paper {value})"
        for key, value in tables.find_table(table_name).paper_recipe.items()
        if key in here and here[key] != value
    ]
    where = "The paper's PPL and BLEU are of newstest2013, BLEU by its own script"
    if not differences:
        return f"{where}."
    return f"{where}; this base has the paper's model, but {', '.join(differences)}."


def _unfinished(rows: Sequence[Row], by_row: dict[str, list[Leaf]]) -> list[str]:
    lines = []
    for row in rows:
        for leaf in by_row[row.name]:
            if leaf.record is None:
                what = f"failed: {leaf.failure}" if leaf.failure else "not finished"
                log = leaf.directory / record.LOG_FILE
                where = f"; log: {log}" if log.exists() else ""
                lines.append(f"{row.name} seed {leaf.run.seed} {what}{where}")
    never = [row.name for row in rows if not by_row[row.name]]
    if never:
        lines.append(f"not asked for: {', '.join(never)}")
    return lines
