"""One update: the same on one device and on many, and a function of (seed, step)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.loss import make_loss_fn
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import make_eval_step, make_train_state, make_train_step
from tests.model.configs import small
from tests.training.configs import short
from tests.training.test_schedule import rate


def unequal_batch(rows=8, length=6):
    """Rows of 1 to `length` tokens, so that each device holds another number of them."""
    rng = np.random.default_rng(0)
    ids = rng.integers(4, 11, (2, rows, length)).astype(np.int32)
    lengths = 1 + np.arange(rows) * length // rows
    ids[:, np.arange(length)[None] >= lengths[:, None]] = 0
    return Batch(*ids)


# Without biases: softmax does not change when one is added to all keys, so the gradient of the
# keys' bias is rounding noise, which Adam blows up to updates of full size.
SMALLEST = small(num_decoder_layers=1, attention_biases=False, feed_forward_biases=False)
OPTIMIZER = make_optimizer(short(), 12)


@functools.cache
def initial_state():
    make = jax.jit(lambda seed: make_train_state(Transformer(SMALLEST), OPTIMIZER, seed))
    return jax.device_get(make(7))


@functools.cache
def parts(dropout_rate=0.0):
    model = Transformer(dataclasses.replace(SMALLEST, dropout_rate=dropout_rate))
    loss_fn = make_loss_fn(model, 0.1)
    return initial_state(), make_train_step(loss_fn, OPTIMIZER), make_eval_step(loss_fn)


def test_dropout_differs_from_step_to_step_and_from_seed_to_seed():
    state, train_step, _ = parts(dropout_rate=0.5)
    step = jax.jit(train_step)
    batch = unequal_batch()

    def loss(**changes):
        return float(step(state._replace(**changes), batch)[1].loss)

    assert loss() == loss()
    assert loss() != loss(step=jnp.asarray(1))
    assert loss() != loss(seed=jnp.asarray(8, jnp.int32))


def test_rows_of_padding_change_nothing():
    state, train_step, eval_step = parts()
    batch = unequal_batch()
    padded = jax.tree.map(lambda ids: np.pad(ids, ((0, 3), (0, 0))), batch)
    evaluate = jax.jit(eval_step)
    expected, actual = evaluate(state.params, batch), evaluate(state.params, padded)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_loss_falls_when_a_batch_is_seen_again_and_again():
    state, train_step, _ = parts()
    step = jax.jit(train_step)
    losses = []
    for _ in range(15):
        state, metrics = step(state, unequal_batch())
        losses.append(float(metrics.loss))
    assert losses[-1] < 0.8 * losses[0]


def test_initial_parameters_are_a_function_of_the_seed():
    model = Transformer(SMALLEST)
    make = jax.jit(lambda seed: make_train_state(model, OPTIMIZER, seed).params)
    first, again, other = (jax.tree.leaves(make(seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_adams_epsilon_is_the_configs():
    config = short(warmup_steps=3, adam_epsilon=0.5)
    optimizer = make_optimizer(config, d_model=16)
    params = {"w": jnp.ones(1)}
    updates, _ = optimizer.update({"w": jnp.asarray([0.25])}, optimizer.init(params))
    assert float(updates["w"][0]) == pytest.approx(-rate(1, config, 16) * 0.25 / (0.25 + 0.5))


def _rows_alike(num_rows):
    return jax.tree.map(lambda ids: np.repeat(ids[-1:], num_rows, axis=0), unequal_batch())


def test_every_microbatch_drops_otherwise():
    model = Transformer(dataclasses.replace(SMALLEST, dropout_rate=0.5))

    def loss(num_parts):
        step = make_train_step(make_loss_fn(model, 0.1), OPTIMIZER, microbatches=num_parts)
        return float(jax.jit(step)(initial_state(), _rows_alike(num_parts))[1].loss)

    assert loss(4) != pytest.approx(2 * loss(2), rel=1e-3)
