r"""What one training step costs here: compilation, milliseconds, tokens a second, peak memory.

    python -m experiments.benchmarks.step_cost --config=configs/tiny.py --rows=32 --length=64
    python -m experiments.benchmarks.step_cost --config=configs/tiny.py --num_cpu_devices=8 \
      --config.model.num_encoder_layers=48 --config.model.num_decoder_layers=48

Trains on one full batch of random tokens, as many on each side, and prints JSON. Nothing that was
compiled before is used. The memory is that of the whole process.
"""

import dataclasses
import functools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags

if TYPE_CHECKING:  # what is heavy is imported where it works: --help does not wait
    from t2t_jax.runs.sections import Sections

_SECONDS_A_ROUND = 0.5


class Cost(NamedTuple):
    """Of one step."""

    state_seconds: float  # until the first state is there, most of which compiles
    compile_seconds: float  # of the step
    step_seconds: list[float]  # of each round
    tokens_per_second: list[float]  # target tokens
    peak_memory_mib: float


def measure(sections: "Sections", rows: int, length: int, rounds: int) -> Cost:
    """Of a batch of `rows` x `length` tokens on each side, over the devices of the config.

    Raises:
      ValueError: these cannot share the rows.
    """
    import jax

    from experiments.benchmarks.roof import seconds_of
    from t2t_jax.compilation import compile_init, lower_train_step
    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.devices import make_devices
    from t2t_jax.model.families import make_model
    from t2t_jax.runs.steps import train_step_of
    from t2t_jax.training.optimizer import make_optimizer
    from t2t_jax.training.step import make_train_state

    devices = make_devices(**dataclasses.asdict(sections.devices))
    if rows % devices.num_data:
        raise ValueError(f"--rows={rows} cannot be shared by {devices.num_data} devices")
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    make_state = functools.partial(make_train_state, model, optimizer)
    started = time.perf_counter()
    state = jax.block_until_ready(compile_init(devices, make_state, 0))
    state_seconds = time.perf_counter() - started
    step = train_step_of(sections, devices, model, optimizer)
    ids = np.random.default_rng(0).integers(4, sections.model.vocabulary_rows, (2, rows, length))
    batch = devices.put_batch(Batch(*ids.astype(np.int32)))
    started = time.perf_counter()
    compiled = lower_train_step(devices, step, state, batch).compile()
    compile_seconds = time.perf_counter() - started

    def run():
        nonlocal state
        state, metrics = compiled(state, batch)
        return metrics

    seconds_of(run, 1)
    times = max(1, round(_SECONDS_A_ROUND / seconds_of(run, 1)))
    seconds = [seconds_of(run, times) for _ in range(rounds)]
    jax.block_until_ready(state)
    rates = [rows * length / each for each in seconds]
    return Cost(state_seconds, compile_seconds, seconds, rates, peak_memory_mib("self"))


def peak_memory_mib(process_id: int | str) -> float:
    """The most that a process has held so far; 0 of one that has ended.

    What a parent is told of a child by `wait4` is at least what itself held when it started it.
    """
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main(_: list[str]) -> None:
    """Measures."""
    import jax

    from t2t_jax.runs.sections import read_sections

    given = flags.FLAGS
    if given.num_cpu_devices:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", given.num_cpu_devices)
    try:
        cost = measure(read_sections(given.config), given.rows, given.length, given.rounds)
    except ValueError as error:
        sys.exit(f"step_cost: {error}")
    print(json.dumps(cost._asdict()))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_integer("rows", 32, "of the batch", lower_bound=1)
    flags.DEFINE_integer("length", 64, "tokens of a row, on each side", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "in which the steps are timed", lower_bound=1)
    flags.DEFINE_integer("num_cpu_devices", 0, "made of the CPU; 0: the devices there are")
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=functools.partial(parse_flags, "step_cost"))
