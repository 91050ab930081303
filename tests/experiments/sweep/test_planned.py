"""The plan of a table: a line per row, each shape compiled once, totals of what is rented."""

import pytest

from configs import tiny
from experiments.sweep.planned import makespan, text
from experiments.tables.registry import find_table
from t2t_jax.plan import facts
from tests.plan.stand_in import StandIn


class Flags:
    """Those of the command."""

    plan, rows, programs = "v5e-8", "base,A.h=1,D.*", "largest"
    prices = calibrate = None
    old_prices, one_row_per_chip = True, False

    def __init__(self, path, **others):
        self.facts = str(path / "facts.json")
        vars(self).update(others)


@pytest.fixture
def compiler(monkeypatch):
    found = StandIn()
    monkeypatch.setattr(facts, "compiled_facts", found)
    monkeypatch.setattr(facts, "_versions", lambda: {"jax": "9", "libtpu": "9"})
    return found


def planned(tmp_path, **others):
    base = tiny.get_config()
    base.data.cache = "/nowhere"
    return text(find_table("table3"), base, 3, Flags(tmp_path, **others))


def test_a_line_for_each_row_and_the_totals_of_each_slice(compiler, tmp_path):
    printed = planned(tmp_path, plan="v5e-8,v4-8")
    lines = [line for line in printed.splitlines() if line.startswith(("base ", "A.h=1 "))]
    assert len(lines) == 4
    rows = sum(" x 1 x 1 " in line for line in printed.splitlines()) // 2
    assert f"v5e-8: {3 * rows} runs, 1 at a time: " in printed
    assert f"v4-8: {3 * rows} runs, 1 at a time: " in printed


def test_rows_that_differ_in_a_rate_alone_are_one_program(compiler, tmp_path):
    planned(tmp_path, rows="base,A.h=1,D.smoothing=0.2")
    assert len(compiler.asked) == 2


def test_one_row_per_chip_is_a_program_of_one_chip_and_eight_runs_at_a_time(compiler, tmp_path):
    printed = planned(tmp_path, one_row_per_chip=True)
    assert {program.topology.name for program in compiler.asked} == {"v5e-1"}
    assert "runs, 8 at a time: " in printed and "v5e-8: " in printed


def test_rows_that_do_not_fit_are_left_out_of_the_totals(compiler, tmp_path):
    compiler.state = 20 * 2**30
    assert "on v5e-8 no row fits" in planned(tmp_path)


@pytest.mark.parametrize(
    ("hours", "at_once", "wanted"),
    [([1.0, 2.0, 3.0], 1, 6.0), ([1.0, 2.0, 3.0], 2, 3.0), ([1.0, 2.0, 3.0], 8, 3.0)],
)
def test_the_last_run_ends_when_there_was_room_for_it(hours, at_once, wanted):
    assert makespan(hours, at_once) == wanted
