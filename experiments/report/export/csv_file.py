"""All runs as one CSV file, a line per run."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from experiments.report.export.exported_runs import ExportedRun
from experiments.report.rendering.comma_separated import cell
from experiments.run.plain_text import plain_text
from t2t_jax.json_files import write_bytes


def export(runs: Sequence[ExportedRun], output: Path) -> Path:
    """Writes `runs.csv`: an empty cell was not measured, or is not in that run's config.

    Text that a spreadsheet would take for a formula has a ' before it.
    """
    stream = io.StringIO()
    kinds = zip(*map(_cells, runs), strict=True)
    names = list(dict.fromkeys(name for kind in kinds for cells in kind for name in cells))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(cell, names))
    for run in runs:
        line = {name: value for cells in _cells(run) for name, value in cells.items()}
        writer.writerow(cell(line.get(name)) for name in names)
    path = output / "runs.csv"
    write_bytes(path, stream.getvalue().encode())
    return path


def _cells(run: ExportedRun) -> tuple[dict, ...]:
    """The cells by title, in groups that stay together."""
    names = {"run": plain_text(run.name), "table": run.table, "row": run.row, "seed": run.seed}
    return names, run.changed, run.numbers, run.scores, run.facts
