"""One update: the same on one device and on many, and a function of (seed, step)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import Batch
from t2t_jax.devices import make_devices
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
def parts(dropout_rate=0.0, chunk=0):
    model = Transformer(dataclasses.replace(SMALLEST, dropout_rate=dropout_rate))
    loss_fn = make_loss_fn(model, 0.1, chunk)
    return initial_state(), make_train_step(loss_fn, OPTIMIZER), make_eval_step(loss_fn)


def trained(num_devices, steps=3, dropout_rate=0.0, chunk=0):
    state, train_step, _ = parts(dropout_rate, chunk)
    devices = make_devices(num_devices)
    state = devices.put(state)
    step = devices.compile_train_step(train_step, state)
    losses = []
    for _ in range(steps):
        state, metrics = step(state, devices.put_batch(unequal_batch()))
        losses.append(float(metrics.loss))
    return jax.device_get(state), losses


def assert_same(one, other):
    (state, losses), (other_state, other_losses) = one, other
    np.testing.assert_allclose(losses, other_losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        state.params,
        other_state.params,
    )


def test_a_chunked_loss_on_four_devices_makes_the_update_of_one():
    assert_same(trained(1), trained(4, chunk=8))


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
    _, losses = trained(1, steps=15)
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


def test_every_device_of_pmap_drops_otherwise():
    model = Transformer(dataclasses.replace(SMALLEST, dropout_rate=0.5))

    def loss(num_devices):
        devices = make_devices(num_devices, compile="pmap")
        step = make_train_step(make_loss_fn(model, 0.1), OPTIMIZER, over_devices=devices.summed)
        state = devices.put(initial_state())
        compiled = devices.compile_train_step(step, state)
        return float(compiled(state, devices.put_batch(_rows_alike(num_devices)))[1].loss)

    assert loss(4) != pytest.approx(2 * loss(2), rel=1e-3)
