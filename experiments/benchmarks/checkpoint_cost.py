r"""What checkpoints cost training: seconds it waits for one, and the share of checksums in them.

    python -m experiments.benchmarks.checkpoint_cost --config=configs/multi30k.py \
      --config.data.directory=DIR

Steps on full batches, checksums and checkpoints take turns on one state; the median of the rounds
counts. Shares are relative to the steps between two of the config's checkpoints.
"""

import dataclasses
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags

_ROUNDS, _STEPS_A_ROUND = 5, 2
_LENGTH = 16  # tokens of a sentence


def measure(config: Any, rounds: int = _ROUNDS) -> dict[str, float]:
    """Seconds of each, and their shares of training in percent.

    Raises:
      ValueError: the config is wrong, or saves checkpoints by the clock.
    """
    import jax  # here, like other heavy libraries: --help is fast

    from t2t_jax.compilation import compile_init, compile_train_step
    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.devices import make_devices
    from t2t_jax.runs.sections import read_sections
    from t2t_jax.runs.steps import state_and_step
    from t2t_jax.training.checkpoint import Checkpoints
    from t2t_jax.training.checksums import checksums

    sections = read_sections(config)
    training = sections.training
    if training.checkpoint_every_minutes:
        raise ValueError("training.checkpoint_every_minutes must be 0: shares are of steps")
    devices = make_devices(**dataclasses.asdict(sections.devices))
    make_state, uncompiled = state_and_step(sections, devices)
    state = compile_init(devices, make_state, 0)
    train_step = compile_train_step(devices, uncompiled, state)
    shape = (2, config.data.target_tokens_per_batch // _LENGTH, _LENGTH)
    ids = np.random.default_rng(0).integers(4, sections.model.vocabulary_rows, shape)
    batch = devices.put_batch(Batch(*ids.astype(np.int32)))
    taken: dict[str, list[float]] = {"step": [], "checksums": [], "save": []}

    def timed(name: str, run: Callable[[], object]) -> None:
        started = time.perf_counter()
        run()
        taken[name].append(time.perf_counter() - started)

    def steps() -> None:
        nonlocal state
        for _ in range(_STEPS_A_ROUND):
            state, _ = train_step(state, batch)
        jax.block_until_ready(state)

    with tempfile.TemporaryDirectory() as directory:
        with Checkpoints(Path(directory), identity={}, keep=2) as checkpoints:
            for _ in range(rounds + 1):
                timed("step", steps)
                timed("checksums", lambda: checksums(state))
                timed("save", lambda: checkpoints.save(state))
                checkpoints.wait()
    seconds = {name: statistics.median(each[1:]) for name, each in taken.items()}
    seconds["step"] /= _STEPS_A_ROUND
    between = seconds["step"] * training.checkpoint_every_steps
    return {
        **{f"seconds_of_{name}": value for name, value in seconds.items()},
        "percent_for_checksums": 100 * seconds["checksums"] / between,
        "percent_for_saving": 100 * seconds["save"] / between,
    }


def _main(_: list[str]) -> None:
    try:
        found = measure(flags.FLAGS.config)
    except (TypeError, ValueError) as error:
        sys.exit(f"checkpoint_cost: {error}")
    print(json.dumps({name: round(value, 4) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file of configs/")
    flags.mark_flag_as_required("config")
    app.run(_main, flags_parser=functools.partial(parse_flags, "checkpoint_cost"))
