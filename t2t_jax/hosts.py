"""Several processes, one per host, that work on one job together.

Each runs the same command. All compute; only the first prints and writes records.
"""

import atexit
import contextlib
import ctypes
import faulthandler
import hashlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import jax
import numpy as np
from jax._src.distributed import global_state  # its numbers have no public API
from jax.experimental import multihost_utils

from t2t_jax import clusters, memory

Result = TypeVar("Result")

# How long a finished host waits for the others.
_SHUTDOWN_SECONDS = 30
_SECONDS_FOR_THE_OTHERS = 2

_ENDED = (
    "t2t-jax: this process has ended before it was done: another host has stopped or cannot be "
    "reached, or somebody killed it; the same command on all hosts goes on from the last checkpoint"
)
# Waits for the end of its standard input; any input before that is a goodbye.
_WITNESS = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"
_GOODBYE = b"goodbye"
_witness: subprocess.Popen | None = None
# JAX's SIGTERM handler, which notifies all hosts.
_notify: Callable[[int], None] | None = None
_questions = itertools.count(1)
_stops_together = False


def join(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    detect: bool | None = None,
) -> None:
    """Joins the other processes of this job, if any; call it before anything is computed.

    If given, the three values are used. Otherwise Cloud TPU, the manifest of a Kubernetes job or
    SLURM is asked, if `detect` says that there are others, or by default if the environment or the
    machine does.

    Args:
      coordinator: address and port of the first process, such as 10.0.0.1:1234.
      num_processes: number of processes.
      process_id: number of this process, from 0.

    Raises:
      ValueError: only some of the three are given, a number is out of range, or the others cannot
        be found.
    """
    given = (coordinator, num_processes, process_id)
    detection = None
    if any(value is not None for value in given):
        if coordinator is None or num_processes is None or process_id is None:
            raise ValueError("--coordinator, --num_processes and --process_id go together")
        if not re.fullmatch(r".+:\d+", coordinator):
            raise ValueError(f"--coordinator={coordinator} must be ADDRESS:PORT")
        if num_processes < 1:
            raise ValueError(f"--num_processes={num_processes} must be at least 1")
        if not 0 <= process_id < num_processes:
            raise ValueError(
                f"--process_id={process_id} must be from 0 to {num_processes - 1}, as "
                f"--num_processes={num_processes}"
            )
    elif detect is False:
        return
    elif not clusters.tpu_has_others():
        if (place := clusters.place_in_kubernetes()) is not None:
            if place.num_processes == 1:
                return
            coordinator, num_processes, process_id = place
            detection = "deactivate"  # JAX would ask the cluster itself
        elif not detect and not clusters.slurm_has_others():
            return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", True)
    _keep_output_clean()
    try:
        with _notice_remembered():
            jax.distributed.initialize(
                coordinator,
                num_processes,
                process_id,
                clusters.local_device_ids(),
                detection,
                shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
            )
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the other processes of this job were not found: {error}; to run this process "
            "alone, give t2t-jax --nodistributed"
        ) from error
    _have_a_witness()


def are_several() -> bool:
    """Whether this process has joined others. Unlike JAX's count, it initialises no device."""
    return jax.distributed.is_initialized() and global_state.num_processes > 1


def check_joined() -> None:
    """Raises ValueError if the devices belong to several processes that have not joined."""
    if not jax.distributed.is_initialized() and jax.process_count() > 1:
        raise ValueError(
            f"the devices belong to {jax.process_count()} processes, which do not know each other: "
            "give t2t-jax --distributed on all hosts"
        )


def is_first() -> bool:
    """Whether this process is the one that prints and writes records.

    It is the first by the number it joined with, on Cloud TPU that of its machine; JAX's process 0
    there may be on another machine.
    """
    return not are_several() or global_state.process_id == 0


def log(line: str) -> None:
    """Prints a line to standard error, on the first host only."""
    if is_first():
        print(line, file=sys.stderr, flush=True)


def any_of(flag: bool) -> bool:
    """Whether `flag` is true on any host; all must call this together."""
    if not are_several():
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def give_notice() -> None:
    """Tells all hosts, in the background, that this one was asked to stop."""
    if _notify is not None:
        _notify(signal.SIGTERM)


def stop_together(requested: bool) -> bool:
    """Whether to stop now, on all hosts after the same step; all call this once after every step.

    On a single host, it returns `requested`. With several, JAX passes the notice on to the others,
    so that nothing has to wait for an answer, and chooses a step ahead of them all.
    """
    global _stops_together
    if not are_several():
        return requested
    # Not the step: a run that goes back to a checkpoint repeats some. JAX says yes only once.
    if multihost_utils.reached_preemption_sync_point(next(_questions)):
        _stops_together = True
    return _stops_together


def check_same(what: str, data: bytes, advice: str) -> None:
    """Raises ValueError on all hosts unless `data` is the same; all must call this together."""
    if not are_several():
        return
    digest = np.frombuffer(hashlib.sha256(data).digest(), np.uint8)
    if len(np.unique(multihost_utils.process_allgather(digest), axis=0)) > 1:
        raise ValueError(f"{what} is not the same on all hosts: {advice}")


def wait(what: str) -> None:
    """Waits until every host has reached this point, named `what`."""
    if are_several():
        multihost_utils.sync_global_devices(what)


def first_then_others(work: Callable[[], Result]) -> Result:
    """The result of `work`; other hosts start when the first is done, and find its files."""
    if not is_first():
        wait("the first is done")
    result = work()
    if is_first():
        wait("the first is done")
    return result


def leave(sentence: str, error: Exception, exit_code: int = 1) -> None:
    """Ends this process after an error, if it is one of several; does nothing on a single host.

    It ends at once: an orderly end would wait for hosts that continue, or are lost. If the error is
    the loss of another host, it ends by SIGABRT, as JAX would, and the witness says so.
    """
    if not are_several():
        return
    print(sentence, file=sys.stderr, flush=True)
    is_loss = isinstance(error, (jax.errors.JaxRuntimeError, TimeoutError))
    if is_loss and not memory.is_exhausted(error):
        os.abort()
    if _witness is not None:
        _witness.communicate(_GOODBYE)
    if is_first():
        # The others end with it, and may be about to report the same.
        time.sleep(_SECONDS_FOR_THE_OTHERS)
    os._exit(exit_code)


def _keep_output_clean() -> None:
    """Reserves standard output for Python: gloo, in C++, prints there too."""
    if sys.stdout is None:  # closed by whoever started this process
        return
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = open(ours, "w", encoding="utf-8")  # as long as the process lives


def _swap_sigterm_handler(new: int | None) -> int | None:
    """Sets the handler of SIGTERM, None for the default; returns the one before.

    Either may be one that Python does not know.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    return libc.signal(signal.SIGTERM, new)


@contextlib.contextmanager
def _notice_remembered() -> Iterator[None]:
    """Keeps JAX's own SIGTERM handler, and puts back the one that was there before.

    It only notifies the others, which a training run asks for; elsewhere SIGTERM ends a process.
    """
    global _notify
    before = _swap_sigterm_handler(None)
    try:
        yield
    finally:
        handler = _swap_sigterm_handler(before)
    if handler:
        _notify = ctypes.CFUNCTYPE(None, ctypes.c_int)(handler)


def _have_a_witness() -> None:
    """Starts a process that reports the end of this one, unless it ends in an orderly way.

    JAX ends a process that lost its peers at once, with only a stack trace.
    """
    global _witness
    faulthandler.disable()  # it would add the stack of every thread
    witness = _witness = subprocess.Popen(
        [sys.executable, "-S", "-c", _WITNESS, _ENDED],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is not for it
    )

    def say_goodbye() -> None:
        jax.distributed.shutdown()  # ends this process if others are lost
        witness.communicate(_GOODBYE)

    atexit.register(say_goodbye)
