"""The kept reports are what today's code makes of the kept records."""

import csv
import io
from pathlib import Path

import pytest

import experiments
from experiments.report import report

KEPT = sorted(path.parent for path in Path(experiments.__path__[0]).glob("results/*/report.csv"))
assert KEPT


def _rows(text):
    return [
        {name: _value(cell) for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]


def _value(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


@pytest.mark.parametrize("directory", KEPT, ids=lambda path: path.name)
def test_a_kept_report_is_that_of_its_records(directory):
    made, kept = (
        _rows(text)
        for text in (report.text(directory, "csv"), (directory / "report.csv").read_text())
    )
    assert len(made) == len(kept)
    for row, before in zip(made, kept, strict=True):
        words = {name for name, value in before.items() if isinstance(value, str)}
        assert {name: row[name] for name in words} == {name: before[name] for name in words}
        numbers = {name: value for name, value in before.items() if name not in words}
        assert {name: row[name] for name in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-6)
