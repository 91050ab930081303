"""One run as a process of this machine: started, waited for, asked to stop."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.run import presence, record

# A run that is asked to stop saves its state first, which takes a large model a while.
GRACE_SECONDS = 60.0
POLL_SECONDS = 0.2

# On Linux, memory in large pages: a training step on the CPU is a tenth faster (docs/LOG.md).
FASTER_ALLOCATION = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

# JAX takes this share of a GPU's memory at once; several runs on one GPU divide it.
_GPU_MEMORY_SHARE = 0.75
_MEMORY_VARIABLE = "XLA_CLIENT_MEM_FRACTION"
_MEMORY_VARIABLES = (_MEMORY_VARIABLE, "XLA_PYTHON_CLIENT_MEM_FRACTION")  # the old name is one too


def gpu_memory(share: float) -> dict[str, str]:
    """The environment of a run with this share of a GPU, unless the person has set the memory."""
    if share >= 1 or any(name in os.environ for name in _MEMORY_VARIABLES):
        return {}
    return {_MEMORY_VARIABLE: f"{_GPU_MEMORY_SHARE * share:.2f}"}


def start(
    directory: Path,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    code: str | None = None,
    host: int = 0,
) -> subprocess.Popen:
    """Starts `command DIRECTORY`, its output at the end of DIRECTORY/log.txt.

    The process is killed when the thread that started it ends.

    Args:
      environment: what it has besides that of this process.
      code: the directory to start it in, if not this process's own.
      host: its number among those that do the run together. The first alone, which is 0, speaks for
        the run; the output of the others goes to DIRECTORY/log-HOST.txt.
    """
    log_file = directory / record.LOG_FILE
    if host:
        log_file = log_file.with_stem(f"{log_file.stem}-{host}")
    else:
        (directory / record.FAILURE_FILE).unlink(missing_ok=True)
        presence.announce(directory)
    with open(log_file, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "experiments.launchers.tethered", *command, str(directory)],
            cwd=code,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # a Ctrl-C in the terminal reaches them through us alone, and once
            env={
                **FASTER_ALLOCATION,
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                **(environment or {}),
            },
        )


def wait(process: subprocess.Popen) -> int:
    """Its exit code. An exception meanwhile stops it, and goes on when it has saved its state."""
    try:
        # Not process.wait(): an interrupt that is no signal, as Ray sends it, would have to wait.
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
    except BaseException:
        while process.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # asked again: it is saving already
                stop([process])
        raise
    return process.returncode


def stop(processes: Sequence[subprocess.Popen]) -> None:
    """Asks them to stop, and kills those that have not after the time of grace."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
