import math
from typing import NamedTuple

import jax.numpy as jnp
import pytest
from jax import Array

from t2t_jax.evaluation.perplexity import perplexity, sum_metrics


class _Metrics(NamedTuple):
    loss: Array
    tokens: Array


def _eval_step(params, batch):
    return _Metrics(params * jnp.sum(batch), jnp.asarray(batch.size))


def test_a_uniform_guess_among_5_has_perplexity_5():
    assert perplexity(12 * math.log(5), 12) == pytest.approx(5)


def test_no_tokens_are_refused_in_words():
    with pytest.raises(ValueError, match="at least one token"):
        perplexity(1.0, 0)


def test_a_hopeless_loss_gives_infinity_and_a_lost_one_no_number():
    assert perplexity(1e9, 10) == math.inf
    assert math.isnan(perplexity(math.nan, 10))


def test_batches_are_added_and_not_averaged():
    batches = [jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0])]
    summed = sum_metrics(_eval_step, jnp.array(2.0), batches)
    assert summed == _Metrics(32.0, 4.0)
    assert all(type(leaf) is float for leaf in summed)


def test_small_losses_are_not_lost_beside_large_ones():
    batches = [jnp.array([2.0**25]), *[jnp.array([1.0])] * 10]
    assert sum_metrics(_eval_step, jnp.array(1.0), batches).loss == 2.0**25 + 10


def test_no_batches_are_refused_in_words():
    with pytest.raises(ValueError, match="no batches"):
        sum_metrics(_eval_step, jnp.array(1.0), [])
