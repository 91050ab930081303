"""What README and the quickstart itself say about its rows."""

import csv
import re
import sys
from pathlib import Path

import pytest
from absl import flags

from experiments import quickstart

ROOT = Path(__file__).parents[2]


def _kept(table):
    """Row -> its cells in a document, of a kept table of five seeds."""
    with open(ROOT / "experiments" / "results" / table / "report.csv", encoding="utf-8") as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    assert {row["num_seeds"] for row in rows.values()} == {"5"}
    return {name: _cells(row) for name, row in rows.items()}


def _cells(row):
    cells = []
    for measure, digits in (("dev_perplexity", 3), ("test_bleu", 1)):
        mean, width = (float(row[f"{measure}_{x}"]) for x in ("mean", "half_width_95"))
        cells.append(f"{mean:.{digits}f} ± {width:.{digits}f}")
        if row["row"] != "base":
            mark = " *" if float(row[f"{measure}_p"]) < 0.05 else ""
            difference = f"{float(row[f'{measure}_difference']):+.{digits}f}"
            cells.append((difference if float(difference) else difference[1:]) + mark)
    return cells


def _lines(document):
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    return [re.split(r" *\| *", line.strip("| ")) for line in lines if line.startswith("| ")]


def test_readmes_table_is_of_the_records_that_are_kept():
    kept = _kept("quickstart")
    table = {cells[0]: cells[3:] for cells in _lines("README.md") if cells[0] in kept}
    assert {name: [cell for cell in cells if cell] for name, cells in table.items()} == kept


@pytest.mark.parametrize(
    ("arguments", "code", "is_said"),
    [
        ([], 0, True),
        (["--seeds=3"], 0, False),
        (["--dry_run"], 0, False),
        (["--plan=v5e-8"], 0, False),
        ([], 1, False),
    ],
)
def test_the_quickstart_says_what_one_seed_cannot(monkeypatch, capsys, arguments, code, is_said):
    monkeypatch.setattr(quickstart.sweep, "main", lambda _: sys.exit(code))
    given = {"seeds": 3 if "--seeds=3" in arguments else 1, "dry_run": "--dry_run" in arguments}
    given["plan"] = "v5e-8" if "--plan=v5e-8" in arguments else None
    monkeypatch.setattr(flags, "FLAGS", type("Values", (), given))
    with pytest.raises(SystemExit):
        quickstart._sweep([])
    assert ("one seed on one machine" in capsys.readouterr().out) == is_said
