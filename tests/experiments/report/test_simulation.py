"""The rule keeps its level on tables of pure chance, and rules that do not are detected."""

import subprocess
import sys

import numpy as np
import pytest

from experiments.report import simulation
from experiments.report.simulation import false_alarms, power, share_interval

_TABLES = 400


def _lowest_share(rule, noise, num_rows, num_seeds):
    """The lower end of the interval of the share of tables with a false star."""
    hits = false_alarms(rule, noise, (_TABLES, num_rows, num_seeds), seed=3)
    return share_interval(hits, _TABLES)[0]


@pytest.mark.parametrize("noise", simulation.NOISE)
@pytest.mark.parametrize(("num_rows", "num_seeds"), [(2, 10), (3, 5), (5, 2), (10, 3), (20, 4)])
def test_at_most_a_twentieth_of_tables_have_a_false_star(noise, num_rows, num_seeds):
    assert _lowest_share(simulation.of_reports, noise, num_rows, num_seeds) < 0.05


@pytest.mark.parametrize(
    ("rule", "noise"),
    [
        (simulation.dunnett, "one row x4"),
        (simulation.dunnett, "base x2"),
        (simulation.dunnett_larger, "base x4"),
        (simulation.dunnett_without_wild, "half x4"),
        (simulation.moderated_differences, "one row x4"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_rule_that_pools_what_is_not_alike_is_found_out(rule, noise):
    assert _lowest_share(rule, noise, 20, 3) > 0.05


def test_one_variance_for_all_holds_where_all_are_alike():
    assert _lowest_share(simulation.dunnett, "equal", 10, 3) < 0.05
    assert _lowest_share(simulation.welch_bonferroni, "half x4", 10, 3) < 0.05


@pytest.mark.parametrize("num_seeds", [3, 5])
def test_it_sees_more_than_welch_row_by_row(num_seeds):
    difference = {3: 4.0, 5: 2.0}[num_seeds]
    rules = simulation.of_reports, simulation.welch_holm
    ours, welch = (power(rule, difference, (100, 20, num_seeds)) for rule in rules)
    assert ours > 1.3 * welch > 0


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    # No hit in ten: the share at which that happens in 2.5 % of cases.
    assert share_interval(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert share_interval(10, 10) == pytest.approx((0.025**0.1, 1.0))
    low, high = share_interval(20, 400)
    assert low == pytest.approx(0.0308, abs=1e-4) and high == pytest.approx(0.0762, abs=1e-4)


def _command(*arguments):
    command = [sys.executable, "-m", "experiments.report.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_what_two_fifths_of_the_rows_share_is_theirs_alone():
    values = simulation.tables(np.random.default_rng(0), (2000, 10, 3), of_related=3.0)
    left = values[:, 1:] - values[:, :1]  # of each row two noises; of the last four 9 more
    assert left[:, :6].var() == pytest.approx(2, rel=0.05)
    assert left[:, 6:].var() == pytest.approx(11, rel=0.05)
    between = values[:, 8] - values[:, 9]
    assert between.var() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("more", [[], ["--candidates"], ["--related"]])
def test_the_command_prints_a_table(more):
    done = _command("--tables=20", "--seeds=2", "--rows=5", *more)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 2 + (len(simulation.CANDIDATES) if "--candidates" in more else 1)


@pytest.mark.parametrize("wrong", ["--seeds=1", "--rows=x", "--rows=1", "--related --rows=4"])
def test_what_cannot_be_simulated_is_told(wrong):
    done = _command(*wrong.split())
    assert done.returncode == 1 and done.stderr.startswith("simulation: ")
