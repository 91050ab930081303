"""How a step is compiled: its inputs, outputs and their placement."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t2t_jax import compilation
from t2t_jax.compilation import ByRow, compile_init, compile_train_step, memory_needed
from t2t_jax.devices import Devices, make_devices
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.step import make_train_state
from tests.model.configs import small


def test_random_keys_are_laid_out_where_there_are_several_hosts_too(monkeypatch):
    devices, keys = make_devices(), jax.random.split(jax.random.key(3), 16)

    def laid_out():
        return ByRow(devices, lambda _, keys: jax.vmap(jax.random.bits)(keys))(0, keys)

    expected = laid_out()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    np.testing.assert_array_equal(laid_out(), expected)


def test_rows_that_need_no_other_come_back_in_their_order():
    rows = np.arange(48).reshape(16, 3)
    for wanted in ({}, dict(fsdp=2), dict(tensor=2, fsdp=2), dict(compile="pmap")):
        double = ByRow(make_devices(**wanted), lambda factor, batch: batch * factor)
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


def test_on_a_gpu_a_whole_state_is_drawn_by_the_generators_kernel(monkeypatch):
    seen = []
    monkeypatch.setattr(Devices, "are_gpus", True)

    def make_state(seed):
        seen.append(jax.config.jax_threefry_gpu_kernel_lowering)
        if seed is None:
            raise ValueError("no seed")
        return jnp.zeros(8)

    for devices in (make_devices(1), make_devices(2, fsdp=2), make_devices(2, tensor=2)):
        compile_init(devices, lambda seed: make_state(seed), 0, shapes=jnp.zeros(8))
    with pytest.raises(ValueError, match="no seed"):
        compile_init(make_devices(1), make_state, None, shapes=jnp.zeros(8))
    assert seen == [True, False, False, True] and not jax.config.jax_threefry_gpu_kernel_lowering


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


def _ahead(devices, batches, **options):
    state = devices.put({"inner": {"kernel": np.ones((8, 10), np.float32)}})
    return state, compilation.compile_ahead(devices, _step_on, state, batches, **options)


def test_all_shapes_are_compiled_by_the_first_call_the_largest_first(monkeypatch):
    devices = make_devices(data=2)
    batches = [np.ones((4, width), np.float32) for width in (9, 5, 3)]
    lowered = []
    shapes_of = compilation.Devices.batch_shapes
    monkeypatch.setattr(
        compilation.Devices,
        "batch_shapes",
        lambda self, batch: lowered.append(batch.shape[1]) or shapes_of(self, batch),
    )
    monkeypatch.setattr(compilation, "own_cores", lambda: [0])  # one after another
    state, step = _ahead(devices, batches)
    assert lowered == []
    for width in (3, 9, 5, 3):
        state, total = step(state, devices.put_batch(np.ones((4, width), np.float32)))
        assert lowered == [9, 5, 3] and total == 4 * width
    # One that nobody has announced is compiled when it comes.
    state, total = step(state, devices.put_batch(np.ones((4, 7), np.float32)))
    assert total == 28
    expected = np.ones((8, 10)) + 4 * (3 + 9 + 5 + 3 + 7)
    np.testing.assert_array_equal(state["inner"]["kernel"], expected)


def test_a_batch_that_does_not_fit_is_told_before_any_step(monkeypatch):
    devices = make_devices(data=2)
    batches = [np.ones((4, 9), np.float32), np.ones((4, 3), np.float32)]
    monkeypatch.setattr(compilation.Devices, "memory_limit", lambda _: 500)
    state, step = _ahead(devices, batches, advice="; less of it")
    with pytest.raises(ValueError, match=r"4 rows of 9 tokens does not fit a device: .*less of it"):
        step(state, devices.put_batch(batches[1]))
    np.testing.assert_array_equal(state["inner"]["kernel"], np.ones((8, 10)))


def test_what_else_fails_while_all_are_compiled_is_not_hidden():
    devices = make_devices(data=2)

    def broken(state, batch):
        if batch.shape[1] == 3:
            raise TypeError("a bug")
        return _step_on(state, batch)

    batches = [np.ones((4, 9), np.float32), np.ones((4, 3), np.float32)]
    state = devices.put({"w": np.ones(3, np.float32)})
    step = compilation.compile_ahead(devices, broken, state, batches)
    with pytest.raises(TypeError, match="a bug"):
        step(state, devices.put_batch(batches[0]))
