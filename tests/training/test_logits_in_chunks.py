"""A loss in chunks is the whole one, and never holds all logits."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.embedding import table_logits
from t2t_jax.model.families import make_model
from t2t_jax.training.logits_in_chunks import sums_over_chunks
from t2t_jax.training.loss import cross_entropy, make_loss_fn
from tests.model.configs import random_variables, small
from tests.training.runs import batch

B, T, D, VOCAB = 3, 5, 4, 7
TARGET_IDS = jnp.asarray([[4, 5, 2, 0, 0], [6, 3, 5, 4, 2], [0, 0, 0, 0, 0]])


def of_logits(logits, target_ids):
    return cross_entropy(logits, target_ids, label_smoothing=0.1)


@pytest.mark.parametrize("tokens_per_chunk", [1, 3, 4, 7, 15, 100])
def test_sums_and_gradients_equal_those_of_the_whole(tokens_per_chunk):
    rng = np.random.default_rng(0)
    x, table = (jnp.asarray(rng.normal(size=(*n, D)), jnp.float32) for n in ((B, T), (VOCAB,)))

    def whole(x, table):
        sums = of_logits(jnp.einsum("BTD,VD->BTV", x, table), TARGET_IDS)
        return 3 * sums.loss, sums

    def chunked(x, table):
        sums = sums_over_chunks(of_logits, x, table, TARGET_IDS, tokens_per_chunk)
        return 3 * sums.loss, sums

    expected, expected_sums = jax.grad(whole, (0, 1), has_aux=True)(x, table)
    actual, sums = jax.jit(jax.grad(chunked, (0, 1), has_aux=True))(x, table)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), actual, expected)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-5)
    np.testing.assert_allclose(chunked(x, table)[1], expected_sums, rtol=1e-5)


def test_not_all_logits_are_ever_held():
    x, table = jnp.zeros((8, 16, D)), jnp.zeros((VOCAB, D))
    target_ids = jnp.ones((8, 16), jnp.int32)

    def loss(x, table):
        return sums_over_chunks(of_logits, x, table, target_ids, 16).loss

    jaxpr = str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(x, table))
    assert f"f32[8,2,{VOCAB}]" in jaxpr  # a chunk: 2 of 16 positions
    assert f"f32[8,16,{VOCAB}]" not in jaxpr


def test_logits_in_bfloat16_are_stored_so_and_their_gradients_are_close_to_those_of_float32():
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(B, T, 64)), jnp.bfloat16)
    table = jnp.asarray(rng.normal(size=(300, 64)) / 8, jnp.float32)

    def gradients(dtype, tokens_per_chunk):
        def loss(x, table):
            if tokens_per_chunk:
                args = (of_logits, x, table, TARGET_IDS, tokens_per_chunk, dtype)
                sums = sums_over_chunks(*args)
            else:
                sums = of_logits(table_logits(x, table, dtype), TARGET_IDS)
            return sums.loss, sums

        return jax.grad(loss, (0, 1), has_aux=True)(x, table)

    (x_grad, table_grad), sums = gradients(jnp.float32, 0)
    for tokens_per_chunk in (0, 4):
        (x_half, table_half), sums_half = gradients(jnp.bfloat16, tokens_per_chunk)
        # Each logit is wrong by up to 2^-9 of itself: of logits of size 1, the loss by less.
        np.testing.assert_allclose(sums_half, sums, rtol=2e-3)
        assert sums_half.loss.dtype == table_half.dtype == jnp.float32
        for half, whole in ((x_half, x_grad), (table_half, table_grad)):
            half, whole = (np.asarray(each, np.float32) for each in (half, whole))
            assert np.linalg.norm(half - whole) < 0.01 * np.linalg.norm(whole)


@pytest.mark.parametrize("tokens_per_chunk", [0, 4])
def test_a_step_with_logits_in_bfloat16_stores_none_in_float32(tokens_per_chunk):
    config = small(family="decoder_only", dtype="bfloat16", vocabulary_rows=301)
    params = random_variables(make_model(config))["params"]

    def stored(model, logits_dtype):
        loss_fn = make_loss_fn(model, 0.1, tokens_per_chunk, logits_dtype=logits_dtype)
        step = jax.jit(jax.grad(loss_fn, has_aux=True))
        program = step.lower(params, batch(0), jax.random.key(0)).as_text()
        products = re.findall(r"dot_general .*-> tensor<(?:\d+x)+301x(\w+)>", program)
        return set(products)

    assert stored(make_model(config), "bfloat16") == {"bf16"}
    assert stored(make_model(config), "float32") == {"f32"}
    # Of activations in float32 there is nothing to be gained.
    whole = make_model(dataclasses.replace(config, dtype="float32"))
    assert stored(whole, "bfloat16") == {"f32"}
