"""The real steps of the base model, compiled for a slice of a Cloud TPU by its own compiler.

No TPU is needed, only the extra `tpu`, which brings the compiler: `make tpu-check`.
"""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from experiments.benchmarks.traffic import compile_step, traffic
from t2t_jax.compilation import ByRow
from t2t_jax.decoding.translate import make_decode
from t2t_jax.devices import make_devices
from t2t_jax.model import tpu_attention
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.plan.hardware import CHIPS, topology, tpu_devices
from t2t_jax.runs.sections import read_sections

pytest.importorskip("libtpu", reason="the extra `tpu` is not installed")
pytestmark = pytest.mark.tpu

GIB = 2**30
MEMORY = 16 * GIB  # of a v5e chip
ROWS, LENGTH = 96, 256  # the paper's 25,000 tokens on each side
ONE_LAYER = {"model.num_encoder_layers": 1, "model.num_decoder_layers": 1}
SENTENCES, WORDS = 128, 64  # translated at once


@pytest.fixture(scope="module", autouse=True)
def all_optimisations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPU_SKIP_MDS_QUERY", "1")  # asks no cloud which machine this is
        jax.config.update("jax_disable_most_optimizations", False)
        yield
        jax.config.update("jax_disable_most_optimizations", True)


@functools.cache
def chips():
    """Eight chips of two hosts."""
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(
        platform="tpu", topology_name="v5e:2x4", chips_per_host_bounds=(2, 2, 1)
    )
    return tuple(topology.devices)


def sections(**changes):
    config = base.get_config()
    config.update_from_flattened_dict({"model.dtype": "bfloat16"} | changes)
    return read_sections(config)


@functools.cache
def step():
    return compile_step(sections(**ONE_LAYER), make_devices(devices=chips()), ROWS, LENGTH)


def peak(memory) -> int:
    return (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )


def test_the_training_step_fits_and_gives_the_old_states_memory_to_the_new_one():
    state_bytes = 3 * step().param_bytes  # parameters, and Adam's two means
    assert step().memory.alias_size_in_bytes >= state_bytes
    assert peak(step().memory) < MEMORY / 2


def test_every_product_is_one_of_bfloat16():
    """With float32 on either side it would take several passes."""
    types = dict(re.findall(r"%([\w.-]+) = \(?(\w+)\[", step().text))
    products = re.findall(r" (?:convolution|dot)\(([^)]*)\)", step().text)
    operands = [re.findall(r"%([\w.-]+)", each) for each in products]
    assert len(operands) > 2 * 5 * 3  # layers, products, passes
    assert {types[name] for names in operands for name in names} == {"bf16"}


def test_no_activation_is_copied_to_turn_its_axes():
    # What a fusion writes it turns on the way; each instruction of the entry is a pass by itself.
    entry = step().text.partition("\nENTRY ")[2]
    copied = re.findall(r" = (?:bf16|f32)\[([\d,]+)\]\S* copy\(", entry)
    activation = ROWS // len(chips()) * LENGTH * sections().model.d_model
    sizes = (math.prod(map(int, shape.split(","))) for shape in copied)
    assert sum(size for size in sizes if size >= activation) == 0


def num_kernels(chip, num_rows, length, num_keys, num_heads, d_k, mask_shape) -> int:
    """How many kernels attention and its gradients are on a chip: two, or none."""
    device = tpu_devices(topology(f"{chip.name}-{chip.cores}"))[0]
    here = jax.sharding.SingleDeviceSharding(device)

    def array(num_positions):
        shape = (num_rows, num_positions, num_heads, d_k)
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=here)

    def attend(query, key, value, mask, grad):
        def of(*qkv):
            return tpu_attention.attend_by_row(*qkv, mask, d_k**0.5)

        heads, pull = jax.vjp(of, query, key, value)
        return heads, pull(grad)

    mask = jax.ShapeDtypeStruct(mask_shape, bool, sharding=here)
    queries, keys = array(length), array(num_keys)
    with jax.default_matmul_precision("highest"):  # as `make_devices` sets it
        compiled = jax.jit(attend).lower(queries, keys, keys, mask, queries).compile()
    return compiled.as_text().count('custom_call_target="tpu_custom_call"')


@pytest.mark.parametrize(
    "length, num_keys, num_heads, d_k",
    [(256, 256, 8, 64), (37, 41, 2, 256), (96, 40, 32, 16), (19, 7, 3, 40), (1, 1, 4, 128)],
)
def test_attention_is_a_kernel_for_rows_of_any_length(length, num_keys, num_heads, d_k):
    masks = {(3, 1, num_keys), (3, length, num_keys), (1, length, num_keys)}
    sizes = (3, length, num_keys, num_heads, d_k)
    assert [num_kernels(CHIPS["v5e"], *sizes, mask) for mask in masks] == [2] * len(masks)


@pytest.mark.parametrize("chip", [chip for chip in CHIPS.values() if chip.is_tpu])
@pytest.mark.parametrize("num_heads, d_k", [(8, 64), (32, 16)])
def test_a_row_at_the_bound_fits_on_every_chip_and_one_above_is_no_kernel(chip, num_heads, d_k):
    lengths = range(8, 2048, 8)
    longest = max(n for n in lengths if tpu_attention.fits(n, n, num_heads, d_k))
    for length, expected in [(longest, 2), (longest + 8, 0)]:
        mask = (2, length, length)
        assert num_kernels(chip, 2, length, length, num_heads, d_k, mask) == expected


@pytest.mark.slow
def test_with_a_kernel_for_attention_a_step_on_eight_chips_holds_no_weights():
    fused = sections(**ONE_LAYER, **{"model.attention_kernel": "fused"})
    compiled = compile_step(fused, make_devices(devices=chips()), ROWS, LENGTH)
    assert compiled.text.count('custom_call_target="tpu_custom_call"') == 2 * 3
    heads = sections().model.num_heads
    weights = rf"\[{ROWS // len(chips())},{heads},{LENGTH},{LENGTH}\]"
    assert re.search(weights, step().text) and not re.search(weights, compiled.text)
    moved = traffic(compiled.text)
    assert sum(moved.values()) == pytest.approx(compiled.param_bytes, rel=0.001)


def test_data_parallelism_moves_gradients_in_float32_and_nothing_else():
    moved = traffic(step().text)
    assert moved["all-reduce"] == pytest.approx(step().param_bytes, rel=0.001)
    assert sum(moved.values()) == moved["all-reduce"]
    summed = re.findall(r"= (.*?) all-reduce(?:-start)?\(", step().text)
    assert summed and not any("bf16" in shapes for shapes in summed)


@pytest.mark.slow
def test_fsdp_gathers_the_parameters_in_bfloat16_and_scatters_the_summed_gradients():
    devices = make_devices(data=1, fsdp=8, devices=chips())
    cut = compile_step(sections(**ONE_LAYER), devices, ROWS, LENGTH)
    moved = traffic(cut.text)
    # All but biases and layer norms, which every device holds, and which are summed as a whole.
    assert 0.99 < moved["all-gather"] / (cut.param_bytes / 2) <= 1
    assert moved["all-reduce"] < 0.001 * cut.param_bytes
    # The compiler lets the table's parts begin at whole tiles, and moves what that leaves over.
    assert 0.99 < moved["reduce-scatter"] / cut.param_bytes < 1.02
    assert moved["collective-permute"] < 0.02 * cut.param_bytes
    assert moved["all-to-all"] == 0
    # An eighth of the state; a tile of memory may be part empty.
    assert cut.memory.argument_size_in_bytes < 1.2 * 3 * cut.param_bytes / 8


def test_the_beam_search_fits_and_moves_nothing_but_its_results():
    config = sections()
    devices = make_devices(devices=chips())
    model = make_model(config.model)
    decode = make_decode(model, config.decoding, config.data.vocabulary_size)
    sources = np.zeros((SENTENCES, WORDS), np.int32)
    lowered = ByRow(devices, decode).lower(devices.shapes(parameter_shapes(model)), sources)
    compiled = lowered.compile()
    results = jax.tree.leaves(lowered.out_info)
    result_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in results)
    assert peak(compiled.memory_analysis()) < MEMORY / 2
    assert sum(traffic(compiled.as_text()).values()) <= 2 * result_bytes < 2**20


@pytest.mark.slow
def test_a_chunked_loss_never_holds_the_logits_of_the_batch():
    rows, length = 48, 64
    narrow = {"model.d_model": 64, "model.d_ff": 64}  # what needs memory is the vocabulary

    def temporary_bytes(chunk):
        config = sections(**ONE_LAYER, **narrow, **{"training.loss_chunk_tokens": chunk})
        devices = make_devices(data=1, devices=chips())
        return compile_step(config, devices, rows, length).memory.temp_size_in_bytes

    whole, chunked = temporary_bytes(0), temporary_bytes(1_024)
    logits_bytes = 4 * rows * length * 40_960
    print(f"{whole / GIB:.2f} GiB with all logits, {chunked / GIB:.2f} GiB in chunks")
    assert chunked < logits_bytes < whole
