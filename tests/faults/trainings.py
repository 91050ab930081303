"""Trainings of a small model by the command itself, and an undisturbed one."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from t2t_jax.json_files import read_json
from t2t_jax.training.goodput import Goodput
from t2t_jax.training.metrics_file import read_metrics
from tests.data.text_corpus import sentence_pairs, write_pairs
from tests.faults.damage import same_bits
from tests.runs.configs import smallest_config
from tests.test_hosts import write_config

REPOSITORY = Path(__file__).parents[2]
_PATIENCE = 300.0  # seconds, of a machine that does other work beside
_ITEMS = ("params", "progress")
# What is not the same twice.
_TIMES = {"seconds", "seconds_to_first_step", "target_tokens_per_second", *Goodput().shares()}


class Moment(NamedTuple):
    """When something happens to a training: so long after it has come so far."""

    after: str  # "start": of the process; "step": its first one; "save": it begins to write
    seconds: float

    @classmethod
    def drawn(cls, draws: random.Random, seconds_to_train: float) -> "Moment":
        """A third of them in each part, of which the writing is the shortest."""
        after = draws.choice(("start", "step", "save"))
        longest = {"start": 4.0, "step": seconds_to_train, "save": 0.2}[after]
        return cls(after, round(draws.uniform(0, longest), 4))


class Trainings:
    """A corpus, a config of 48 steps with a checkpoint every sixth, and what comes of them.

    Raises:
      RuntimeError: the run that nothing disturbs does not come to its end.
    """

    STEPS = 48

    def __init__(self, directory: Path) -> None:
        pairs = sentence_pairs(120)
        for stem, own in (("train", pairs[:80]), ("dev", pairs[80:97]), ("test", pairs[97:])):
            write_pairs(directory, stem, own)
        changes = {
            "data.source": "text",
            "data.directory": str(directory),
            "data.vocabulary_size": 60,
            "data.num_buckets": 1,
            "model.vocabulary_rows": 64,
            # The gradient of a key's bias is rounding noise, which Adam makes full steps of.
            "model.attention_biases": False,
            "training.schedule": "peak",
            "training.steps": self.STEPS,
            # Of every step, so that one more where a run was stopped changes no entry.
            "training.log_every_steps": 1,
            "training.evaluate_every_steps": 16,
            "training.checkpoint_every_steps": 6,
            "training.keep_checkpoints": 3,
        }
        config = smallest_config(directory / "cache", **changes)
        self.config = write_config(directory / "config.py", config)
        self._programs = directory / "programs"
        self.undisturbed = directory / "undisturbed"
        self.finish(self.undisturbed)
        self._expected = {
            (step, item): arrays(self.undisturbed, step, item)
            for step in _steps(self.undisturbed)
            for item in _ITEMS
        }

    def start(
        self, workdir: Path, *flags: str, devices: int = 1, verb: str = "train"
    ) -> subprocess.Popen:
        """Starts `t2t-jax train`, or another verb, with `flags`, on so many devices."""
        flags = (f"--config={self.config}", *flags)
        if verb == "train":
            flags = (f"--workdir={workdir}", *flags)
        return self.start_python("-m", "t2t_jax.cli.main", verb, *flags, devices=devices)

    def start_python(self, *arguments: str, devices: int = 1) -> subprocess.Popen:
        """Starts Python, with the programs that earlier processes have compiled."""
        xla_flags = os.environ.get("XLA_FLAGS", "")
        settings = {
            "T2T_JAX_CACHE": str(self.config.parent / "cache"),
            "JAX_PLATFORMS": "cpu",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
            "JAX_COMPILATION_CACHE_DIR": str(self._programs / str(devices)),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "XLA_FLAGS": f"{xla_flags} --xla_force_host_platform_device_count={devices}",
        }
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, workdir: Path, *flags: str, devices: int = 1) -> None:
        """Trains to the end.

        Raises:
          RuntimeError: the command fails; says how.
        """
        ended(self.start(workdir, *flags, devices=devices))

    def disturb(self, process: subprocess.Popen, workdir: Path, moment: Moment) -> bool:
        """Waits for the moment; False if the process has ended before it."""
        started = _num_starts(workdir)
        saves = set(_half_written(workdir))
        deadline = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if (
                moment.after == "start"
                or (moment.after == "step" and _num_starts(workdir) != started)
                or (moment.after == "save" and set(_half_written(workdir)) - saves)
            ):
                time.sleep(moment.seconds)
                return process.poll() is None
            time.sleep(0.002)
        return False

    def differences(self, workdir: Path) -> list[str]:
        """In what a run has ended otherwise than the one that nothing has disturbed."""
        ours, theirs = _steps(workdir), _steps(self.undisturbed)
        found = [] if ours == theirs else [f"checkpoints {ours}, not {theirs}"]
        for step in set(ours) & set(theirs):
            for item in _ITEMS:
                both = (arrays(workdir, step, item), self._expected[step, item])
                if not all(jax.tree.leaves(jax.tree.map(same_bits, *both))):
                    found.append(f"{item} of step {step}")
        if measured(workdir) != measured(self.undisturbed):
            found.append("metrics")
        if _facts(workdir) != _facts(self.undisturbed):
            found.append("training.json")
        if left := _half_written(workdir):
            found.append(f"left behind: {left}")
        return found


def ended(process: subprocess.Popen) -> str:
    """What a process that must succeed has printed.

    Raises:
      RuntimeError: it fails; says how.
    """
    try:
        output, errors = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise RuntimeError(f"no end after {_PATIENCE} s") from None
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {errors[-2_000:]}")
    return output


def killed(process: subprocess.Popen, number: int) -> str:
    """Sends a signal; what the process had printed of errors. One that does not stop is killed."""
    process.send_signal(number)
    try:
        return process.communicate(timeout=_PATIENCE)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return "Traceback: it did not stop"


def arrays(workdir: Path, step: int, item: str) -> dict:
    """The arrays of a checkpoint as they lie there, compared with no checksum."""
    directory = (workdir / "checkpoints" / str(step) / item).resolve()
    return jax.tree.map(np.asarray, ocp.StandardCheckpointer().restore(directory))


def measured(workdir: Path) -> list[dict]:
    """The entries of the metrics file but for starts and times."""
    return [
        {name: value for name, value in entry.items() if name not in _TIMES}
        for entry in read_metrics(workdir / "metrics.jsonl")
        if entry["split"] != "start"
    ]


def _facts(workdir: Path) -> dict:
    facts = read_json(workdir / "training.json")
    return {name: value for name, value in facts.items() if name not in _TIMES}


def _steps(workdir: Path) -> list[int]:
    names = (path.name for path in (workdir / "checkpoints").iterdir())
    return sorted(int(name) for name in names if name.isdigit())


def _half_written(workdir: Path) -> list[str]:
    directory = workdir / "checkpoints"
    names = os.listdir(directory) if directory.exists() else []
    return sorted(name for name in names if not name.isdigit())


def _num_starts(workdir: Path) -> int:
    path = workdir / "metrics.jsonl"
    return path.read_bytes().count(b'"start"') if path.exists() else 0


def half_written(workdir: Path) -> bool:
    """Whether a checkpoint was being written when the run ended."""
    return bool(_half_written(workdir))
