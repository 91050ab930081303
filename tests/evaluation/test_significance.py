"""Tests against tables of Student's t, permutations and examples worked by hand."""

import math
from unittest import mock

import numpy as np
import pytest
from scipy import special, stats

from t2t_jax.evaluation import significance
from t2t_jax.evaluation.bleu import bleu_of, sentence_statistics
from t2t_jax.evaluation.significance import (
    holm,
    mean_interval,
    p_value_above,
    paired_bootstrap,
    simultaneous_bootstrap,
    welch_t_test,
)


def test_an_interval_is_students_t_times_the_standard_error():
    # Mean 92, standard deviation 1; Student's t of 2 degrees of freedom at 97.5 % is 4.30265.
    assert mean_interval([92.0, 91.0, 93.0]) == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    # And of 1 degree 12.7062, at 95 % 6.31375.
    assert mean_interval([1.0, 3.0]) == pytest.approx(12.7062, rel=1e-5)


def test_a_mean_above_a_target_by_hand():
    # Mean 36, variance 5 / 8, standard error sqrt(1 / 8): t is 2 sqrt(2). With four degrees of
    # freedom the chance of more is 1/2 - 3/8 s (1 - s^2 / 12), where s = t / sqrt(1 + t^2 / 4).
    values = [35.0, 36.0, 37.0, 35.5, 36.5]
    expected = 1 / 2 - 7 / 12 * math.sqrt(2 / 3)  # 0.0237
    assert p_value_above(values, 35.0) == pytest.approx(expected)
    assert p_value_above(values, 37.0) == pytest.approx(1 - expected)
    assert p_value_above(values, 36.0) == pytest.approx(1 / 2)


@pytest.mark.parametrize("values", [[], [3.0], [36.0, 36.0], [1.0, math.nan], [1.0, math.inf]])
def test_what_does_not_vary_or_is_no_number_is_not_tested_against_a_target(values):
    assert p_value_above(values, 35.0) is None


@pytest.mark.parametrize("values", [[], [3.0], [1.0, math.nan], [1.0, math.inf]])
def test_without_two_finite_values_there_is_no_interval_and_no_test(values):
    assert mean_interval(values) is None
    assert welch_t_test(values, [1.0, 2.0]) is None
    assert welch_t_test([1.0, 2.0], values) is None


def test_welch_is_the_formula():
    values, base = [27.5, 21.0, 19.0, 23.6, 17.0], [27.1, 22.0, 30.8]
    squares = [np.var(side, ddof=1) / len(side) for side in (values, base)]
    degrees = sum(squares) ** 2 / sum(
        square**2 / (len(side) - 1) for square, side in zip(squares, (values, base), strict=True)
    )
    t = (np.mean(values) - np.mean(base)) / math.sqrt(sum(squares))
    found = welch_t_test(values, base)
    assert found is not None
    assert found.difference == pytest.approx(np.mean(values) - np.mean(base))
    assert found.p_value == pytest.approx(_two_sided(t, degrees), rel=1e-4)
    # The interval is where the same test, with the difference moved to its end, gives 5 %.
    for end in (found.low, found.high):
        t_at_end = (found.difference - end) / math.sqrt(sum(squares))
        assert _two_sided(t_at_end, degrees) == pytest.approx(0.05, rel=1e-4)


def _two_sided(t, degrees):
    """The density of Student's t beyond +-t, integrated by the trapezium rule."""
    x = np.linspace(-abs(t), abs(t), 200_001)
    scale = math.gamma((degrees + 1) / 2) / math.sqrt(degrees * math.pi) / math.gamma(degrees / 2)
    return 1 - np.trapezoid(scale * (1 + x**2 / degrees) ** (-(degrees + 1) / 2), x)


def test_scipy_finds_the_same_and_seeds_hardly_apart_are_no_test():
    random = np.random.default_rng(0)
    for _ in range(20):
        values, base = (
            random.normal(size=number).tolist() for number in random.integers(2, 6, size=2)
        )
        found, test = welch_t_test(values, base), stats.ttest_ind(values, base, equal_var=False)
        interval = test.confidence_interval(0.95)
        expected = (np.mean(values) - np.mean(base), *interval, test.pvalue)
        assert found == pytest.approx(expected, rel=1e-9)
    assert welch_t_test([0.0, 1e-200], [1e-190, 2e-190]) is None


def test_two_seeds_that_differ_little_from_two_others_are_noise_and_much_are_not():
    assert welch_t_test([1.0, 1.2], [1.1, 1.3]).p_value > 0.3
    assert welch_t_test([1.0, 1.0001], [2.0, 2.0001]).p_value < 0.001


def test_the_order_of_the_sides_is_the_sign_alone():
    one, other = [1.0, 1.3, 1.7], [2.0, 2.2]
    forth, back = welch_t_test(one, other), welch_t_test(other, one)
    assert forth.p_value == pytest.approx(back.p_value)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))


def test_seeds_that_all_say_the_same_are_no_test_of_those_that_say_another():
    # 0.1 + 0.1 + 0.1 is not 0.3, and the mean of three 0.1 has a spread by rounding alone.
    assert mean_interval([0.1, 0.1, 0.1]) == 0
    assert welch_t_test([0.1] * 3, [0.1] * 2) == (0, 0, 0, 1)
    # Scores in steps, at the ceiling: that nothing varied is chance, and no proof.
    assert welch_t_test([3.0] * 3, [1.0] * 2) is None


def test_one_side_without_spread_is_a_test_against_a_number():
    found = welch_t_test([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    # t = (2 - 5) / (1 / sqrt(3)), with 2 degrees of freedom: p = 1 - t / sqrt(2 + t^2).
    t = 3 * math.sqrt(3)
    assert found.p_value == pytest.approx(1 - t / math.sqrt(2 + t**2), rel=1e-6)


def test_holm_worked_by_hand():
    # 3 x 0.01; 2 x 0.02 = 0.04; 1 x 0.03 would be less than the one before.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_rows_that_were_not_tested_do_not_count_for_holm():
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert holm([0.0, None]) == [0.0, None]


REFERENCES = [f"the {noun} sees a small {other} today" for noun in "abcdefgh" for other in "rstuvw"]


def _statistics(wrong_every):
    lines = [
        line.replace("small", "big") if place % wrong_every == 0 else line
        for place, line in enumerate(REFERENCES)
    ]
    return sentence_statistics(lines, REFERENCES)


def test_a_bootstrap_tells_many_mistakes_from_few_but_not_from_as_many():
    few, many, as_many = _statistics(12), _statistics(2), np.roll(_statistics(12), 1, axis=0)
    found = paired_bootstrap(many, few, bleu_of)
    assert found.difference == pytest.approx(bleu_of(many.sum(0)) - bleu_of(few.sum(0)))
    assert found.low < found.difference < found.high < 0
    assert found.p_value == pytest.approx(1 / 2001)
    found = paired_bootstrap(as_many, few, bleu_of)
    assert found.p_value > 0.9 and found.low < 0 < found.high


def test_a_bootstrap_of_a_sum_is_what_sampling_theory_says():
    # The score is the mean of one count; the differences have mean 0.2 and a known spread.
    ours = np.array([[1], [0], [1], [1], [0]] * 40)
    base = np.array([[0], [0], [1], [1], [0]] * 40)
    found = paired_bootstrap(ours, base, lambda counts: counts[0] / 200, seed=3)
    error = math.sqrt(0.2 * 0.8 / 200)
    assert found.difference == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx(
        (0.2 - 1.96 * error, 0.2 + 1.96 * error), abs=8e-3
    )


@pytest.mark.parametrize("num_models", [1, 10])
def test_intervals_of_several_models_hold_all_at_once(num_models):
    # Counts that have nothing to do with each other: Sidak's correction of the normal interval.
    random = np.random.default_rng(0)
    base = np.zeros((2000, 1), int)
    models = [random.integers(-10, 11, (2000, 1)) for _ in range(num_models)]
    pairs = [(ours, base) for ours in models]
    found = simultaneous_bootstrap(pairs, lambda counts: counts[0] / 2000)
    ratio = special.ndtri(1 - (1 - 0.95 ** (1 / num_models)) / 2)
    for ours, its in zip(models, found, strict=True):
        half_width = ratio * ours.std() / np.sqrt(2000)
        assert its.difference == pytest.approx(ours.mean())
        assert its.high - its.difference == pytest.approx(half_width, rel=0.06)
        assert (its.p_value < 0.05) == (its.low > 0 or its.high < 0)


def test_at_the_edge_of_its_interval_a_model_has_the_p_value_of_the_level(monkeypatch):
    half = np.arange(1.0, significance._NUM_RESAMPLES // 2 + 1)
    samples = np.concatenate([-half, half])
    told = []
    for observed in half[-80:] + 0.5:
        bootstrap = mock.Mock(return_value=(observed, samples))
        monkeypatch.setattr(significance, "_bootstrap", bootstrap)
        [its] = simultaneous_bootstrap([(_statistics(3), _statistics(3))], bleu_of)
        assert (its.p_value < 0.05) == (its.low > 0)
        told.append(its.p_value < 0.05)
    assert 0 < sum(told) < len(told)


def test_a_model_against_itself_is_no_difference():
    assert paired_bootstrap(_statistics(3), _statistics(3), bleu_of) == (0, 0, 0, 1)


def test_samples_that_do_not_vary_say_nothing():
    """One sentence, and sentences that are all alike: the deviation of samples is rounding."""
    ours, base = _statistics(1), _statistics(2)
    for place in ([1], [1] * 7):
        sides = ours[place], base[place]
        found = paired_bootstrap(*sides, bleu_of)
        assert found.difference < 0 and found[1:] == (-math.inf, math.inf, 1)
        assert simultaneous_bootstrap([sides], bleu_of) == [None]
        same = (ours[place], ours[place])
        assert simultaneous_bootstrap([same], bleu_of) == [(0, 0, 0, 1)]


def test_the_same_seed_draws_the_same_samples():
    sides = _statistics(3), _statistics(4)
    assert paired_bootstrap(*sides, bleu_of, seed=1) == paired_bootstrap(*sides, bleu_of, seed=1)
    assert paired_bootstrap(*sides, bleu_of, seed=1) != paired_bootstrap(*sides, bleu_of, seed=2)


def test_other_sentences_are_refused():
    with pytest.raises(ValueError, match="the same sentences of both models.* 48 and 47"):
        paired_bootstrap(_statistics(3), _statistics(3)[1:], bleu_of)
    with pytest.raises(ValueError, match="0 and 0"):
        paired_bootstrap(_statistics(3)[:0], _statistics(3)[:0], bleu_of)
