"""Rotary, bucketed and linear positions against loops written like their papers' formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.positions import paper_angles
from t2t_jax.model.relative_positions import (
    RelativeBias,
    alibi_bias,
    alibi_slopes,
    relative_bucket,
    rotate,
)
from tests.model.configs import model_and_variables, small, some_ids

B, H, T, K = 2, 3, 5, 6


def test_rotary_turns_pairs_as_complex_numbers():
    x = np.random.default_rng(0).normal(size=(B, H, T, K)).astype(np.float32)
    positions = np.asarray([[0, 1, 2, 0, 1], [3, 9, 4, 100, 5]])
    expected = np.zeros_like(x)
    for b in range(B):
        for t in range(T):
            for i in range(K // 2):
                turn = np.exp(1j * positions[b, t] * 10000 ** (-2 * i / K))
                pair = (x[b, :, t, 2 * i] + 1j * x[b, :, t, 2 * i + 1]) * turn
                expected[b, :, t, 2 * i], expected[b, :, t, 2 * i + 1] = pair.real, pair.imag
    actual = rotate(jnp.asarray(x), paper_angles(jnp.asarray(positions), K))
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_rotary_products_depend_on_the_distance_alone():
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 1, K)).astype(np.float32)

    def product(position, other):
        turned = [
            rotate(jnp.asarray(x), paper_angles(jnp.asarray([[at]]), K))
            for x, at in ((query, position), (key, other))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(7, 3) == pytest.approx(product(4, 0), abs=1e-5)
    assert product(7, 3) != pytest.approx(product(3, 7), abs=1e-2)


def test_rotary_angles_are_float32_in_bfloat16():
    """In bfloat16 the position 257 would be 256, and its sine that of another angle."""
    x = jnp.ones((1, 1, 2, K), jnp.bfloat16)
    turned = rotate(x, paper_angles(jnp.asarray([[256, 257]]), K))
    assert turned.dtype == jnp.bfloat16
    expected = math.cos(257) - math.sin(257)
    assert float(turned[0, 0, 1, 0]) == pytest.approx(expected, abs=0.01)


def test_alibi_slopes_are_the_papers():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(16) == [2 ** (-i / 2) for i in range(1, 17)]
    assert alibi_slopes(1) == [2.0**-8]


def test_alibi_slopes_of_6_heads_are_those_of_4_and_every_other_one_of_8():
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]


def test_alibi_is_the_slope_times_the_distance_to_either_side():
    distances = jnp.asarray([[[0, 1, 2], [-1, 0, 1]]])
    bias = alibi_bias(distances, 4)
    assert bias.shape == (1, 4, 2, 3)
    np.testing.assert_allclose(bias[0, 1], -0.0625 * np.asarray([[0, 1, 2], [1, 0, 1]]))


def bucket_by_hand(distance, num_buckets, max_distance, is_causal):
    first = 0
    if is_causal:
        distance = max(-distance, 0)
    else:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    num_exact = num_buckets // 2
    if distance < num_exact:
        return first + distance
    share = math.log(distance / num_exact) / math.log(max_distance / num_exact)
    return first + min(num_exact + int(share * (num_buckets - num_exact)), num_buckets - 1)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("sizes", [(32, 128), (8, 20), (4, 3)], ids=str)
def test_buckets_are_those_of_t5(sizes, is_causal):
    distances = np.arange(-300, 300)
    actual = relative_bucket(jnp.asarray(distances), *sizes, is_causal=is_causal)
    expected = [bucket_by_hand(int(distance), *sizes, is_causal) for distance in distances]
    np.testing.assert_array_equal(actual, expected)
    # To either side T5 has a bucket of distance 0; that of what comes after is idle.
    idle = set() if is_causal else {sizes[0] // 2}
    assert set(expected) == set(range(sizes[0])) - idle


def test_a_bucket_has_a_number_for_each_head():
    config = small(positions="relative")
    module = RelativeBias(config, is_causal=False)
    distances = jnp.asarray([[[0, 1, -1, 99]]])
    variables = module.init(jax.random.key(0), distances)
    table = variables["params"]["table"]
    bias = module.apply(variables, distances)
    assert table.shape == (config.relative_buckets, config.num_heads)
    np.testing.assert_array_equal(bias[0, :, 0], table[jnp.asarray([0, 5, 1, 7])].T)


def test_a_decoders_buckets_are_all_for_what_lies_behind():
    model, variables = model_and_variables(family="decoder_only", positions="relative")
    ids = some_ids(1, 8)
    gradient = jax.grad(lambda v: model.apply(v, ids, deterministic=True)[..., 5].sum())(variables)
    of_bucket = np.abs(gradient["params"]["decoder"]["relative_bias"]["table"]).sum(-1)
    # 0 to 7 tokens back: 0, 1, 2, 3, 4, 4, 5, 5 of the 8 buckets.
    np.testing.assert_array_equal(of_bucket > 0, np.arange(8) <= 5)


def test_relative_biases_start_small():
    config = small(
        positions="relative", d_model=64, relative_buckets=400, relative_max_distance=500
    )
    variables = RelativeBias(config, False).init(jax.random.key(0), jnp.zeros((1, 1, 1), int))
    assert np.std(variables["params"]["table"]) == pytest.approx(64**-0.5, rel=0.05)
