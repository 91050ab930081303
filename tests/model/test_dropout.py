"""Dropout by parts of random words: the mean is kept, and the share is as stated."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from t2t_jax import row_keys
from t2t_jax.model.dropout import dropped, make_dropout, true_rate
from t2t_jax.model.families import make_model
from tests.model.configs import random_variables, small, some_ids

BITS = (16, 8)


@pytest.mark.parametrize("rate, bits, expected", [(0.1, 8, 26 / 256), (0.1, 16, 6554 / 65536)])
def test_the_rate_is_the_nearest_multiple(rate, bits, expected):
    assert true_rate(rate, bits) == expected
    assert true_rate(rate, 32) == rate


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_mean_and_the_share_that_is_dropped_are_the_true_ones(rate, bits):
    x = jnp.ones((64, 50, 103))  # of the last word of a row not all lanes are used
    y = np.asarray(dropped(x, jax.random.key(1), rate, bits), np.float64)
    true, num = true_rate(rate, bits), y.size
    assert set(np.unique(y)) == {0.0, np.float64(np.float32(1 / (1 - true)))}
    share = (y == 0).mean()
    assert abs(share - true) < 4 * np.sqrt(true * (1 - true) / num)
    assert abs(y.mean() - 1) < 4 * np.sqrt(true / (1 - true) / num)
    # Each place of the last axis alike, whichever lane of a word it is.
    by_place = (y == 0).mean((0, 1))
    assert np.abs(by_place - true).max() < 5 * np.sqrt(true * (1 - true) / (64 * 50))


@pytest.mark.parametrize("bits", [*BITS, 32])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_bfloat16_keeps_the_mean_as_well(rate, bits):
    x = jax.random.uniform(jax.random.key(0), (100_000,), jnp.bfloat16, 0.5, 1.0)
    kept = np.asarray(dropped(x, jax.random.key(1), rate, bits), np.float64)
    ratios = kept[kept != 0] / np.asarray(x, np.float64)[kept != 0]
    # Each product is rounded by up to 2^-9; 300,000 of them together by far less.
    assert ratios.mean() == pytest.approx(1 / (1 - true_rate(rate, bits)), rel=3e-4)


@pytest.mark.parametrize("bits", BITS)
def test_neighbours_are_dropped_independently(bits):
    is_dropped = np.asarray(dropped(jnp.ones((1000, 256)), jax.random.key(2), 0.5, bits) == 0)
    for shift in range(1, 6):
        correlation = np.corrcoef(is_dropped[:, shift:].ravel(), is_dropped[:, :-shift].ravel())
        assert abs(correlation[0, 1]) < 5 / np.sqrt(is_dropped.size)


@pytest.mark.parametrize("bits", [*BITS, 32])
def test_a_part_of_the_rows_drops_its_part_of_the_whole(bits):
    key, x = jax.random.key(3), jnp.ones((8, 5, 7))
    parts = [dropped(x[:2], row_keys.of_part(key, jnp.asarray(p)), 0.4, bits) for p in range(4)]
    np.testing.assert_array_equal(np.concatenate(parts), dropped(x, key, 0.4, bits))


def test_32_bits_are_flaxs_own_dropout_and_without_a_rate_nothing_is_dropped():
    x = jax.random.normal(jax.random.key(0), (4, 6))
    options: Any = dict(deterministic=False, rngs={"dropout": jax.random.key(1)})
    ours, flaxs = make_dropout(0.3, 32), nn.Dropout(0.3)
    np.testing.assert_array_equal(ours.apply({}, x, **options), flaxs.apply({}, x, **options))
    assert make_dropout(0.3, 8).apply({}, x, deterministic=True) is x
    assert make_dropout(0.0, 8).apply({}, x, deterministic=False) is x


@pytest.mark.parametrize("bits", BITS)
def test_every_place_of_a_model_that_drops_does_so_with_these_bits(bits):
    rates = dict(dropout_rate=0.1, attention_dropout_rate=0.1, feed_forward_dropout_rate=0.1)
    for family in ("encoder_decoder", "recurrent"):
        model = make_model(small(family=family, dropout_bits=bits, **rates))
        found = []

        def record(next_function, arguments, keywords, context, found=found):
            if isinstance(context.module, nn.Dropout):
                found.append(context.module.bits)
            return next_function(*arguments, **keywords)

        ids = some_ids(2, 4)
        with nn.intercept_methods(record):
            rngs = {"dropout": jax.random.key(0)}
            model.apply(random_variables(model), ids, ids, deterministic=False, rngs=rngs)
        assert found and set(found) == {bits}
