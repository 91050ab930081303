"""Runs on this machine: some processes at a time, each with its share of the cores."""

import glob
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments import record

_POLL_SECONDS = 0.2
# A run that is asked to stop saves its state first, which takes a large model a while.
_GRACE_SECONDS = 60.0

# On Linux, memory in large pages: a training step on the CPU is a tenth faster (docs/LOG.md).
FASTER_ALLOCATION = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# What the drivers of GPUs and TPUs put there. Asking jax would take the accelerator's memory.
_ACCELERATOR_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*", "/dev/vfio/[0-9]*")


class Event(NamedTuple):
    """Something that happened to a run."""

    directory: Path
    kind: str  # "started" | "finished" | "failed"
    seconds: float  # since it started
    reason: str = ""  # of a failure


class _Running(NamedTuple):
    directory: Path
    process: subprocess.Popen
    start: float
    slot: int


def default_parallel(cores_per_run: int = 2) -> int:
    """Runs at a time: one on an accelerator, which it fills; else as many as the cores allow."""
    on_cpu = os.environ.get("JAX_PLATFORMS") == "cpu"
    if not on_cpu and any(glob.glob(pattern) for pattern in _ACCELERATOR_FILES):
        return 1
    return max(1, len(_cores()) // cores_per_run)


def launch(
    directories: Sequence[Path],
    parallel: int,
    command: Sequence[str] = (sys.executable, "-m", "experiments.run"),
) -> Generator[Event, None, None]:
    """Runs `command DIRECTORY` for each, `parallel` at a time, its output in DIRECTORY/log.txt.

    A run that fails does not stop the others. Closing the iterator, or an exception such as
    KeyboardInterrupt inside it, ends the processes that are still running.

    Raises:
      ValueError: `parallel` is not positive.
    """
    if parallel < 1:
        raise ValueError(f"parallel={parallel} runs at a time; at least 1 is needed")
    return _launch(directories, parallel, command)


def _launch(
    directories: Sequence[Path], parallel: int, command: Sequence[str]
) -> Generator[Event, None, None]:
    waiting = list(directories)
    free_slots = list(range(min(parallel, len(waiting))))
    shares = _core_shares(len(free_slots))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and free_slots:
                slot = free_slots.pop(0)
                started = _start(waiting.pop(0), command, slot, shares[slot])
                running.append(started)
                yield Event(started.directory, "started", 0.0)
            ended = [one for one in running if one.process.poll() is not None]
            if not ended:
                time.sleep(_POLL_SECONDS)
            for one in ended:
                running.remove(one)
                free_slots.append(one.slot)
                yield _end(one)
    finally:
        _stop([one.process for one in running])


def _start(directory: Path, command: Sequence[str], slot: int, cores: set[int]) -> _Running:
    (directory / record.FAILURE_FILE).unlink(missing_ok=True)
    with open(directory / record.LOG_FILE, "ab") as log:
        process = subprocess.Popen(
            [*command, str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # a Ctrl-C in the terminal reaches them through us alone, and once
            env={**FASTER_ALLOCATION, **os.environ, "PYTHONUNBUFFERED": "1"},
        )
    # From here and not in a preexec_fn, which is unsafe where jax has started threads: at this
    # moment the child is one thread, and its later threads inherit the cores.
    if hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(process.pid, cores)
        except OSError:
            pass  # it has ended already, or the system forbids it: a matter of speed only
    return _Running(directory, process, time.monotonic(), slot)


def _end(one: _Running) -> Event:
    seconds = time.monotonic() - one.start
    if one.process.returncode == 0 and (one.directory / record.RECORD_FILE).exists():
        return Event(one.directory, "finished", seconds)
    return Event(one.directory, "failed", seconds, _reason(one))


def _reason(one: _Running) -> str:
    failure = one.directory / record.FAILURE_FILE
    if failure.exists():
        return str(record.read_json(failure).get("error"))
    code = one.process.returncode
    if code == 0:
        reason = f"it ended without a {record.RECORD_FILE}"
    else:
        reason = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        last_line = _last_line(one.directory / record.LOG_FILE) if code > 0 else ""
        reason += f": {last_line}" if last_line else ""
    # A report made later reads it there; the next try removes it.
    record.write_json(failure, {"error": reason})
    return reason


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _stop(processes: Sequence[subprocess.Popen]) -> None:
    if processes:
        print(f"stopping {len(processes)} runs, which save their state", file=sys.stderr)
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _core_shares(num_slots: int) -> list[set[int]]:
    """Neighbouring cores for each slot; where there are fewer cores than slots they share."""
    cores = _cores()
    shares: list[set[int]] = []
    for slot in range(num_slots):
        first, last = slot * len(cores) // num_slots, (slot + 1) * len(cores) // num_slots
        shares.append(set(cores[first:last]) or {cores[slot % len(cores)]})
    return shares
