"""Locks on files, which the system gives back when their process ends, however it ends."""

import contextlib
import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

# How long the lock of a killed process may outlive it, on a disk that machines share: NFS 4 gives
# those of a machine that is gone back after 90 s.
SECONDS_FOR_THE_LOCK = 100.0


Tell = Callable[[str], None]
_listeners: list[Tell] = []


class IsTakenError(BlockingIOError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(
    file: Path, does: str, *, who: Callable[[], str] = lambda: "another process", patience: float
) -> Iterator[None]:
    """Holds the lock of `file`, which is made if it is not there.

    Args:
      does: what is done by one process at a time, as in "trains in W".
      who: names the process that holds the lock.
      patience: seconds to wait for that process to give it back.

    Raises:
      IsTakenError: that process still holds it then.
      OSError: the file cannot be made or locked.
    """
    with open(file, "ab") as lock, contextlib.ExitStack() as waiting:
        started = time.monotonic()
        has_told = False
        while not try_lock(lock):
            waited = time.monotonic() - started
            if waited >= patience:
                raise IsTakenError(
                    f"{who()} {does}; if that was on a machine that is gone, remove {file}"
                )
            if not has_told:
                waiting.enter_context(told_waiting(f"{who()} {does}", _say))
                has_told = True
            time.sleep(min(max(waited / 4, 0.1), 5.0, patience - waited))
        waiting.close()
        yield


@contextlib.contextmanager
def told_waiting(what: str, log: Tell) -> Iterator[None]:
    """Says what this process waits for, to a person by `log`, and to whoever listens."""
    log(f"{what}: waiting for it")
    for tell in _listeners:
        tell(what)
    try:
        yield
    finally:
        for tell in _listeners:
            tell("")


@contextlib.contextmanager
def listening(tell: Tell) -> Iterator[None]:
    """Has `tell` called with what this process waits for, and with "" when that is over."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock for this process, unless another has it.

    Raises:
      OSError: it cannot be locked; nor could checkpoints be written there, which need locks too.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    except OSError as error:
        raise OSError(
            f"{file.name} cannot be locked ({error.strerror}): the directory must be on a file "
            "system with locks (Lustre: mounted with flock)"
        ) from error
    return True
