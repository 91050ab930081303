"""Step times from peaks, recomputed by hand."""

import pytest

from t2t_jax.plan.hardware import CHIPS, topology
from t2t_jax.plan.roofline import Range, Work, peak, seconds, sent_bytes


def test_at_best_all_is_at_work_side_by_side_and_at_worst_one_after_the_other():
    on = topology("v5e-8")
    work = Work(operations=197e9, accessed_bytes=819e6, sent_bytes=100e6)  # a millisecond each
    best, worst = seconds(work, on, on.chip.operations)
    assert best == pytest.approx(1e-3 / 0.75)
    assert worst == pytest.approx(1e-3 / 0.45 + 1e-3 / 0.7 + 1e-3 / 0.6)


def test_the_largest_part_is_the_least_that_it_takes():
    on = topology("v5e-8")
    assert seconds(Work(0.0, 819e9, 0.0), on, 1.0).low == pytest.approx(1 / 1.2)
    assert seconds(Work(0.0, 0.0, 100e9), on, 1.0).low == pytest.approx(1 / 0.9)


def test_a_ring_sends_a_sum_twice_and_all_else_once():
    moved = {"all-reduce": 800, "all-gather": 80, "reduce-scatter": 8}
    assert sent_bytes(moved, 8) == pytest.approx(7 / 8 * (1600 + 80 + 8))
    assert sent_bytes(moved, 1) == 0


def test_260_megabytes_of_gradients_take_the_eight_chips_of_a_v5e_host_4_5_milliseconds():
    on = topology("v5e-8")
    assert sent_bytes({"all-reduce": 260_000_000}, 8) / on.link_bandwidth == pytest.approx(
        4.55e-3, rel=0.01
    )


def test_products_of_float32_are_several_of_bfloat16_on_a_tpu():
    v5e = CHIPS["v5e"]
    assert peak(v5e, "bfloat16", "highest") == 197e12
    assert peak(v5e, "float32", "highest") == 197e12 / 6
    assert peak(v5e, "float32", "default") == 197e12
    assert peak(CHIPS["h100"], "float32", "highest") == 67e12
    for tf32 in ("high", "default"):
        assert peak(CHIPS["h100"], "float32", tf32) == CHIPS["h100"].operations / 2


def test_the_middle_of_a_range_is_as_far_from_both_ends():
    assert Range(1.0, 16.0).middle == 4
    assert Range(1.0, 16.0).times(2) == (2, 32)
    assert Range(1.0, 16.0).plus(Range(1.0, 1.0)) == (2, 17)
