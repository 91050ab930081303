"""The work of the tests' worker processes: here, since a worker does not import pytest."""

import os
import signal
import time


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
