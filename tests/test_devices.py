"""Meshes: placement, and what is refused."""

import os
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from t2t_jax import devices as of_devices
from t2t_jax.data.batches.batches import Batch
from t2t_jax.devices import ROUNDS_ON_CPU, Devices, _slice, make_devices
from t2t_jax.model.families import parameter_shapes
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.loss import make_loss_fn
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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (AssertionError(), ""),  # as JAX says it of a platform of which it finds no device
        (RuntimeError("Unable to initialize backend 'cuda': none.\n(set X)"), "Unable to init"),
    ],
)
def test_no_device_is_told_in_a_sentence(monkeypatch, error, why):
    def refuse():
        raise error

    monkeypatch.setattr(jax, "devices", refuse)
    with pytest.raises(
        ValueError, match="JAX finds no device where JAX_PLATFORMS=cpu.*" + why
    ) as e:
        make_devices()
    assert "\n" not in str(e.value)


def test_where_jax_can_use_a_gpu_xla_tries_no_kernels_unless_told_to(monkeypatch):
    monkeypatch.setattr(of_devices, "_PLUGINS", ("json",))
    for given, then in (
        ("", "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"),
        (
            "--xla_gpu_autotune_level=4 --xla_a=1",
            "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=4 --xla_a=1",
        ),
    ):
        monkeypatch.setenv("XLA_FLAGS", given)
        for _ in range(2):  # a process that it starts says the same
            of_devices._skip_trials()
            assert os.environ["XLA_FLAGS"] == then
    for plugin, given in (("json", "a_file"), ("no_such_plugin", "--xla_a=1")):
        monkeypatch.setattr(of_devices, "_PLUGINS", (plugin,))
        monkeypatch.setenv("XLA_FLAGS", given)
        of_devices._skip_trials()
        assert os.environ["XLA_FLAGS"] == given


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


def test_three_lines_tell_mesh_layout_and_bytes():
    params = parameter_shapes(Transformer(small(vocabulary_rows=2**16)))
    for wanted, share in (({}, 1), (dict(fsdp=4), 4)):
        mesh, layout, size = make_devices(**wanted).describe_layout(params, [params, params])
        assert mesh.startswith("mesh of 8 x cpu: replica 1, data ")
        assert ("every device holds all" in layout) == (share == 1)
        mebibytes = float(size.split()[3])
        assert mebibytes == pytest.approx(3.0 / share, rel=0.1)


def test_slices_are_replicas(monkeypatch):
    monkeypatch.setattr("t2t_jax.devices._slice", lambda device: device.id // 2 % 2)
    mesh = make_devices(data=4, fsdp=2).mesh
    assert dict(mesh.shape) == {"replica": 2, "data": 2, "fsdp": 2, "tensor": 1}
    assert [device.id for device in mesh.devices.flat] == [0, 1, 4, 5, 2, 3, 6, 7]
    with pytest.raises(ValueError, match=r"devices\.data=1 must be a multiple of the 2 slices"):
        make_devices(data=1, fsdp=8)


def test_the_hosts_of_gpus_are_no_slices():
    """JAX numbers them as if they were."""
    kinds = ("tpu", "gpu", "cpu")
    devices = [SimpleNamespace(platform=platform, slice_index=1) for platform in kinds]
    assert [_slice(device) for device in devices] == [1, 0, 0]
    assert _slice(SimpleNamespace(platform="tpu", slice_index=None)) == 0


def test_every_host_must_take_part(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="on 2 hosts, all of which must take part"):
        make_devices(data=4, devices=jax.devices())


OF_A_CPU = {"high": None, "default": ROUNDS_ON_CPU}


@pytest.mark.parametrize(
    ("are_accelerators", "wanted", "found"),
    [
        *((False, {}, None), (True, {}, "highest"), (True, {"matmul_precision": "high"}, "high")),
        *((False, {"matmul_precision": name}, value) for name, value in OF_A_CPU.items()),
    ],
)
def test_float32_is_multiplied_as_float32_on_accelerators(
    monkeypatch, are_accelerators, wanted, found
):
    monkeypatch.setattr(Devices, "are_accelerators", are_accelerators)
    try:
        make_devices(matmul_precision="default")  # of an earlier run in the same process
        make_devices(**wanted)
        assert jax.config.jax_default_matmul_precision == found
    finally:
        jax.config.update("jax_default_matmul_precision", None)


def test_every_product_of_a_step_asks_for_that_precision():
    model = Transformer(small())
    batch = Batch(*[jax.ShapeDtypeStruct((2, 5), np.int32)] * 2)
    key = jax.eval_shape(lambda: jax.random.key(0))

    def products(precision):
        gradients = jax.jit(jax.grad(make_loss_fn(model, 0.1, 4), has_aux=True))
        with jax.default_matmul_precision(precision):
            traced = gradients.trace(parameter_shapes(model), batch, key)
            text = traced.lower(lowering_platforms=("tpu",)).as_text()
        return [line for line in text.splitlines() if "stablehlo.dot_general" in line]

    asked = products("highest")
    assert len(asked) > 30 and all("precision = [HIGHEST, HIGHEST]" in line for line in asked)
    assert not any("HIGHEST" in line for line in products(None))
