"""How long a user waits before anything happens: the time of commands that do very little.

python -m experiments.benchmarks --parts=startup
python -m experiments.benchmarks --parts=startup --workdir=W
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks import speed
from experiments.benchmarks.results import Measured, in_turns
from experiments.benchmarks.sizes import SIZES

_KEPT_RECORDS = Path(__file__).parents[1] / "results" / "table3_tiny_fused"
_VERB = "t2t_jax.cli.main"


def measure(workdir: Path, rounds: int) -> list[Measured]:
    """Seconds of each command; `workdir` holds the run for translation."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        records = directory / "records"
        shutil.copytree(_KEPT_RECORDS, records)
        sweep = "experiments.sweep", "table3", "--base=configs/tiny.py", "--dry_run"
        commands = {
            "t2t-jax --help": _command(_VERB, "--help"),
            "translate of one line": _command(_VERB, "translate", f"--workdir={workdir}"),
            "dry run of table3": _command(*sweep),
            "report of kept records": _command("experiments.report", str(records)),
            "train, first step, cold": lambda: _first_step(directory, is_cold=True),
            "train, first step, programs kept": lambda: _first_step(directory, is_cold=False),
        }
        seconds = in_turns(commands, rounds + 1)  # the first round fills the compilation cache
    return [Measured(what, "s", taken[1:]) for what, taken in seconds.items()]


def _command(*command: str) -> Callable[[], float]:
    """A function that runs a module with one line of input and returns its seconds."""

    def seconds() -> float:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", *command], input="A dog.\n", capture_output=True, text=True
        )
        if done.returncode:
            raise ValueError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return time.perf_counter() - started

    return seconds


def _first_step(directory: Path, *, is_cold: bool) -> float:
    """Seconds from command to first step of `tiny`; cold means with nothing compiled before."""
    programs, run = directory / "programs", directory / "run"
    for gone in (run, *([programs] if is_cold else [])):
        shutil.rmtree(gone, ignore_errors=True)
    arguments = [*SIZES["tiny"].train_flags(""), f"--config.data.cache={directory / 'data'}"]
    environment = {"T2T_JAX_CACHE": str(programs)}
    return speed.measure(arguments, run, 0, environment).seconds_to_first_step
