"""What README and the quickstart itself say about its rows."""

import csv
import re
import sys
from pathlib import Path

import pytest
from absl import flags

from experiments import quickstart

ROOT = Path(__file__).parents[2]
# Rows of the quickstart, as tables of three seeds call them.
KEPT = {
    "base": ("table3_tiny_fused", "base"),
    "one_head": ("table3_tiny_fused", "A.h=1"),
    "one_layer": ("table3_tiny_fused", "C.N=1"),
    "learned_positions": ("table3_tiny_fused", "E.learned"),
    "no_positions": ("positions_tiny_fused", "none"),
}


def _kept(table, row):
    with open(ROOT / "experiments" / "results" / table / "report.csv", encoding="utf-8") as file:
        [found] = [each for each in csv.DictReader(file) if each["row"] == row]
    return found


def test_readmes_table_is_of_the_records_that_are_kept():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r" *\| *", line.strip("| ")) for line in lines if line.startswith("| ")]
    table = {cells[0]: cells for cells in rows if cells[0] in KEPT}
    assert table.keys() == KEPT.keys()
    for name, (where, row) in KEPT.items():
        kept = _kept(where, row)
        expected = []
        for measure, digits in (("dev_perplexity", 2), ("test_bleu", 1)):
            mean, width = (float(kept[f"{measure}_{x}"]) for x in ("mean", "half_width_95"))
            expected.append(f"{mean:.{digits}f} ± {width:.{digits}f}")
            if name != "base":
                mark = " *" if float(kept[f"{measure}_p"]) < 0.05 else ""
                difference = f"{float(kept[f'{measure}_difference']):+.{digits}f}"
                expected.append((difference if float(difference) else difference[1:]) + mark)
        assert kept["num_seeds"] == "3"
        assert [cell for cell in table[name][3:] if cell] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "is_said"),
    [([], 0, True), (["--seeds=3"], 0, False), (["--dry_run"], 0, False), ([], 1, False)],
)
def test_the_quickstart_says_what_one_seed_cannot(monkeypatch, capsys, arguments, code, is_said):
    monkeypatch.setattr(quickstart.sweep, "main", lambda _: sys.exit(code))
    given = {"seeds": 3 if "--seeds=3" in arguments else 1, "dry_run": "--dry_run" in arguments}
    monkeypatch.setattr(flags, "FLAGS", type("Values", (), given))
    with pytest.raises(SystemExit):
        quickstart._sweep([])
    assert ("one seed on one machine" in capsys.readouterr().out) == is_said
