"""Step times from peaks, recomputed by hand."""

import pytest

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.plan.hardware import CHIPS, topology
from t2t_jax.plan.roofline import Range, Work, estimated_bytes, peak, seconds, sent_bytes
from t2t_jax.runs.effect import unmet
from tests.plan.stand_in import sections


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


_SIZES = {
    "model.num_encoder_layers": 3,
    "model.num_decoder_layers": 5,
    "model.d_model": 32,
    "model.d_ff": 48,
    "model.num_heads": 2,
    "model.num_self_attentions": 1,
    "model.vocabulary_rows": 2_001,
}


def _bytes(shape=(7, 11, 13), num_params=0, num_chips=1, **changes):
    model = sections(**_SIZES | changes).model
    return estimated_bytes(model, BatchShape(*shape), num_params, num_chips)


def test_the_bytes_of_a_step_are_a_sum_over_all_that_is_written():
    outputs = 7 * (3 * 11 * 2 + 5 * 13 * 3) * 20 * 32 * 4
    hidden = 7 * (3 * 11 + 5 * 13) * 6 * 48 * 4
    weights = 7 * 2 * (3 * 11 * 11 + 5 * 13 * (13 + 11)) * 10 * 4
    logits = 7 * 13 * 2_001 * 22
    assert _bytes() == outputs + hidden + weights + logits
    assert _bytes(num_params=1_000, num_chips=4) == 28_000 + _bytes() / 4
    assert _bytes(**{"model.ensemble_size": 2}) == 2 * _bytes()
    assert _bytes(**{"model.dtype": "bfloat16"}) == (outputs + hidden + weights) / 2 + logits


def test_parts_that_are_not_there_move_no_bytes():
    assert _bytes() - _bytes(**{"model.feed_forward": False}) == (
        7 * (3 * 11 + 5 * 13) * (20 * 32 + 6 * 48) * 4
    )
    assert _bytes(**{"model.num_self_attentions": 2}) - _bytes() == (
        7 * ((3 * 11 + 5 * 13) * 20 * 32 + 2 * (3 * 11 * 11 + 5 * 13 * 13) * 10) * 4
    )


@pytest.mark.parametrize(
    "model",
    [
        {"model.family": "encoder_only", "data.task": "masked_language_modelling"},
        {
            "model.family": "encoder_only",
            "data.task": "classification",
            "model.pooling": "mean",
            "training.label_smoothing": 0.0,
        },
        {"model.family": "decoder_only", "data.task": "language_modelling"},
        {"model.family": "recurrent"},
        {"model.feed_forward": False},
    ],
    ids=lambda model: "-".join(map(str, model.values())),
)
def test_a_key_that_no_model_reads_moves_no_bytes(model):
    flat = {"data.task": "translation", "model.family": "encoder_decoder"}
    flat |= {"model.feed_forward": True, "model.pooling": "none"} | _SIZES | model
    unread = [key for key in _SIZES if unmet(key, flat)]
    assert unread
    for key in unread:
        assert _bytes(**model | {key: 2 * _SIZES[key]}) == _bytes(**model), key
