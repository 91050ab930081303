r"""What one training step costs here, with the config as it is and with each speed switch.

    python -m experiments.benchmarks.step --config=configs/tiny.py --shape=32x64x64
    python -m experiments.benchmarks.step --config=configs/base.py --shape=768x32x32 \
      --config.model.dtype=bfloat16 --switches=each --output=base.json
    python -m experiments.benchmarks.step --config=configs/tiny.py --num_cpu_devices=8 \
      --config.model.num_encoder_layers=48 --config.model.num_decoder_layers=48

Trains on one full batch of random tokens, rows x source x target length, and prints a JSON record:
milliseconds in rounds in which each variant takes turns with the first, TFLOP/s of the matrix
products (there is no padding), MFU if the device's peak is known, memory, seconds of compilation,
and which variants did not fit. Nothing compiled earlier is reused. --output has the variants
measured so far if the rest takes too long.
"""

import dataclasses
import functools
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags

from t2t_jax import memory
from t2t_jax.cli.command import parse_flags
from t2t_jax.json_files import write_json

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.runs.sections import Sections

_SECONDS_A_ROUND = 0.5
AS_IS, ALL = "as is", "all"
Which = Literal["none", "each"]

# The switches for speed, and what each changes.
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "fused attention": {"model.attention_kernel": "fused"},
    "bfloat16 logits": {"training.logits_dtype": "bfloat16"},
    "one product": {"model.fused_projections": True},
    "8-bit dropout": {"model.dropout_bits": 8},
    "layers in a loop": {"model.scan_layers": True},
}


class Shape(NamedTuple):
    """The shape of a batch."""

    rows: int
    source_length: int
    target_length: int

    def __str__(self) -> str:
        return "x".join(map(str, self))


class Cost(NamedTuple):
    """The cost of one step."""

    state_seconds: float  # to create the first state, mostly compilation
    compile_seconds: float  # of the step
    step_seconds: list[float]  # in each round
    first_seconds: list[float]  # of the first variant that fits, in the same rounds
    tokens_per_second: list[float]  # target tokens
    operations: float  # of the products, by the formulas; 0 if there are none for this model
    teraflops: float  # operations per second at the median, over all devices
    mfu: float | None  # relative to the devices' peak in bfloat16
    program_memory_mib: float  # per device, while the step runs; according to the compiler
    peak_memory_mib: float  # of the whole process on the host, so far
    device_peak_mib: float | None  # of a device, so far, all variants together; if it says so
    switches: dict[str, Any]  # what they came to, see `runs.switches`

    @property
    def milliseconds(self) -> float:
        """The median over rounds."""
        return 1e3 * statistics.median(self.step_seconds)


def shape_of(text: str) -> Shape:
    """The shape from text such as 768x32x32.

    Raises:
      ValueError: it is not a shape.
    """
    if not re.fullmatch(r"[1-9]\d*x\d+x[1-9]\d*", text):
        raise ValueError(f"--shape={text} is no rows x source x target length such as 768x32x32")
    return Shape(*map(int, text.split("x")))


def variants(config: ConfigDict, which: Which) -> dict[str, "Sections"]:
    """The config as it is and, if `which` is each, with each switch alone and with all.

    Switches without effect are left out.

    Raises:
      ValueError, TypeError: the config is wrong.
    """
    from t2t_jax.json_files import flat_dict
    from t2t_jax.runs.effect import unmet
    from t2t_jax.runs.sections import read_sections
    from t2t_jax.runs.switches import switches as effect_of

    def changed(changes: Mapping[str, Any]) -> "Sections":
        new = config.copy_and_resolve_references()
        new.update_from_flattened_dict(dict(changes))
        return read_sections(new)

    found = {AS_IS: changed({})}
    if which == "none":
        return found
    flat = flat_dict(config.to_dict())
    switches = {
        name: changes
        for name, changes in SWITCHES.items()
        if not any(unmet(key, flat) or flat[key] == value for key, value in changes.items())
    }
    if "fused attention" in switches:
        fused = changed(switches["fused attention"]).model
        if effect_of(fused).facts["attention_kernel"] == "einsum":
            del switches["fused attention"]
    found |= {name: changed(changes) for name, changes in switches.items()}
    together = {key: value for changes in switches.values() for key, value in changes.items()}
    return found | {ALL: changed(together)}


class Found(NamedTuple):
    """What is known of several variants."""

    costs: dict[str, Cost]
    misfits: dict[str, str]  # variant -> what the compiler or device said of its memory

    @property
    def first(self) -> str:
        """The variant that all others took turns with."""
        return next(iter(self.costs), AS_IS)


def measure(
    of: Mapping[str, "Sections"],
    shape: Shape,
    rounds: int,
    tell: Callable[[Found], None] = lambda found: None,
) -> Found:
    """The cost of a step on a batch of this shape, over the devices of the config.

    Each variant takes turns with the first that fits, and is gone before the next; `tell` is given
    what is known after each.

    Raises:
      ValueError: the rows cannot be split over the devices, or the model does not train on such
        batches.
    """
    import jax

    found, states = Found({}, {}), {}
    first_round: Callable[[], float] | None = None
    for name, sections in of.items():
        before = round_of = None  # frees the state of the variant before
        try:
            cost, round_of = _made(sections, shape, states)
            before = first_round or round_of
            seconds = [
                (before(), round_of()) if first_round else (round_of(),) * 2 for _ in range(rounds)
            ]
        except jax.errors.JaxRuntimeError as error:
            if not memory.is_exhausted(error):
                raise
            found.misfits[name] = str(error).splitlines()[0]
        else:
            first_round = before
            found.costs[name] = _with_seconds(cost, sections, shape, *zip(*seconds, strict=True))
        tell(found)
    return found


def _made(
    sections: "Sections", shape: Shape, states: dict[str, Any]
) -> tuple[Cost, Callable[[], float]]:
    """The cost of compiling a step, and a function that runs a round and returns seconds per step.

    If `states` has a first state of the same arrays, it is copied: drawing one takes longer.
    """
    import jax
    import jax.numpy as jnp

    from experiments.benchmarks.roof import seconds_after_one, seconds_of
    from t2t_jax.compilation import bytes_of, compile_init, lower_train_step
    from t2t_jax.devices import make_devices
    from t2t_jax.runs.steps import state_and_step
    from t2t_jax.runs.switches import switches

    devices = make_devices(**dataclasses.asdict(sections.devices))
    microbatches = sections.training.microbatches or 1
    if shape.rows % (devices.num_data * microbatches):
        by = f"{devices.num_data} devices"
        by += f" x {microbatches} microbatches" if microbatches > 1 else ""
        raise ValueError(f"--shape={shape}: {shape.rows} rows cannot be shared by {by}")
    make_state, step = state_and_step(sections, devices)
    started = time.perf_counter()
    arrays = f"{sections.devices} {jax.eval_shape(make_state, 0)}"
    if arrays not in states:
        states[arrays] = jax.block_until_ready(compile_init(devices, make_state, 0))
    state = jax.block_until_ready(jax.tree.map(jnp.copy, states[arrays]))
    state_seconds = time.perf_counter() - started
    batch = devices.put_batch(_batch(sections, shape))
    started = time.perf_counter()
    compiled = lower_train_step(devices, step, state, batch).compile()
    compile_seconds = time.perf_counter() - started

    def run():
        nonlocal state
        state, metrics = compiled(state, batch)
        return metrics

    times = max(1, round(_SECONDS_A_ROUND / seconds_after_one(run, 1)))
    memory = bytes_of(compiled) / 2**20
    effect = switches(sections.model).facts
    cost = Cost(
        *(state_seconds, compile_seconds, [], [], [], 0.0, 0.0, None, memory, 0.0, None, effect)
    )
    return cost, lambda: seconds_of(run, times)


def _batch(sections: "Sections", shape: Shape) -> "Batch":
    """A full batch of random ids, in the form of the task."""
    from t2t_jax.data.batches.batches import Batch

    model, (rows, source, target) = sections.model, shape
    needed = {
        "language_modelling": (0, target),
        "masked_language_modelling": (source, source),
        "classification": (source, 1),
    }.get(sections.data.task, (source, target))
    if (source, target) != needed or max(source, target) == 0:
        lengths = "x".join(map(str, needed))
        raise ValueError(
            f"--shape={shape}: data.task={sections.data.task!r} needs {rows}x{lengths}"
        )
    if sections.data.task == "translation" and source == 0:
        raise ValueError(f"--shape={shape}: a translation needs a source of at least 1 token")
    draw = np.random.default_rng(0).integers
    most = 1 + model.num_classes if sections.data.task == "classification" else None
    read = draw(4, model.vocabulary_rows, (rows, source))
    predicted = draw(1 if most else 4, most or model.vocabulary_rows, (rows, target))
    return Batch(read.astype(np.int32), predicted.astype(np.int32))


def _with_seconds(
    cost: Cost,
    sections: "Sections",
    shape: Shape,
    first_seconds: tuple[float, ...],
    seconds: tuple[float, ...],
) -> Cost:
    from t2t_jax.devices import make_devices
    from t2t_jax.peaks import peak_operations
    from t2t_jax.training.operations import step_operations

    try:
        operations = float(step_operations(sections.model).of(*shape))
    except ValueError:
        operations = 0.0
    devices = make_devices(**dataclasses.asdict(sections.devices))
    rate, peak = operations / statistics.median(seconds), peak_operations(devices.kind)
    held = devices.peak_memory()
    return cost._replace(
        step_seconds=list(seconds),
        first_seconds=list(first_seconds),
        tokens_per_second=[shape.rows * shape.target_length / each for each in seconds],
        operations=operations,
        teraflops=rate / 1e12,
        mfu=None if peak is None or not operations else rate / (peak * devices.mesh.size),
        peak_memory_mib=peak_memory_mib("self"),
        device_peak_mib=None if held is None else held / 2**20,
    )


def peak_memory_mib(process_id: int | str) -> float:
    """The peak memory of a process so far; 0 if it has ended.

    Not by `wait4`: what it reports for a child is at least what the parent held at its start.
    """
    status = Path(f"/proc/{process_id}/status")
    if not status.exists():  # no Linux
        return 0.0
    lines = status.read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def table(found: Found) -> str:
    """The costs as text, a line per variant."""
    head: list[str] = ["", "ms", "lowest to highest", f"{found.first} / it"]
    rows = [(*head, "TFLOP/s", "MFU", "MiB", "compiled in s")]
    for name, cost in found.costs.items():
        first = 1e3 * statistics.median(cost.first_seconds)
        ends = f"{1e3 * min(cost.step_seconds):.1f} to {1e3 * max(cost.step_seconds):.1f}"
        mfu = "" if cost.mfu is None else f"{cost.mfu:.1%}"
        rows.append(
            (
                *(name, f"{cost.milliseconds:.1f}", ends, f"{first / cost.milliseconds:.2f}"),
                *(f"{cost.teraflops:.3g}", mfu, f"{cost.program_memory_mib:,.0f}"),
                f"{cost.compile_seconds:.1f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [f"{name} does not fit: {message}" for name, message in found.misfits.items()]
    return "\n".join(lines)


def record(found: Found, shape: Shape) -> dict[str, Any]:
    """The JSON record: machine, code, flags, shape and costs."""
    import jax

    from experiments.benchmarks.records import make_record

    about = make_record()
    return {
        "when": about.when,
        "commit": about.commit,
        "machine": about.machine
        | {"devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}"},
        "flags": sys.argv[1:],
        "shape": str(shape),
        "first": found.first,
        "costs": {name: cost._asdict() for name, cost in found.costs.items()},
        "misfits": found.misfits,
    }


def main(_: list[str]) -> None:
    """Measures."""
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    import jax

    given = flags.FLAGS
    if given.num_cpu_devices:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", given.num_cpu_devices)

    kept: dict[str, Any] = {}

    def keep(found: Found) -> None:
        kept.update(record(found, shape))
        if given.output:
            write_json(Path(given.output), kept)

    try:
        shape = shape_of(given.shape)
        found = measure(variants(given.config, given.switches), shape, given.rounds, keep)
    except (TypeError, ValueError) as error:
        sys.exit(f"step: {error}")
    print(table(found), file=sys.stderr)
    print(json.dumps(kept))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_string("shape", "32x64x64", "shape of the batch: rows x source x target length")
    flags.DEFINE_enum("switches", "none", ["none", "each"], "each: every switch alone, then all")
    flags.DEFINE_integer("rounds", 5, "how often the steps are timed", lower_bound=1)
    flags.DEFINE_integer("num_cpu_devices", 0, "devices to make from the CPU; 0: the real ones")
    flags.DEFINE_string("output", "", "file for the record, besides standard output")
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=functools.partial(parse_flags, "step"))
