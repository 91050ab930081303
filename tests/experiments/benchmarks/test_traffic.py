"""What crosses devices in a step is what theory predicts."""

import functools

import pytest

from configs import tiny
from experiments.benchmarks.traffic import compile_step, traffic
from t2t_jax.devices import make_devices
from t2t_jax.runs.sections import read_sections

KIB = 1024


@functools.cache
def moved(**layout):
    config = tiny.get_config()
    config.data.vocabulary_size = 256
    config.model.update(num_encoder_layers=1, num_decoder_layers=1, vocabulary_rows=256)
    step = compile_step(read_sections(config), make_devices(**layout), rows=32, length=16)
    return traffic(step.text), step.param_bytes


def test_one_device_moves_nothing():
    assert sum(moved(data=1)[0].values()) == 0


def test_data_alone_sums_the_gradients():
    by_kind, param_bytes = moved(data=8)
    metrics_bytes = 4 * 4
    assert by_kind["all-reduce"] == pytest.approx(param_bytes, abs=4 * metrics_bytes)
    assert sum(by_kind.values()) == by_kind["all-reduce"]


def test_fsdp_puts_the_parameters_together_once_and_cuts_the_summed_gradients():
    by_kind, param_bytes = moved(data=1, fsdp=8)
    # All that is cut: everything but layer norms and biases.
    assert 0.95 * param_bytes < by_kind["all-gather"] <= param_bytes
    of_the_norm = 21 * 4  # a number for each gradient that is cut
    summed = by_kind["all-reduce"] + by_kind["reduce-scatter"]
    assert summed == pytest.approx(param_bytes + of_the_norm, abs=64)
    # Rows never leave their devices.
    assert by_kind["all-to-all"] == by_kind["collective-permute"] == 0


def test_what_the_compiler_of_the_tpu_writes_is_counted_once_and_by_its_right_name():
    program = """
%all-reduce-scatter.7 (input: f32[8,2]) -> f32[1,2] {
  %all-reduce.1 = f32[8,2]{1,0} all-reduce(%input), channel_id=1, to_apply=%add
}

%async_collective_fusion.1 (param: bf16[4]) -> bf16[32] {
  %all-gather.1 = bf16[32]{0} all-gather(%param), attributes={chain_id="5"}
}

ENTRY %main (param: bf16[4]) -> bf16[32] {
  %all-gather.2 = bf16[32]{0} all-gather(%param), attributes={chain_id="5"}
  %all-reduce.2 = f32[3]{0} all-reduce(%param), channel_id=1, to_apply=%add
}
"""
    counted = {kind: num_bytes for kind, num_bytes in traffic(program).items() if num_bytes}
    assert counted == {"reduce-scatter": 64, "all-gather": 64, "all-reduce": 12}


@pytest.mark.parametrize(
    ("line", "kind", "num_bytes"),
    [
        ("%a = f32[2,3]{1,0} all-reduce(%x), replica_groups={{0,1}}", "all-reduce", 24),
        ("%a = (f32[2]{0}, bf16[3]{0}) all-reduce(%x, %y), groups={{0,1}}", "all-reduce", 14),
        ("%a = f32[8,2]{1,0} all-gather(%x), replica_groups=[1,4]<=[4]", "all-gather", 64),
        (
            "%a = (f32[2,2]{1,0}, f32[8,2]{1,0}) all-gather-start(%x), replica_groups=[1,4]<=[4]",
            "all-gather",
            64,
        ),
        ("%a = f32[2]{0} reduce-scatter(%x), replica_groups={{0,1,2,3}}", "reduce-scatter", 32),
        (
            "%a = f32[2]{0} reduce-scatter(%x), replica_groups=mesh['replica'=1,'data'=4,'fsdp'=2,"
            "'tensor'=3] {'data','fsdp'}, use_global_device_ids=true",
            "reduce-scatter",
            64,
        ),
        (
            "%a = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(%x), channel_id=1",
            "collective-permute",
            32,
        ),
        ("%a = pred[] all-reduce(%x), replica_groups={{0,1}}", "all-reduce", 1),
    ],
)
def test_bytes_are_counted_as_the_compiler_writes_them(line, kind, num_bytes):
    counted = traffic(line)
    assert counted.pop(kind) == num_bytes
    assert not any(counted.values())
