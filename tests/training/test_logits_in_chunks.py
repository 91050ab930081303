"""A loss in chunks is the whole one, and never holds all logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.training.logits_in_chunks import sums_over_chunks
from t2t_jax.training.loss import cross_entropy

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
