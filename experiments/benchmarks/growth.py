"""How cost grows with one number at a time, all others held.

    python -m experiments.benchmarks --parts=growth
    python -m experiments.benchmarks --parts=growth --points=depth,sentences=100

Each point is a process of its own, with nothing compiled before. Along the first four axes it
trains `tiny` (d_model 128) on batches of 2,048 tokens on each side, in rows of 64 unless the length
grows; depth is N, the layers of encoder and decoder each. Along the last axis, `t2t-jax translate`
reads sentences from a pipe and writes to one, with a model of random weights and short outputs.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from experiments.benchmarks.results import Measured
from experiments.benchmarks.step import AS_IS, Cost, Shape, peak_memory_mib
from experiments.launchers.event import last_line

_COMMAND = [sys.executable, "-m", "t2t_jax.cli.main"]
PART = "growth"  # its name in results
_TOKENS = 2_048  # of a batch, on each side
_LENGTH = 64
# The model that translates: at most four tokens per sentence, of which the last is the end.
_TRANSLATES = {
    "data.train_pairs": 1_000,
    "data.vocabulary_size": 500,
    "data.num_buckets": 1,
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.d_k": 8,
    "model.d_v": 8,
    "training.steps": 2,
    "training.warmup_steps": 1,
    "decoding.beam_size": 1,
    "decoding.max_tokens": 4,
}
_DISTINCT = 10_000  # sentences; then they repeat
_LINES_BETWEEN_LOOKS = 500  # at the memory


class Axis(NamedTuple):
    """What grows."""

    name: str  # in words
    values: Sequence[int]
    flags: Callable[[int], Sequence[str]] | None  # of `step`; None for translation


AXES = {
    "length": Axis(
        f"tokens in a row, {_TOKENS:,} in a batch",
        [64, 128, 256, 512, 1_024, 2_048],
        lambda length: _batch(length),
    ),
    "vocabulary": Axis(
        "rows of the embedding",
        [8_000, 16_000, 32_000, 64_000, 128_000],
        lambda rows: [*_batch(_LENGTH), f"--config.model.vocabulary_rows={rows}"],
    ),
    "depth": Axis(
        "layers of encoder and decoder each",
        [6, 12, 24, 48],
        lambda n: [
            *_batch(_LENGTH),
            *(f"--config.model.num_{side}_layers={n}" for side in ("encoder", "decoder")),
        ],
    ),
    "devices": Axis(
        "devices made of one CPU, which share a batch",
        [1, 2, 4, 8],
        lambda number: [*_batch(_LENGTH), f"--num_cpu_devices={number}"],
    ),
    "sentences": Axis("sentences to translate", [10**power for power in range(2, 7)], None),
}
POINTS = [f"{name}={value}" for name, axis in AXES.items() for value in axis.values]


def place(point: str) -> tuple[str, int]:
    """The axis of a point, and its value there."""
    name, _, value = point.partition("=")
    return name, int(value)


def chosen(given: Sequence[str]) -> list[str]:
    """The given points, and all points of the given axes."""
    return [point for point in POINTS if point in given or place(point)[0] in given]


def measure(point: str, rounds: int) -> list[Measured]:
    """The costs at a point.

    Raises:
      ValueError: a process failed; the message has the end of its output.
    """
    name, value = place(point)
    flags = AXES[name].flags
    if flags is not None:
        return _step([*flags(value), f"--rounds={rounds}"])
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        _train(run)
        return translated(run, value)


def _batch(length: int) -> list[str]:
    return [f"--shape={Shape(_TOKENS // length, length, length)}"]


def _step(flags: Sequence[str]) -> list[Measured]:
    command = [sys.executable, "-m", "experiments.benchmarks.step"]
    done = subprocess.run(
        [*command, "--config=configs/tiny.py", *flags], capture_output=True, text=True
    )
    if done.returncode:
        raise ValueError(f"step {' '.join(flags)} failed: {done.stderr.strip()[-500:]}")
    cost = Cost(**json.loads(done.stdout.splitlines()[-1])["costs"][AS_IS])
    return [
        Measured("step", "ms", [1e3 * each for each in cost.step_seconds]),
        Measured("rate", "tokens/s", cost.tokens_per_second),
        Measured("first state", "s", [cost.state_seconds]),
        Measured("compilation", "s", [cost.compile_seconds]),
        Measured("peak memory", "MiB", [cost.peak_memory_mib]),
    ]


def translated(run: Path, number: int) -> list[Measured]:
    """The costs of `t2t-jax translate` with a run, for `number` sentences of the grammar.

    Raises:
      ValueError: it failed, or wrote another number of lines.
    """
    from t2t_jax.data.corpora.grammar import embedded_pairs

    lines = [f"{source}\n" for source, _ in embedded_pairs("train", min(number, _DISTINCT), 0)]
    sentences = itertools.islice(itertools.cycle(lines), number)
    first = peak = 0.0
    count = 0
    started = time.perf_counter()
    with (
        _log(run).open("w") as errors,
        subprocess.Popen(
            [*_COMMAND, "translate", f"--workdir={run}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(run),
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        writer = threading.Thread(target=_write, args=(process.stdin, sentences))
        writer.start()
        for count, _ in enumerate(process.stdout, 1):
            first = first or time.perf_counter() - started
            if count % _LINES_BETWEEN_LOOKS == 1:
                peak = max(peak, peak_memory_mib(process.pid))
        writer.join()
    seconds = time.perf_counter() - started
    if process.returncode or count != number:
        raise ValueError(f"{count} of {number} lines translated: {last_line(_log(run))}")
    return [
        Measured("whole command", "s", [seconds]),
        Measured("rate", "sentences/s", [number / seconds]),
        Measured("first line", "s", [first]),
        Measured("peak memory", "MiB", [peak]),
    ]


def _train(run: Path) -> None:
    """Trains a model that has learned nothing."""
    flags = [f"--config.{key}={value}" for key, value in _TRANSLATES.items()]
    command = [*_COMMAND, "train", "--config=configs/tiny.py", f"--workdir={run}", *flags]
    with _log(run).open("w") as errors:
        done = subprocess.run(command, stderr=errors, env=_environment(run))
    if done.returncode:
        raise ValueError(f"a model to translate with cannot be made: {last_line(_log(run))}")


def _write(pipe: IO[bytes], lines: Iterable[str]) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:  # the reader says why it ended
        pipe.writelines(line.encode() for line in lines)


def _log(run: Path) -> Path:
    return run.with_suffix(".log")


def _environment(run: Path) -> dict[str, str]:
    """The environment, with a cache of its own: nothing prepared or compiled elsewhere is found."""
    return os.environ | {"T2T_JAX_CACHE": str(run.with_suffix(".cache"))}
