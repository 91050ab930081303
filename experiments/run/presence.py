"""A run's presence in its directory: a lock, so that only one process works there, and a heartbeat.

W/TABLE/ROW/seed-N/running.json  who works on the run, and since when; renewed every few seconds
                   waiting.json  what the process of the run waits for, while it waits
                   .lock         held by the process of the run
                   .launch.lock  held by a launcher that executes the run elsewhere

All are files, so that they mean the same to every launcher, on every machine that sees them. Of a
run in a bucket, the sign goes there once a minute. If several hosts execute one run together, only
the first announces its presence.
"""

import contextlib
import errno
import functools
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.run.record import TRAINING_FILE, is_number
from t2t_jax import buckets
from t2t_jax.json_files import read_json, write_json
from t2t_jax.locks import SECONDS_FOR_THE_LOCK, listening, locked, try_lock

RUNNING_FILE = "running.json"
_WAITING_FILE = "waiting.json"
IS_TAKEN = os.EX_TEMPFAIL  # exit code if another process already executes the run
_LOCK_FILE = ".lock"
_LAUNCH_LOCK_FILE = ".launch.lock"

_SECONDS_BETWEEN_BEATS = 5.0
_BEATS_BETWEEN_UPLOADS = 12
# Oldest sign of a living process: clocks differ, and signs come from a bucket once a minute.
_SECONDS_OF_SILENCE = 180.0


class HasLauncherError(Exception):
    """Another command has already launched the run."""


class Sign(NamedTuple):
    """A sign of life; times are seconds since 1970."""

    host: str
    pid: int
    started: float  # different for each start
    beat: float
    stage: str  # "starting" | "compiling" | "training" | "scoring"

    @property
    def is_alive(self) -> bool:
        """Whether the process still works, as far as this machine can tell."""
        if self.host == socket.gethostname() and not _exists(self.pid):
            return False
        return time.time() - self.beat < _SECONDS_OF_SILENCE


class Waiting(NamedTuple):
    """A process that will execute a run, and waits for another process."""

    host: str
    pid: int
    parent: int  # the process that started it
    what: str  # "another process is preparing this corpus"


@contextlib.contextmanager
def present(directory: Path, patience: float = SECONDS_FOR_THE_LOCK) -> Iterator[None]:
    """Holds the directory for this process alone, and sends signs of life meanwhile.

    `waiting` says what the process waits for, for this directory or later.

    Args:
      patience: seconds to wait for another process to leave.

    Raises:
      IsTakenError: another process is there and stays.
    """
    does = f"works on the run in {directory}"
    tell = functools.partial(_tell_waiting, directory)
    with listening(tell), locked(directory / _LOCK_FILE, does, patience=patience):
        stop = threading.Event()
        beats = threading.Thread(target=_beat, args=(directory, stop), daemon=True)
        _take_over(directory)
        beats.start()
        try:
            yield
        finally:
            stop.set()
            beats.join()
            clear(directory)


@contextlib.contextmanager
def only_launcher(directory: Path) -> Iterator[None]:
    """Holds the directory against other commands that would launch its run elsewhere.

    Raises:
      HasLauncherError: another command has launched it.
    """
    with open(directory / _LAUNCH_LOCK_FILE, "ab") as lock:
        is_free = True
        with contextlib.suppress(OSError):  # a disk without locks is good enough for records
            is_free = try_lock(lock)
        if not is_free:
            raise HasLauncherError(f"another command has already launched the run in {directory}")
        yield


def announce(directory: Path) -> None:
    """Writes the sign that this process is starting the run; the run itself takes it over.

    Does not replace the sign of a process that already works on it: the run will wait for that one.
    """
    sign = read(directory)
    if sign is not None and sign.is_alive and sign.stage != "starting":
        return
    now = time.time()
    _write(directory, Sign(socket.gethostname(), os.getpid(), now, now, "starting"))


def _take_over(directory: Path) -> None:
    """Writes the run's first own sign, with the announced start time if there is one."""
    announced = read(directory)
    started = now = time.time()
    if announced is not None and announced.stage == "starting":
        started = announced.started
    _write(directory, Sign(socket.gethostname(), os.getpid(), started, now, "compiling"))


def clear(directory: Path) -> None:
    """Removes the sign: nobody works on the run any more."""
    for name in (RUNNING_FILE, _WAITING_FILE):
        (directory / name).unlink(missing_ok=True)


def read(directory: Path) -> Sign | None:
    """The last sign; None if there is none, or it is unreadable."""
    try:
        values = read_json(directory / RUNNING_FILE)
    except OSError as error:
        # On NFS, a file being replaced by another machine is stale.
        if error.errno not in (errno.ENOENT, errno.ESTALE):
            raise
        return None
    except ValueError:
        return None
    kinds = (("host", str), ("pid", int), ("started", int | float), ("beat", int | float))
    kinds += (("stage", str),)
    if not all(isinstance(values.get(field), kind) for field, kind in kinds):
        return None
    if not all(is_number(values[field]) for field in ("started", "beat")):
        return None
    return Sign(**{field: values[field] for field in Sign._fields})


def waiting(directory: Path) -> Waiting | None:
    """The process that will execute this run and waits; None if there is none."""
    try:
        values = read_json(directory / _WAITING_FILE)
    except (OSError, ValueError):
        return None
    kinds = (("host", str), ("pid", int), ("parent", int), ("what", str))
    if not all(isinstance(values.get(field), kind) for field, kind in kinds):
        return None
    if values["host"] == socket.gethostname() and not _exists(values["pid"]):
        return None
    return Waiting(**{field: values[field] for field in Waiting._fields})


def forget_waiting(directory: Path) -> None:
    """Forgets what the run was waiting for, until its process says so again."""
    (directory / _WAITING_FILE).unlink(missing_ok=True)


def _tell_waiting(directory: Path, what: str) -> None:
    with contextlib.suppress(OSError):  # the run itself will report a full disk
        if not what:
            (directory / _WAITING_FILE).unlink(missing_ok=True)
            return
        values = Waiting(socket.gethostname(), os.getpid(), os.getppid(), what)
        write_json(directory / _WAITING_FILE, values._asdict())


def _write(directory: Path, sign: Sign) -> None:
    write_json(directory / RUNNING_FILE, sign._asdict())


def _beat(directory: Path, stop: threading.Event) -> None:
    sign = read(directory)
    size = _size(directory / "metrics.jsonl")
    for number in itertools.count():
        if number % _BEATS_BETWEEN_UPLOADS == 0:
            with contextlib.suppress(Exception):  # a bucket that does not answer stops no run
                buckets.upload_one(directory, RUNNING_FILE)
        if sign is None or stop.wait(_SECONDS_BETWEEN_BEATS):
            return
        # It is truncated when a run resumes, and grows with the first finished steps.
        with contextlib.suppress(OSError):  # whoever cannot work on a full disk will say so
            size_before, size = size, _size(directory / "metrics.jsonl")
            stage = sign.stage
            if (directory / TRAINING_FILE).exists():
                stage = "scoring"
            elif size > size_before:
                stage = "training"
            sign = sign._replace(beat=time.time(), stage=stage)
            _write(directory, sign)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass  # another user's process
    return True
