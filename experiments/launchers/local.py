"""Runs on this machine: some processes at a time, each with its share of cores, GPUs, TPU chips.

TPU: https://cloud.google.com/tpu/docs/ and the environment variables that libtpu reads.
"""

import glob
import os
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from experiments.launchers import process
from experiments.launchers.event import COMMAND, Event, ended, tell
from experiments.run import presence
from experiments.run.plain_text import counted
from t2t_jax.cores import own_cores

# Device files of the drivers. Asking jax would take the accelerator's memory.
_GPU_FILES = "/dev/nvidia[0-9]*"
_TPU_FILES = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")  # up to v4, and later ones
# AMD; TPUs that cannot be counted; GPUs under WSL2.
_OTHER_ACCELERATOR_FILES = ("/dev/kfd", "/dev/accel*", "/dev/vfio/[0-9]*", "/dev/dxg")

# libtpu gives all chips of a host to one process, and refuses a second, unless these variables say
# that the process is alone, and which chip it has.
_TPU_CHIPS = "TPU_VISIBLE_CHIPS"
_ONE_CHIP = {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1", "TPU_PROCESS_BOUNDS": "1,1,1"}


class _Running(NamedTuple):
    directory: Path
    process: Popen
    start: float
    slot: int


class Share(NamedTuple):
    """The resources of one of the concurrent runs."""

    cores: set[int]
    environment: dict[str, str]

    def limit(self, process: Popen) -> None:
        """Keeps a process that has just started to these cores."""
        # Not in a preexec_fn, which is unsafe once jax has started threads. Right now the child has
        # one thread, and its later threads inherit the cores.
        if hasattr(os, "sched_setaffinity"):
            try:
                os.sched_setaffinity(process.pid, self.cores)
            except OSError:
                pass  # it has ended already, or the system forbids it: this only affects speed


def default_parallel(cores_per_run: int = 2) -> int:
    """Runs at a time: one per GPU or TPU chip; one on other accelerators; else by cores."""
    if things := _gpus() or _tpu_chips():
        return len(things)
    if not _is_on_cpu() and any(glob.glob(pattern) for pattern in _OTHER_ACCELERATOR_FILES):
        return 1
    return max(1, len(own_cores()) // cores_per_run)


def parallel_on_gpus(runs_per_gpu: int) -> int:
    """Runs at a time with `runs_per_gpu` on each GPU, for runs too small to fill one.

    Raises:
      ValueError: there is no GPU.
    """
    gpus = _gpus()
    if not gpus:
        raise ValueError(f"--runs_per_gpu={runs_per_gpu}: no GPU is here, or none is to be used")
    return runs_per_gpu * len(gpus)


def share_of_one(num_runs: int, parallel: int | None = None) -> Share:
    """What one of `num_runs` gets if `launch` does them.

    Raises:
      ValueError: as `launch`.
    """
    return _shares(max(1, min(num_runs, _checked(parallel))))[0]


def launch(
    directories: Sequence[Path],
    *,
    parallel: int | None = None,
    command: Sequence[str] = COMMAND,
) -> Generator[Event, None, None]:
    """Runs `command DIRECTORY` for each, `parallel` at a time, its output in DIRECTORY/log.txt.

    Raises:
      ValueError: `parallel` is not positive, or larger than the number of TPU chips.
    """
    return _launch(directories, _checked(parallel), command)


def _checked(parallel: int | None) -> int:
    """The runs at a time; raises ValueError if there can never be so many."""
    if parallel is None:
        parallel = default_parallel()
    if parallel < 1:
        raise ValueError(f"parallel={parallel} runs at a time; at least 1 is needed")
    if not _gpus() and 0 < len(chips := _tpu_chips()) < parallel:
        raise ValueError(
            f"parallel={parallel} runs at a time; this host has {counted(len(chips), 'TPU chip')}, "
            "and each chip does one run at a time"
        )
    return parallel


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
            tell(f"stopping {counted(len(running), 'run')}; what has been learned is saved")
        process.stop([one.process for one in running])
        for one in running:
            presence.clear(one.directory)


def _start(directory: Path, command: Sequence[str], slot: int, share: Share) -> _Running:
    started = process.start(directory, command, share.environment)
    share.limit(started)
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
    # CUDA numbers the visible GPUs from 0, even in a container that has only the last of them.
    return [str(number) for number in range(len(glob.glob(_GPU_FILES)))]


def _tpu_chips() -> list[str]:
    """The TPU chips that a run may use, by their numbers on this host."""
    if _is_on_cpu():
        return []
    for name in (_TPU_CHIPS, "TPU_VISIBLE_DEVICES"):  # libtpu goes by the first of them
        if visible := os.environ.get(name):
            return [number.strip() for number in visible.split(",")]
    # Other devices have such files too; a container has only the files of its own chips.
    num_files = sum(len(glob.glob(pattern)) for pattern in _TPU_FILES)
    return [str(number) for number in range(min(num_files, _chips_on_bus() if num_files else 0))]


def _chips_on_bus() -> int:
    # Imported here, so that help need not wait for jax. There is no public name for this count.
    from jax._src import hardware_utils

    return hardware_utils.num_available_tpu_chips_and_device_id()[0]


def _shares(num_slots: int) -> list[Share]:
    """Neighbouring cores and GPUs for each slot, shared if there are fewer than slots.

    On a TPU, each slot has a chip of its own; a single slot has them all.
    """
    cores, gpus = _parts(own_cores(), num_slots), _parts(_gpus(), num_slots)
    environments = [_gpu_environment(gpus, slot) for slot in range(num_slots)]
    if num_slots > 1 and not any(gpus) and (chips := _tpu_chips()):
        environments = [{_TPU_CHIPS: chip, **_ONE_CHIP} for chip in chips[:num_slots]]
    return [
        Share(set(own), environment) for own, environment in zip(cores, environments, strict=True)
    ]


def _gpu_environment(gpus: list[list[str]], slot: int) -> dict[str, str]:
    if not gpus[slot]:
        return {}
    num_sharing = sum(other == gpus[slot] for other in gpus)
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus[slot])} | process.gpu_memory(1 / num_sharing)


def _parts(things: list, num_parts: int) -> list[list]:
    """The list cut into parts as equal as possible, none empty unless the list is."""
    if not things:
        return [[] for _ in range(num_parts)]
    firsts = [part * len(things) // num_parts for part in range(num_parts)]
    lasts = [*firsts[1:], len(things)]
    return [things[first : max(last, first + 1)] for first, last in zip(firsts, lasts, strict=True)]
