"""File locks, which the system releases when their process ends, however it ends."""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

# How long a killed process's lock may outlive it on a shared disk: NFS 4 releases the locks of a
# lost machine after 90 s.
SECONDS_FOR_THE_LOCK = 100.0


Tell = Callable[[str], None]
_listeners: list[Tell] = []


class IsTakenError(BlockingIOError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(file: Path, does: str, *, patience: float) -> Iterator[None]:
    """Holds the lock of `file`, which is created if missing, and names this process in it.

    Args:
      does: what only one process at a time may do, as in "trains in W".
      patience: seconds to wait for that process to release it.

    Raises:
      IsTakenError: that process still holds it then.
      OSError: the file cannot be created or locked.
    """
    with open(file, "a+b", buffering=0) as lock, contextlib.ExitStack() as waiting:
        started = time.monotonic()
        has_told = False
        while not try_lock(lock):
            waited = time.monotonic() - started
            lock.seek(0)
            who = named(lock.read())
            if waited >= patience:
                raise IsTakenError(f"{who} {does}; {_advice(who, file)}")
            if not has_told:
                waiting.enter_context(told_waiting(f"{who} {does}", _say))
                has_told = True
            time.sleep(min(max(waited / 4, 0.1), 5.0, patience - waited))
        waiting.close()
        _sign(lock, json.dumps(this_process()).encode())
        try:
            yield
        finally:
            _sign(lock, b"")


def _sign(lock: IO[bytes], owner: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk: others need not know who holds it
        lock.truncate(0)
        lock.write(owner)
        os.fsync(lock)  # others may read it on other machines


def this_process() -> dict[str, Any]:
    """What names the owner of a lock."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def named(content: bytes) -> str:
    """The owner named by the content of a lock, as in "process 7 on HOST"."""
    try:
        values = json.loads(content)
        return f"process {values['pid']} on {values['host']}"
    except (KeyError, TypeError, ValueError):
        return "another process"


def _advice(who: str, file: Path) -> str:
    if who.endswith(f" on {socket.gethostname()}"):  # had it ended, the lock would be free
        return "it has to end first"
    return f"if that was on a machine that is gone, remove {file}"


@contextlib.contextmanager
def told_waiting(what: str, log: Tell) -> Iterator[None]:
    """Says what this process waits for, to the user by `log`, and to all listeners."""
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
    """Calls `tell` with what this process waits for, and with "" when that is over."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def try_lock(file: IO[bytes]) -> bool:
    """Takes the lock for this process, unless another one has it.

    Raises:
      OSError: the file cannot be locked; checkpoints, which need locks too, would fail there.
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
