"""How a step is compiled: what it takes and gives, and where that lies."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t2t_jax import compilation
from t2t_jax.compilation import compile_by_row, compile_init, compile_train_step, memory_needed
from t2t_jax.devices import make_devices
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.step import make_train_state
from tests.model.configs import small


def test_random_keys_are_laid_out_where_there_are_several_hosts_too(monkeypatch):
    devices, keys = make_devices(), jax.random.split(jax.random.key(3), 16)

    def laid_out():
        return compile_by_row(devices, lambda _, keys: jax.vmap(jax.random.bits)(keys))(0, keys)

    expected = laid_out()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    np.testing.assert_array_equal(laid_out(), expected)


def test_rows_that_need_no_other_come_back_in_their_order():
    rows = np.arange(48).reshape(16, 3)
    for wanted in ({}, dict(fsdp=2), dict(tensor=2, fsdp=2), dict(compile="pmap")):
        double = compile_by_row(make_devices(**wanted), lambda factor, batch: batch * factor)
        np.testing.assert_array_equal(double(2, rows), rows * 2)


def _step_on(state, batch):
    return jax.tree.map(lambda leaf: leaf + batch.sum(), state), batch.sum()


def test_the_state_is_given_away():
    devices = make_devices(data=2)
    state = devices.put({"inner": {"kernel": np.ones((8, 10))}})
    compiled = compile_train_step(devices, _step_on, state)
    compiled(state, devices.put_batch(np.ones((4, 3))))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def test_a_state_that_is_given_away_is_counted_once():
    devices = make_devices(data=1)
    state, batch = {"w": np.zeros(2**20, np.float32)}, np.zeros((4, 3), np.float32)
    needed = memory_needed(devices, _step_on, state, batch)
    assert 4 * 2**20 <= needed < 6 * 2**20  # once, not before and after


def test_only_too_little_memory_is_told_by_a_number(monkeypatch):
    class Lowered:
        def __init__(self, message):
            self.message = message

        def compile(self):
            raise jax.errors.JaxRuntimeError(self.message)

    messages = ["RESOURCE_EXHAUSTED: Out of memory"]
    monkeypatch.setattr(compilation, "lower_train_step", lambda *_: Lowered(messages[-1]))
    assert memory_needed(make_devices(1), _step_on, {}, np.zeros(1)) == sys.maxsize
    messages.append("INTERNAL: a bug")
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        memory_needed(make_devices(1), _step_on, {}, np.zeros(1))


def test_a_state_is_made_where_it_lies():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    model = Transformer(small(d_k=4, d_v=4, vocabulary_rows=12))
    state = compile_init(devices, lambda seed: make_train_state(model, optax.adam(1.0), seed), 7)
    for leaf, shape in zip(*map(jax.tree.leaves, (state, devices.shapes(state))), strict=True):
        assert leaf.sharding.is_equivalent_to(shape.sharding, leaf.ndim)


def test_a_state_stays_where_it_lies():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    inner = np.ones((8, 10))
    state = devices.put({"inner": {"kernel": inner}, "outer": {"kernel": inner.T}})

    def step(state, batch):
        inner = jnp.ones((8, 10)) * batch.sum()
        return {"inner": {"kernel": inner}, "outer": {"kernel": inner.T}}, batch.sum()

    new, _ = compile_train_step(devices, step, state)(state, devices.put_batch(np.ones((4, 3))))
    for name in ("inner", "outer"):
        assert new[name]["kernel"].sharding == devices.shapes(new)[name]["kernel"].sharding
