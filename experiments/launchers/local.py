"""Runs on this machine: some processes at a time, each with its share of cores and GPUs."""

import glob
import os
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from experiments.launchers import process
from experiments.launchers.event import COMMAND, Event, ended
from experiments.run import presence
from experiments.run.plain_text import counted
from t2t_jax.cores import own_cores

# What the drivers put there. Asking jax would take the accelerator's memory.
_GPU_FILES = "/dev/nvidia[0-9]*"
_OTHER_ACCELERATOR_FILES = ("/dev/kfd", "/dev/accel*", "/dev/vfio/[0-9]*")


class _Running(NamedTuple):
    directory: Path
    process: Popen
    start: float
    slot: int


class _Share(NamedTuple):
    """What one of the runs at a time has for itself."""

    cores: set[int]
    environment: dict[str, str]


def default_parallel(cores_per_run: int = 2) -> int:
    """Runs at a time: one for each GPU; one on another accelerator; else as the cores allow."""
    gpus = _gpus()
    if gpus:
        return len(gpus)
    if not _is_on_cpu() and any(glob.glob(pattern) for pattern in _OTHER_ACCELERATOR_FILES):
        return 1
    return max(1, len(own_cores()) // cores_per_run)


def parallel_on_gpus(runs_per_gpu: int) -> int:
    """Runs at a time where each GPU here has so many, for runs too small to fill one.

    Raises:
      ValueError: there is no GPU.
    """
    gpus = _gpus()
    if not gpus:
        raise ValueError(f"--runs_per_gpu={runs_per_gpu}: no GPU is here, or none is to be used")
    return runs_per_gpu * len(gpus)


def launch(
    directories: Sequence[Path],
    *,
    parallel: int | None = None,
    command: Sequence[str] = COMMAND,
) -> Generator[Event, None, None]:
    """Runs `command DIRECTORY` for each, `parallel` at a time, its output in DIRECTORY/log.txt.

    Raises:
      ValueError: `parallel` is not positive.
    """
    if parallel is None:
        parallel = default_parallel()
    if parallel < 1:
        raise ValueError(f"parallel={parallel} runs at a time; at least 1 is needed")
    return _launch(directories, parallel, command)


def _launch(
    directories: Sequence[Path], parallel: int, command: Sequence[str]
) -> Generator[Event, None, None]:
    if not directories:
        return
    waiting = list(directories)
    free_slots = list(range(min(parallel, len(waiting))))
    shares = _shares(len(free_slots))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and free_slots:
                slot = free_slots.pop(0)
                started = _start(waiting.pop(0), command, slot, shares[slot])
                running.append(started)
                yield Event(started.directory, "started", 0.0)
            done = [one for one in running if one.process.poll() is not None]
            if not done:
                time.sleep(process.POLL_SECONDS)
            for one in done:
                running.remove(one)
                free_slots.append(one.slot)
                seconds = time.monotonic() - one.start
                yield ended(one.directory, seconds, one.process.returncode)
    finally:
        if running:
            print(
                f"stopping {counted(len(running), 'run')}; what has been learned is saved",
                file=sys.stderr,
            )
        process.stop([one.process for one in running])
        for one in running:
            presence.clear(one.directory)


def _start(directory: Path, command: Sequence[str], slot: int, share: _Share) -> _Running:
    started = process.start(directory, command, share.environment)
    # From here and not in a preexec_fn, which is unsafe where jax has started threads: at this
    # moment the child is one thread, and its later threads inherit the cores.
    if hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(started.pid, share.cores)
        except OSError:
            pass  # it has ended already, or the system forbids it: a matter of speed only
    return _Running(directory, started, time.monotonic(), slot)


def _is_on_cpu() -> bool:
    return os.environ.get("JAX_PLATFORMS") == "cpu"


def _gpus() -> list[str]:
    """The GPUs that a run may use, as CUDA_VISIBLE_DEVICES names them."""
    if _is_on_cpu():
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    # CUDA counts those that are here from 0, also in a container that has only the last of them.
    return [str(number) for number in range(len(glob.glob(_GPU_FILES)))]


def _shares(num_slots: int) -> list[_Share]:
    """Neighbouring cores and GPUs for each slot; where there are fewer than slots they share."""
    cores, gpus = _parts(own_cores(), num_slots), _parts(_gpus(), num_slots)
    return [_Share(set(cores[slot]), _gpu_environment(gpus, slot)) for slot in range(num_slots)]


def _gpu_environment(gpus: list[list[str]], slot: int) -> dict[str, str]:
    if not gpus[slot]:
        return {}
    num_sharing = sum(other == gpus[slot] for other in gpus)
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus[slot])} | process.gpu_memory(1 / num_sharing)


def _parts(things: list, num_parts: int) -> list[list]:
    """The list cut into parts as equal as can be, of one thing at least, if there is one."""
    if not things:
        return [[] for _ in range(num_parts)]
    firsts = [part * len(things) // num_parts for part in range(num_parts)]
    lasts = [*firsts[1:], len(things)]
    return [things[first : max(last, first + 1)] for first, last in zip(firsts, lasts, strict=True)]
