"""The work of the tests' worker processes: here, since a worker does not import pytest."""

import os
import signal
import threading
import time

from t2t_jax.data.corpora.text_files import UnreadableError


class Remembering:
    """Doubles numbers, the small ones slowly, and keeps their sum."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, number: int) -> int:
        time.sleep(0.05 if number % 3 == 0 else 0.001)
        self.total += number
        return 2 * number

    def rest(self) -> int:
        """The sum of what this process was given."""
        return self.total


def refuse(number: int) -> int:
    """Finds the fifth number wrong."""
    if number == 5:
        raise ValueError("number 5 is wrong")
    return number


def die(number: int) -> int:
    """As if the system had too little memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep(number: int) -> int:
    """Takes its time; the first two tell who does."""
    if number < 2:
        os.write(1, b"%d\n" % os.getpid())
    time.sleep(0.5)
    return number


def leave(number: int) -> int:
    """Ends its process by itself, as one that cannot import something."""
    os._exit(3 if number >= 0 else 0)


def lock(number: int) -> object:
    """What cannot be sent to another process."""
    return threading.Lock() if number >= 0 else None


def refuse_with_a_lock(number: int) -> int:
    """An error that cannot be sent to another process."""
    raise ValueError(lock(number))


def unreadable(number: int) -> int:
    """An error of the disk, in words."""
    raise UnreadableError(f"file {number} cannot be read") from OSError(116, "Stale file handle")
