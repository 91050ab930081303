"""Signals that ask a run to stop."""

import os
import signal
import socket
import threading
from collections.abc import Callable

from t2t_jax import hosts
from t2t_jax.json_files import AnyPath
from t2t_jax.training.about import steps_in

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)  # the last is usual in SLURM
_SECONDS_TO_LEAVE = 2.0
_STOPPED = 130  # the exit code of whatever Ctrl-C has ended


def left_text(checkpoints: AnyPath) -> str:
    """What becomes of a run that was left at once, by the checkpoints in this directory."""
    goes = "begins anew: no checkpoint was saved yet"
    if steps_in(checkpoints):
        goes = "goes on from the last checkpoint"
    return f"stopped without saving; the same command {goes}"


class StopRequests:
    """Turns SIGTERM, SIGINT and SIGUSR1 into a request, as long as it is entered.

    A thread answers at once: Python calls a handler only when compiled code returns, and XLA may
    compile for minutes. A person who asks twice by Ctrl-C is in haste: the main thread gets a
    KeyboardInterrupt, and where it does not come back the process ends.

    Args:
      answer: what is told to who asks, in a sentence.
      farewell: what is told to who has asked twice.
    """

    def __init__(self, answer: Callable[[], str], farewell: Callable[[], str]) -> None:
        self._answer = answer
        self._farewell = farewell
        self._request = threading.Event()
        self._has_left = threading.Event()
        self._handlers = {}

    def is_set(self) -> bool:
        """Whether somebody has asked."""
        return self._request.is_set()

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _SIGNALS:
            if number == signal.SIGUSR1 and signal.getsignal(number) == signal.SIG_IGN:
                continue  # whoever started this has it sent, and deals with it
            self._handlers[number] = signal.signal(number, lambda number, _: self._handle(number))
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._handlers:
            return
        self._has_left.set()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._writer.close()
        self._listener.join()
        self._reader.close()

    def _handle(self, number: int) -> None:
        # A machine that is to be taken away may tell the run as well as whoever started it: only a
        # second Ctrl-C is haste.
        if self._request.is_set() and number == signal.SIGINT:
            self._has_left.set()
            raise KeyboardInterrupt
        self._request.set()

    def _listen(self) -> None:
        has_answered = False
        while number := self._reader.recv(1):
            if number[0] not in self._handlers:
                continue
            if not has_answered:
                has_answered = True
                hosts.give_notice()
                hosts.log(self._answer())
            elif number[0] == signal.SIGINT and not self._has_left.wait(_SECONDS_TO_LEAVE):
                hosts.log(self._farewell())
                os._exit(_STOPPED)
