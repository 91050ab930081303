"""Meshes: what lies where, and what is refused."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t2t_jax.devices import Devices, make_devices
from t2t_jax.model.families import parameter_shapes
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.step import make_train_state
from tests.model.configs import small


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (dict(data=0), "devices.data=0, fsdp=1, tensor=1: 8 devices are here"),
        (dict(data=-2), "devices.data=-2, fsdp=1, tensor=1: 8 devices are here"),
        (dict(data=9), "devices.data=9, fsdp=1, tensor=1: 8 devices are here"),
        (dict(data=4, fsdp=2, tensor=2), "devices.data=4, fsdp=2, tensor=2: 8 devices are here"),
        (dict(fsdp=16), "devices.data=-1, fsdp=16, tensor=1: 8 devices are here"),
        (dict(tensor=3), "devices.data=-1, fsdp=1, tensor=3: 8 devices are here; 2 would be left"),
        (dict(fsdp=0), "devices.fsdp=0 must be at least 1"),
        (dict(tensor=-1), "devices.tensor=-1 must be at least 1"),
        (dict(fsdp=2, compile="pmap"), "devices.compile='pmap' cuts nothing but the batch"),
    ],
)
def test_what_devices_cannot_do_is_told(wanted, message):
    with pytest.raises(ValueError) as error:
        make_devices(**wanted)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_all_devices_are_taken_where_data_is_left_open():
    for fsdp, tensor, num_data in ((1, 1, 8), (2, 1, 8), (2, 2, 4), (1, 8, 1)):
        devices = make_devices(fsdp=fsdp, tensor=tensor)
        assert (devices.mesh.size, devices.num_data) == (8, num_data)
        assert (devices.part, devices.num_parts) == (0, 1)


def test_parameters_are_cut_where_the_table_says_and_their_size_allows():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    params = parameter_shapes(Transformer(small(d_k=4, vocabulary_rows=11)))
    shards = jax.tree.map(
        lambda leaf: leaf.sharding.shard_shape(leaf.shape), devices.shapes(params)
    )
    attention = shards["encoder"]["layers_0"]["self_attentions_0"]
    assert attention["query"]["kernel"] == (6, 2, 4)  # 12 4 4
    assert attention["query"]["bias"] == (2, 4)
    assert attention["output"]["kernel"] == (2, 3, 6)  # 4 3 12
    assert attention["output"]["bias"] == (12,)
    feed_forward = shards["decoder"]["layers_1"]["feed_forward"]
    assert feed_forward["inner"]["kernel"] == (6, 10)  # 12 20
    assert feed_forward["outer"]["kernel"] == (10, 6)
    assert shards["embedding"]["table"] == (11, 6)  # 11 rows cannot be halved


def test_a_tree_is_whole_again_after_it_was_laid_out():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    tree = {"inner": {"kernel": np.arange(80.0).reshape(8, 10)}, "norm": {"scale": np.ones(3)}}
    laid_out = devices.put(tree)
    assert len({str(shard.index) for shard in laid_out["inner"]["kernel"].addressable_shards}) == 4
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(laid_out), tree)


def test_random_keys_are_laid_out_where_there_are_several_hosts_too(monkeypatch):
    devices, keys = make_devices(), jax.random.split(jax.random.key(3), 16)

    def laid_out():
        return devices.compile_by_row(lambda _, keys: jax.vmap(jax.random.bits)(keys))(0, keys)

    expected = laid_out()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    np.testing.assert_array_equal(laid_out(), expected)


def test_three_lines_tell_mesh_layout_and_bytes():
    params = parameter_shapes(Transformer(small(vocabulary_rows=2**16)))
    for wanted, share in (({}, 1), (dict(fsdp=4), 4)):
        mesh, layout, size = make_devices(**wanted).describe_layout(params, [params, params])
        assert mesh.startswith("mesh of 8 x cpu: replica 1, data ")
        assert ("every device holds all" in layout) == (share == 1)
        mebibytes = float(size.split()[3])
        assert mebibytes == pytest.approx(3.0 / share, rel=0.1)


def test_rows_that_need_no_other_come_back_in_their_order():
    rows = np.arange(48).reshape(16, 3)
    for wanted in ({}, dict(fsdp=2), dict(tensor=2, fsdp=2), dict(compile="pmap")):
        double = make_devices(**wanted).compile_by_row(lambda factor, batch: batch * factor)
        np.testing.assert_array_equal(double(2, rows), rows * 2)


def _step_on(state, batch):
    return jax.tree.map(lambda leaf: leaf + batch.sum(), state), batch.sum()


def test_the_state_is_given_away():
    devices = make_devices(data=2)
    state = devices.put({"inner": {"kernel": np.ones((8, 10))}})
    compiled = devices.compile_train_step(_step_on, state)
    compiled(state, devices.put_batch(np.ones((4, 3))))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def test_a_state_that_is_given_away_is_counted_once():
    devices = make_devices(data=1)
    state, batch = {"w": np.zeros(2**20, np.float32)}, np.zeros((4, 3), np.float32)
    needed = devices.memory_needed(_step_on, state, batch)
    assert 4 * 2**20 <= needed < 6 * 2**20  # once, not before and after


def test_only_too_little_memory_is_told_by_a_number(monkeypatch):
    class Lowered:
        def __init__(self, message):
            self.message = message

        def compile(self):
            raise jax.errors.JaxRuntimeError(self.message)

    messages = ["RESOURCE_EXHAUSTED: Out of memory"]
    monkeypatch.setattr(Devices, "lower_train_step", lambda *_: Lowered(messages[-1]))
    assert make_devices(1).memory_needed(_step_on, {}, np.zeros(1)) == sys.maxsize
    messages.append("INTERNAL: a bug")
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        make_devices(1).memory_needed(_step_on, {}, np.zeros(1))


def test_a_state_is_made_where_it_lies():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    model = Transformer(small(d_k=4, d_v=4, vocabulary_rows=12))
    state = devices.compile_init(lambda seed: make_train_state(model, optax.adam(1.0), seed), 7)
    for leaf, shape in zip(*map(jax.tree.leaves, (state, devices.shapes(state))), strict=True):
        assert leaf.sharding.is_equivalent_to(shape.sharding, leaf.ndim)


def test_a_state_stays_where_it_lies():
    devices = make_devices(data=2, fsdp=2, tensor=2)
    inner = np.ones((8, 10))
    state = devices.put({"inner": {"kernel": inner}, "outer": {"kernel": inner.T}})

    def step(state, batch):
        inner = jnp.ones((8, 10)) * batch.sum()
        return {"inner": {"kernel": inner}, "outer": {"kernel": inner.T}}, batch.sum()

    new, _ = devices.compile_train_step(step, state)(state, devices.put_batch(np.ones((4, 3))))
    for name in ("inner", "outer"):
        assert new[name]["kernel"].sharding == devices.shapes(new)[name]["kernel"].sharding


def test_slices_are_replicas(monkeypatch):
    monkeypatch.setattr("t2t_jax.devices._slice", lambda device: device.id // 2 % 2)
    mesh = make_devices(data=4, fsdp=2).mesh
    assert dict(mesh.shape) == {"replica": 2, "data": 2, "fsdp": 2, "tensor": 1}
    assert [device.id for device in mesh.devices.flat] == [0, 1, 4, 5, 2, 3, 6, 7]
    with pytest.raises(ValueError, match=r"devices\.data=1 must be a multiple of the 2 slices"):
        make_devices(data=1, fsdp=8)


def test_every_host_must_take_part(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="on 2 hosts, all of which must take part"):
        make_devices(data=4, devices=jax.devices())
