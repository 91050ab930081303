"""The plan of a table: a line per row, each shape compiled once, totals of what is rented."""

import pytest

from configs import tiny
from experiments.sweep.planned import text, total_text
from experiments.sweep.time_left import makespan
from experiments.tables.registry import find_table
from t2t_jax.plan import facts
from t2t_jax.plan.facts import Keeper
from t2t_jax.plan.hardware import topology
from t2t_jax.plan.plan import Settings, plan
from t2t_jax.plan.prices import read_prices
from t2t_jax.plan.report import range_text
from t2t_jax.plan.roofline import Range
from tests.plan.stand_in import StandIn, sections

PRICES = read_prices(may_be_old=True)


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


def test_seeds_are_outermost_and_those_after_the_first_compile_nothing(compiler, tmp_path):
    settings = Settings(Keeper(tmp_path / "facts.json", compiler), all_programs=False)
    row = plan(sections(), topology("v5e-8"), settings)
    long = row._replace(hours_parts={**row.hours_parts, "training": Range(50.0, 90.0)})
    long = long._replace(hours=long.hours_after_compiling.plus(long.hours_parts["compiling"]))
    printed = total_text(topology("v5e-8"), [row, long], 2, PRICES)
    compiling = row.hours_parts["compiling"]
    twice = row.hours_after_compiling.plus(long.hours_after_compiling).times(2)
    assert f"{range_text(twice.plus(compiling.times(2)))} hours" in printed


def test_rows_that_do_not_fit_are_left_out_of_the_totals(compiler, tmp_path):
    compiler.state = 20 * 2**30
    assert "on v5e-8 no row fits" in planned(tmp_path)


@pytest.mark.parametrize(
    ("hours", "at_once", "wanted"),
    [([1.0, 2.0, 3.0], 1, 6.0), ([1.0, 2.0, 3.0], 2, 4.0), ([1.0, 2.0, 3.0], 8, 3.0)],
)
def test_the_last_run_ends_when_there_was_room_for_it_in_its_turn(hours, at_once, wanted):
    assert makespan([], hours, at_once) == wanted
