"""One run as a process on this machine: starts it, waits for it, stops it."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.run import presence, record

# A run asked to stop saves its state first, which takes a while for a large model.
GRACE_SECONDS = 60.0
POLL_SECONDS = 0.2

# Before a command: it ends with this process.
TETHERED = (sys.executable, "-m", "experiments.launchers.tethered")

# On Linux, memory in large pages: a training step on the CPU is a tenth faster (docs/LOG.md).
FASTER_ALLOCATION = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# JAX preallocates this share of a GPU's memory; several runs on one GPU divide it.
_GPU_MEMORY_SHARE = 0.75
_MEMORY_VARIABLE = "XLA_CLIENT_MEM_FRACTION"
_MEMORY_VARIABLES = (_MEMORY_VARIABLE, "XLA_PYTHON_CLIENT_MEM_FRACTION")  # the old name still works


def gpu_memory(share: float) -> dict[str, str]:
    """The environment of a run with this share of a GPU; empty if the user has set the memory."""
    if share >= 1 or any(name in os.environ for name in _MEMORY_VARIABLES):
        return {}
    return {_MEMORY_VARIABLE: f"{_GPU_MEMORY_SHARE * share:.2f}"}


def start(
    directory: Path,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    code: str | None = None,
    host: int = 0,
    url: str = "",
) -> subprocess.Popen:
    """Starts `command DIRECTORY`, its output appended to DIRECTORY/log.txt.

    The process is killed when the thread that started it ends.

    Args:
      environment: variables to add to this process's.
      code: the directory to start it in, if not this process's own.
      host: its number among the hosts that do the run together. Only the first, 0, speaks for the
        run; the output of the others goes to DIRECTORY/log-HOST.txt.
      url: of the run, if it is in a bucket and has only its output in DIRECTORY.
    """
    if host == 0 and not url:
        (directory / record.FAILURE_FILE).unlink(missing_ok=True)
        presence.announce(directory)
    with open(directory / log_name(host), "ab") as log:
        return subprocess.Popen(
            [*TETHERED, *command, url or str(directory)],
            cwd=code,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C in the terminal reaches them only through us, and once
            env={
                **FASTER_ALLOCATION,
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                **(environment or {}),
            },
        )


def log_name(host: int) -> str:
    """The file with the output of a run's process on this host."""
    return f"log-{host}.txt" if host else record.LOG_FILE


def wait(process: subprocess.Popen) -> int:
    """Its exit code. An exception meanwhile stops it, and is re-raised once its state is saved."""
    try:
        # Not process.wait(): Ray's interrupt, which is not a signal, would have to wait.
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
    except BaseException:
        while process.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # a repeated request: it is saving already
                stop([process])
        raise
    return process.returncode


def stop(processes: Sequence[subprocess.Popen]) -> None:
    """Asks them to stop, and kills those still running after the grace period."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
