"""Rows against one base: the limits of one row and of many seeds, and a case by hand."""

import math

import numpy as np
import pytest
from scipy import special, stats

from experiments.report import against_base
from experiments.report.against_base import (
    Contrasts,
    are_wild,
    contrasts,
    half_widths,
    moderated,
    p_values,
)
from experiments.report.simulation import dunnett_ratio, tables


def _random(num_rows, num_seeds, num_tables=1, noise="equal"):
    return tables(np.random.default_rng(5), (num_tables, num_rows, num_seeds), noise)


def test_one_row_is_a_paired_t_test():
    values = _random(1, 4)
    found = contrasts(values)
    expected = stats.ttest_rel(values[0, 1], values[0, 0])
    low, high = expected.confidence_interval(0.9)
    assert found.differences[0, 0] == pytest.approx((low + high) / 2)
    assert half_widths(found, 0.1)[0, 0] == pytest.approx((high - low) / 2, rel=1e-5)
    assert p_values(found)[0, 0] == pytest.approx(expected.pvalue, rel=1e-6)


def test_two_rows_are_each_tested_by_their_own_differences():
    values = _random(2, 5)
    found = contrasts(values)
    own = [stats.ttest_rel(row, values[0, 0]).pvalue for row in values[0, 1:]]
    # Both at once (Sidak 1967).
    assert p_values(found)[0] == pytest.approx([1 - (1 - p) ** 2 for p in own], rel=1e-6)


def test_with_many_seeds_it_is_dunnetts():
    # Of variance 1 all, which are as good as known.
    many = np.full((1, 1), 1e7)
    found = Contrasts(np.zeros((1, 9)), np.ones((1, 1)), np.ones((1, 9)), 10**7, many, 2)
    assert half_widths(found, 0.05)[0] == pytest.approx([dunnett_ratio(9, 10**7)] * 9, rel=1e-4)


def test_the_ratio_of_dunnetts_test_is_scipys():
    random = np.random.default_rng(0)
    base, *rows = random.normal(size=(6, 4))
    found = stats.dunnett(*rows, control=base, random_state=random)
    interval = found.confidence_interval(0.95)
    pooled = np.mean([np.var(side, ddof=1) for side in (base, *rows)])
    half = (interval.high - interval.low) / 2 / math.sqrt(2 * pooled / 4)
    assert dunnett_ratio(5, 6 * 3) == pytest.approx(half[0], rel=5e-3)


@pytest.mark.parametrize("noise", ["equal", "base x4"])
@pytest.mark.parametrize("num_rows, num_seeds", [(1, 2), (2, 5), (3, 2), (12, 3), (17, 10)])
def test_intervals_have_the_coverage_that_is_asked_for_soon(
    num_rows, num_seeds, noise, monkeypatch
):
    coverage, asked = against_base._coverage, []

    def counted(found, ratio):
        asked.append(len(ratio))
        return coverage(found, ratio)

    monkeypatch.setattr(against_base, "_coverage", counted)
    found = contrasts(_random(num_rows, num_seeds, 20, noise))
    for level in (0.05, 0.001):
        ratios = (half_widths(found, level) / found.errors)[:, 0]
        assert coverage(found, ratios) == pytest.approx(np.full(20, 1 - level), abs=1e-7)
        assert (coverage(found, ratios) >= 1 - level).all()
    assert sum(asked) < 2 * 20 * 14  # by halves it takes 27


def test_without_noise_there_is_no_interval_beside_tables_that_have_one():
    values = _random(3, 4, 3)
    values[1] = 7.0
    halves = half_widths(contrasts(values), 0.05)
    assert (halves[1] == 0).all() and (halves[[0, 2]] > 0).all()
    np.testing.assert_array_equal(halves[[0, 2]], half_widths(contrasts(values[[0, 2]]), 0.05))


def test_the_coverage_is_that_of_errors_drawn_at_random():
    of_rows, degrees = np.array([[1.0, 1.0, 9.0]]), np.array([[5.0]])
    found = Contrasts(np.zeros((1, 3)), np.array([[4.0]]), of_rows, 2, degrees, 1)
    random = np.random.default_rng(1)
    num_draws = 200_000
    errors = 2 * random.standard_t(2, size=(num_draws, 1))
    errors = abs(errors - np.sqrt(of_rows) * random.standard_t(5, size=(num_draws, 3)))
    ratios = (errors / found.errors).max(1)
    for ratio in (1.0, 2.5, 5.0):
        drawn = np.mean(ratios <= ratio)
        assert against_base._coverage(found, np.array([ratio]))[0] == pytest.approx(drawn, abs=4e-3)


@pytest.mark.parametrize("noise", ["equal", "base x4"])
def test_an_interval_holds_zero_exactly_where_the_p_value_is_above_the_level(noise):
    found = contrasts(_random(6, 4, 100, noise))
    # Far enough that both happen.
    found = found._replace(differences=found.differences + {"equal": 3, "base x4": 10}[noise])
    has_star = p_values(found) < 0.05
    assert (has_star == (abs(found.differences) > half_widths(found, 0.05))).all()
    assert 0.05 < has_star.mean() < 0.95
    assert against_base.smallest_p_value(found) == pytest.approx(p_values(found).min(1))


def test_what_all_rows_have_in_common_at_a_seed_changes_nothing():
    values = _random(7, 3)
    ups_and_downs = np.array([100.0, -50.0, 7.0])
    for one, other in zip(contrasts(values), contrasts(values + ups_and_downs), strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_rows_that_are_alike_share_one_variance_and_others_lean_on_their_own():
    random = np.random.default_rng(2)
    alike = 4.0 * random.chisquare(3, size=(1, 2000)) / 3
    found, prior = moderated(alike, 3)
    assert prior[0, 0] > 50 and found[0] == pytest.approx(np.full(2000, 4.0), rel=0.15)
    # Variances of their own, drawn as if each were known by 6 degrees before it is measured by 3.
    others = alike * 6 / random.chisquare(6, size=(1, 2000))
    found, prior = moderated(others, 3)
    assert prior[0, 0] == pytest.approx(6, rel=0.25)
    weight = prior[0, 0] / (prior[0, 0] + 3)
    slope = np.diff(found[0, :2]) / np.diff(others[0, :2])
    assert slope == pytest.approx([1 - weight])


def test_moderation_is_smyths_formula():
    variances = np.array([[0.2, 5.0, 1.0, 0.7, 11.0]])
    found, prior = moderated(variances, 2)
    logs = np.log(variances[0]) - special.digamma(1) + math.log(1)
    trigamma = np.var(logs, ddof=1) - special.polygamma(1, 1)
    assert special.polygamma(1, prior[0, 0] / 2) == pytest.approx(trigamma)
    half = prior[0, 0] / 2
    common = math.exp(logs.mean() + special.digamma(half) - math.log(half))
    expected = (prior[0, 0] * common + 2 * variances[0]) / (prior[0, 0] + 2)
    assert found[0] == pytest.approx(expected)


def test_a_noisy_row_has_its_own_variance_and_base_has_its_own_alone():
    values = _random(6, 30, 50, "one row x2")
    found = contrasts(values)
    centred = values - values[:, 1:].mean(1, keepdims=True)
    assert found.of_base[:, 0] == pytest.approx(centred[:, 0].var(1, ddof=1))
    assert found.degrees_of_base == 29 and (found.degrees_of_rows <= 5 * 29).all()
    # With so many seeds that chance is small: 16 + 1 of base, and 1 + 1, or a little more.
    noisy, *others = contrasts(_random(6, 50_000, noise="one row x4")).errors[0] ** 2 * 50_000
    assert noisy == pytest.approx(17, rel=0.03)
    assert all(2 < other < 3 for other in others)


@pytest.mark.parametrize("num_rows", [4, 9])
def test_a_wild_row_says_nothing_of_base_or_of_the_others(num_rows):
    values = _random(num_rows, 5)
    wild = values.copy()
    wild[:, 1] *= 1000
    with_it, without = contrasts(wild), contrasts(np.delete(values, 1, axis=1))
    assert with_it.of_base == pytest.approx(without.of_base)
    assert with_it.differences[:, 1:] == pytest.approx(without.differences)
    assert with_it.of_rows[0, 0] > 1e5
    assert half_widths(with_it, 0.05)[0, 1:].max() < 3 * half_widths(without, 0.05).max()


@pytest.mark.parametrize(("variance", "is_wild"), [(30.0, False), (33.0, True)])
def test_a_row_is_wild_from_16_times_the_usual_variance_against_the_others(variance, is_wild):
    # Four rows that have nothing in common: against each other twice 1, or 1 + `variance`.
    patterns = np.linalg.qr(np.c_[np.ones(5), np.eye(5)[:, :4]])[0][:, 1:].T
    values = 2 * patterns * np.sqrt([[variance], [1], [1], [1]])
    assert values.var(1, ddof=1) == pytest.approx([variance, 1, 1, 1])
    assert are_wild(values[None])[0].tolist() == [is_wild, False, False, False]


def test_rows_at_a_ceiling_say_nothing_of_the_others_noise():
    at_ceiling = np.array([[2.0, 1.5, 2.5, 0.0, 0.0]])
    found, prior = moderated(at_ceiling, 2)
    expected, prior_of_three = moderated(at_ceiling[:, :3], 2)
    assert found[:, :3] == pytest.approx(expected) and prior == prior_of_three
    assert (found[:, 3:] > 0).all()


def test_rows_at_a_ceiling_add_no_degrees_of_freedom():
    at_ceiling = np.full((1, 17, 2), 100.0)
    at_ceiling[0, :2] = [[99.0, 98.0], [97.0, 99.0]]
    assert (contrasts(at_ceiling).degrees_of_rows == 1).all()


def test_rows_without_any_noise_are_told():
    parallel = np.arange(3.0) + np.array([[0.0], [5.0]])
    assert not contrasts(parallel[None]).have_noise.any()


def test_a_row_at_its_ceiling_does_not_vary_because_the_others_do():
    values = _random(20, 50)
    values -= values.mean(1, keepdims=True)  # nothing in common at a seed
    at_ceiling = np.concatenate([values, np.full((1, 20, 50), 100.0)], 1)
    assert (contrasts(at_ceiling).of_rows[0, 20:] > 0.6).all()
