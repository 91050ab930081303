r"""How fast a config trains here: time to the first step, target tokens a second, peak memory.

    python -m experiments.benchmarks.speed --config=configs/tiny.py
    python -m experiments.benchmarks.speed --config=configs/multi30k.py --windows=6 \
      --config.data.directory=DIR

Takes the flags of `t2t-jax train`, except --workdir, and trains with the real feed until --windows
log windows are full; the rate is the median of the last three. The corpus is prepared beforehand.
"""

import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from absl import app, flags

from experiments.benchmarks.step import peak_memory_mib
from experiments.launchers.event import last_line
from experiments.launchers.process import FASTER_ALLOCATION
from t2t_jax.cli.command import parse_flags
from t2t_jax.training.metrics_file import read_metrics

RATED_WINDOWS = 3
_POLL_SECONDS = 0.1


class Trained(NamedTuple):
    """The costs of a training."""

    seconds_to_first_step: float
    target_tokens_per_second: list[float]  # of each log window
    peak_memory_mib: float


def measure(
    arguments: list[str],
    workdir: Path,
    num_windows: int,
    environment: Mapping[str, str] | None = None,
) -> Trained:
    """Trains in `workdir` as `t2t-jax train` would, until `num_windows` log entries are written.

    Args:
      environment: variables to add to this process's.

    Raises:
      ValueError: the training ended before that; the message has the last line of its log.
    """
    command = [sys.executable, "-m", "t2t_jax.cli.main"]
    subprocess.run([*command, "prepare", *arguments], check=True)
    started = time.monotonic()
    first_step, entries, peak_memory = None, [], 0.0
    log = workdir.with_suffix(".log")
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "train", *arguments, f"--workdir={workdir}"],
            stderr=errors,
            env={**FASTER_ALLOCATION, **os.environ, **(environment or {})},
        ) as process,
    ):
        while process.poll() is None and (first_step is None or len(_rates(entries)) < num_windows):
            time.sleep(_POLL_SECONDS)
            peak_memory = max(peak_memory, peak_memory_mib(process.pid))
            entries = read_metrics(workdir / "metrics.jsonl")
            if first_step is None and any(entry["split"] == "start" for entry in entries):
                first_step = time.monotonic() - started
        process.send_signal(signal.SIGINT)
        process.wait()  # until it has saved
    rates = _rates(entries)
    if first_step is None or len(rates) < num_windows:
        raise ValueError(f"training ended after {len(rates)} log windows: {last_line(log)}")
    return Trained(first_step, rates, peak_memory)


def _rates(entries: list[dict]) -> list[float]:
    return [entry["target_tokens_per_second"] for entry in entries if entry["split"] == "train"]


def main(argv: list[str]) -> None:
    """Measures."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            measured = measure(argv[1:], Path(directory) / "run", flags.FLAGS.windows)
        except ValueError as error:
            sys.exit(f"speed: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)  # its output says why
    rate = statistics.median(measured.target_tokens_per_second[-RATED_WINDOWS:])
    print(json.dumps(measured._asdict() | {"target_tokens_per_second": rate}, indent=2))


if __name__ == "__main__":
    flags.DEFINE_integer("windows", 6, "log windows to fill", lower_bound=RATED_WINDOWS)
    # Unknown flags are those of `t2t-jax train`.
    app.run(main, flags_parser=functools.partial(parse_flags, "speed", known_only=True))
