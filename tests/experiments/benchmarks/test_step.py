"""The cost of a step, as is and with each switch."""

import json
import subprocess
import sys

import jax
import pytest

from configs import base
from experiments.benchmarks import step
from experiments.benchmarks.step import ALL, AS_IS, SWITCHES, Shape, shape_of, variants
from t2t_jax.devices import Devices
from t2t_jax.json_files import flat_dict
from t2t_jax.training.operations import step_operations

SMALLEST = {
    **{f"model.num_{side}_layers": 1 for side in ("encoder", "decoder")},
    **dict.fromkeys(("model.d_model", "model.d_ff"), 16),
    **dict.fromkeys(("model.d_k", "model.d_v"), 8),
    "model.num_heads": 2,
    "model.vocabulary_rows": 50,
    "data.vocabulary_size": 50,
    "devices.data": 1,
}


def config(**changes):
    made = base.get_config()
    made.update_from_flattened_dict(SMALLEST | changes)
    return made


def test_each_variant_is_the_config_with_one_switch_and_the_last_with_all():
    bfloat16 = config(**{"model.dtype": "bfloat16"})
    found = variants(bfloat16, "each")
    assert [*found] == [AS_IS, *SWITCHES, ALL]
    plain = flat_dict(bfloat16.to_dict())
    for name, sections in found.items():
        if name in SWITCHES:
            assert flat_dict(sections.values()) == plain | dict(SWITCHES[name])
    together = {key: value for changes in SWITCHES.values() for key, value in changes.items()}
    assert flat_dict(found[ALL].values()) == plain | together
    assert [*variants(bfloat16, "none")] == [AS_IS]


def test_a_switch_that_changes_nothing_is_left_out():
    names = [*variants(config(**{"model.scan_layers": True}), "each")]
    assert names == [AS_IS, "one product", "8-bit dropout", ALL]  # of float32


def test_attention_that_cannot_be_fused_has_no_line_of_its_own():
    bfloat16 = {"model.dtype": "bfloat16"}
    found = variants(config(**bfloat16 | {"model.d_v": 16}), "each")
    assert "fused attention" not in found and "bfloat16 logits" in found
    assert found[ALL].model.attention_kernel == "einsum"


def test_a_record_says_which_kernel_it_was_and_what_the_device_held(monkeypatch):
    monkeypatch.setattr(step, "_SECONDS_A_ROUND", 0.0)
    monkeypatch.setattr(Devices, "peak_memory", lambda _: 3 * 2**20)
    changes = {"model.dtype": "bfloat16", "model.attention_kernel": "fused"}
    [sections] = variants(config(**changes), "none").values()
    cost = cost_of(sections, Shape(4, 3, 5))
    assert cost.switches == {"attention_kernel": "xla"} and cost.device_peak_mib == 3


@pytest.mark.slow
def test_a_step_costs_time_and_memory_and_its_operations_are_those_of_the_formulas(monkeypatch):
    monkeypatch.setattr(step, "_SECONDS_A_ROUND", 0.0)
    told = []
    found = step.measure(
        variants(config(), "each"), shape := Shape(4, 3, 5), 2, lambda so_far: told.append(so_far)
    )
    assert len(told) == len(found.costs) and not found.misfits
    [sections] = variants(config(), "none").values()
    for cost in found.costs.values():
        assert len(cost.first_seconds) == 2 and min(cost.first_seconds) > 0
        assert cost.operations == step_operations(sections.model).of(*shape)
        assert len(cost.step_seconds) == 2 and min(cost.step_seconds) > 0
        assert cost.tokens_per_second == [20 / each for each in cost.step_seconds]
        assert cost.teraflops * 1e12 * cost.milliseconds / 1e3 == pytest.approx(cost.operations)
        assert cost.mfu is None  # a CPU's peak is not in the table
        assert (
            cost.state_seconds > 0 < cost.compile_seconds
            and 0 < cost.program_memory_mib < cost.peak_memory_mib
        )
    lines = step.table(found).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [*found.costs]


def test_a_variant_that_does_not_fit_stops_no_other(monkeypatch):
    monkeypatch.setattr(step, "_SECONDS_A_ROUND", 0.0)
    made = step._made

    def of_small_memory(sections, shape, states):
        if sections.model.dropout_bits == 32:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory\nand more")
        return made(sections, shape, states)

    monkeypatch.setattr(step, "_made", of_small_memory)
    found = step.measure(variants(config(), "each"), Shape(4, 3, 5), 1)
    assert [*found.costs] == ["8-bit dropout", ALL] and AS_IS in found.misfits
    assert "as is does not fit: RESOURCE_EXHAUSTED: out of memory" in step.table(found)
    assert "8-bit dropout / it" in step.table(found)
    costs = found.costs["8-bit dropout"]
    assert len(costs.step_seconds) == len(costs.first_seconds) == 1


def cost_of(sections, shape):
    return step.measure({AS_IS: sections}, shape, 1).costs[AS_IS]


def test_mfu_is_of_the_peak_of_all_devices(monkeypatch):
    monkeypatch.setattr(step, "_SECONDS_A_ROUND", 0.0)
    monkeypatch.setattr("t2t_jax.peaks._PEAKS", {"cpu": 1e12})
    [sections] = variants(config(**{"devices.data": 2}), "none").values()
    cost = cost_of(sections, Shape(4, 3, 5))
    assert cost.mfu == pytest.approx(cost.teraflops / 2)


def test_a_language_model_has_no_source(monkeypatch):
    monkeypatch.setattr(step, "_SECONDS_A_ROUND", 0.0)
    changes = {"data.task": "language_modelling", "model.family": "decoder_only"}
    [sections] = variants(config(**changes), "none").values()
    assert cost_of(sections, Shape(2, 0, 5)).operations > 0
    with pytest.raises(ValueError, match="--shape=2x3x5: data.task='language_mod.* needs 2x0x5"):
        cost_of(sections, Shape(2, 3, 5))


@pytest.mark.parametrize("text", ["", "32", "32x64", "0x4x4", "4x4x0", "4x-1x4", "axbxc"])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match="is no rows x source x target length"):
        shape_of(text)
    assert shape_of("768x32x48") == (768, 32, 48)


def test_the_command_prints_and_writes_one_record(tmp_path):
    flags = [f"--config.{key}={value}" for key, value in SMALLEST.items()]
    command = [sys.executable, "-m", "experiments.benchmarks.step", "--config=configs/base.py"]
    output = tmp_path / "record.json"
    done = subprocess.run(
        [*command, *flags, "--shape=4x3x5", "--rounds=1", f"--output={output}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads(output.read_text())
    assert kept == json.loads(done.stdout)
    assert kept["shape"] == "4x3x5" and "--config.model.d_model=16" in kept["flags"]
    assert {"when", "commit", "machine", "costs"} <= kept.keys() and [*kept["costs"]] == [AS_IS]
    refused = subprocess.run(
        [*command, *flags, "--config.devices.data=2", "--num_cpu_devices=2", "--shape=3x2x2"],
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "step: --shape=3x2x2: 3 rows cannot be shared by 2 devices" in refused.stderr


def test_memory_is_that_of_a_process_alone():
    held = b"1" * 2**29
    code = "from experiments.benchmarks.step import peak_memory_mib as p; print(p('self'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 10 < float(done.stdout) < len(held) / 2**20 / 2
