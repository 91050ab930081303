"""What crosses devices in one training step, read from the compiled program.

    python -m experiments.benchmarks.traffic --config=configs/tiny.py --num_devices=8

A step split over data alone must sum the gradients: one all-reduce of as many bytes as the
parameters. Split over fsdp, it gathers the parameters (all-gather) and sums and splits the
gradients (reduce-scatter, or an all-reduce if the compiler has none); data then sums the split
gradients. The rest is only the few sums behind the metrics.
"""

import functools
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags

from t2t_jax.cli.command import parse_flags
from t2t_jax.plan.collectives import KINDS, traffic

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from jaxtyping import PyTree

    from t2t_jax.devices import Devices
    from t2t_jax.runs.sections import Sections

_MIB = 2**20
_ROWS, _LENGTH = 64, 32  # of a batch, on each side


class CompiledStep(NamedTuple):
    """A training step, compiled but not run."""

    text: str  # the program, as the compiler writes it
    memory: Any  # the compiler's memory analysis
    param_bytes: int


def compile_step(sections: "Sections", devices: "Devices", rows: int, length: int) -> CompiledStep:
    """Compiles the real step of a config for a batch of `rows` x `length` tokens on each side."""
    import jax

    from t2t_jax.compilation import lower_train_step
    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.runs.steps import state_and_step

    make_state, step = state_and_step(sections, devices)
    state = jax.eval_shape(make_state, 0)
    ids = np.zeros((rows, length), np.int32)
    compiled = lower_train_step(devices, step, state, Batch(ids, ids)).compile()
    return CompiledStep(compiled.as_text(), compiled.memory_analysis(), _num_bytes(state.params))


def _num_bytes(tree: "PyTree") -> int:
    import jax

    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def table(config: ConfigDict, num_devices: int) -> str:
    """MiB of each kind of collective, for several layouts of the devices."""
    from t2t_jax.devices import make_devices
    from t2t_jax.runs.sections import read_sections

    lines = [f"{'data x fsdp x tensor':<22}" + "".join(f"{kind:>20}" for kind in KINDS)]
    layouts: list[Mapping[str, Any]] = [
        {"data": num_devices},
        {"data": 1, "fsdp": num_devices},
        {"data": num_devices // 2, "fsdp": 2},
        {"data": num_devices // 2, "tensor": 2},
    ]
    sections = read_sections(config)
    num_bytes = 0
    for layout in layouts:
        step = compile_step(sections, make_devices(**layout), _ROWS, _LENGTH)
        num_bytes = step.param_bytes
        name = " x ".join(str(layout.get(axis, 1)) for axis in ("data", "fsdp", "tensor"))
        moved = traffic(step.text)
        lines.append(f"{name:<22}" + "".join(f"{moved[kind] / _MIB:>20.3f}" for kind in KINDS))
    return "\n".join([f"parameters: {num_bytes / _MIB:.3f} MiB; moved in a step, MiB:", *lines])


def main(_: list[str]) -> None:
    """Runs the command."""
    import jax

    values = flags.FLAGS
    num_devices = values.num_devices
    if num_devices < 2 or _ROWS % num_devices:
        sys.exit(f"traffic: --num_devices={num_devices} must be 2 or more, and divide {_ROWS} rows")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", num_devices)
    try:
        print(table(values.config, num_devices))
    except (TypeError, ValueError) as error:
        sys.exit(f"traffic: {error}")


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_integer("num_devices", 8, "devices to make from this machine's CPU")
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=functools.partial(parse_flags, "traffic"))
