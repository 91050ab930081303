"""Waits for what another process does, and not for ever."""

import time
from collections.abc import Callable
from typing import Any


def wait_until(is_so: Callable[[], Any], seconds: float = 60.0) -> None:
    """Returns once `is_so()` is true; fails if it is not so within `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        time.sleep(0.02)
