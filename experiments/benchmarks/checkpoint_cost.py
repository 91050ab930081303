"""What checkpoints cost training: the seconds it waits for one, and the share of checksums in them.

    python -m experiments.benchmarks.checkpoint_cost --config=configs/multi30k.py

Steps on full batches, checksums and checkpoints take turns on one state; the median of the rounds
counts. Shares are relative to the steps between two of the config's checkpoints.
"""

import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.config import TrainingConfig

_ROUNDS, _STEPS_A_ROUND = 5, 2
_LENGTH = 16  # tokens of a sentence


def measure(config: Any, rounds: int = _ROUNDS) -> dict[str, float]:
    """Seconds of each, and their shares of training in percent."""
    import jax  # here, like other heavy libraries: --help is fast

    from t2t_jax.data.batches.batches import Batch
    from t2t_jax.model.families import make_model
    from t2t_jax.training.checkpoint import Checkpoints
    from t2t_jax.training.checksums import checksums
    from t2t_jax.training.loss import make_loss_fn
    from t2t_jax.training.optimizer import make_optimizer
    from t2t_jax.training.step import make_train_state, make_train_step

    model_config, training = TransformerConfig(**config.model), TrainingConfig(**config.training)
    model, optimizer = make_model(model_config), make_optimizer(training, model_config.d_model)
    loss_fn = make_loss_fn(model, training.label_smoothing, training.loss_chunk_tokens)
    train_step = jax.jit(make_train_step(loss_fn, optimizer), donate_argnums=0)
    state = jax.jit(lambda: make_train_state(model, optimizer, 0))()
    shape = (2, config.data.target_tokens_per_batch // _LENGTH, _LENGTH)
    ids = np.random.default_rng(0).integers(4, model_config.vocabulary_rows, shape)
    batch = jax.device_put(Batch(*ids.astype(np.int32)))
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
    found = measure(flags.FLAGS.config)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file of configs/")
    flags.mark_flag_as_required("config")
    app.run(_main, flags_parser=functools.partial(parse_flags, "checkpoint_cost"))
