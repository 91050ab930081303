import hypothesis.extra.numpy as arrays
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID
from t2t_jax.decoding.step import likeliest_next, next_log_probs
from t2t_jax.decoding.top import top

FEW = some.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])  # many are equal


SHAPES = some.sampled_from([(1, 1), (3, 1), (1, 2), (4, 5), (2, 10)])  # each is compiled


@given(values=arrays.arrays(np.float32, SHAPES, elements=FEW), data=some.data())
def test_it_is_top_k_of_what_may_be(values, data):
    num_values = values.shape[1]
    may_be = np.array(
        data.draw(some.lists(some.booleans(), min_size=num_values, max_size=num_values))
    )
    k = data.draw(some.integers(1, num_values))
    expected, places = jax.lax.top_k(jnp.where(may_be[None], values, -jnp.inf), k)
    found, found_places = top(jnp.asarray(values), k, may_be)
    np.testing.assert_array_equal(found, expected)
    is_one = np.isfinite(expected)
    np.testing.assert_array_equal(np.where(is_one, found_places, 0), np.where(is_one, places, 0))


@pytest.mark.parametrize("num_values", [1_000, 1_009, 8_000])
@pytest.mark.parametrize("k", [1, 8])
def test_it_is_top_k_of_a_vocabulary(num_values, k):
    values = jax.random.normal(jax.random.key(k), (17, num_values)).round(1)
    found = top(values, k, np.ones(num_values, bool))
    for one, other in zip(found, jax.lax.top_k(values, k), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_likeliest_are_the_best_of_all_log_probabilities():
    logits = jax.random.normal(jax.random.key(0), (6, 1_009)) * 4
    logits = logits.at[4, 500].set(jnp.nan).at[5, 500].set(jnp.inf)
    must_end = jnp.array([False, True, False, True, False, False])
    gains, ids = likeliest_next(logits, must_end, 1_000, 8)
    is_end = jnp.arange(1_009)[None] == END_ID
    every = next_log_probs(logits, 1_000)
    every = jnp.where(must_end[:, None] & ~is_end, -jnp.inf, every)
    expected, expected_ids = jax.lax.top_k(every, 8)
    np.testing.assert_allclose(gains, expected, rtol=1e-6)
    is_one = np.isfinite(expected)
    assert is_one.sum(axis=1).tolist() == [8, 1, 8, 1, 0, 0]
    np.testing.assert_array_equal(ids, np.where(is_one, expected_ids, PAD_ID))
