"""Signals that ask a run to stop."""

import os
import signal
import socket
import threading
from collections.abc import Callable

from t2t_jax import hosts
from t2t_jax.json_files import AnyPath
from t2t_jax.training.about import steps_in

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)  # the last is common in SLURM
_SECONDS_TO_LEAVE = 2.0
_STOPPED = 130  # exit code after Ctrl-C


def left_text(checkpoints: AnyPath) -> str:
    """What happens next to a run left at once, given the checkpoints in this directory."""
    goes = "begins anew: no checkpoint was saved yet"
    if steps_in(checkpoints):
        goes = "goes on from the last checkpoint"
    return f"stopped without saving; the same command {goes}"


class StopRequests:
    """Turns SIGTERM, SIGINT and SIGUSR1 into a request while it is entered.

    A thread answers at once: Python calls a handler only when compiled code returns, and XLA may
    compile for minutes. A second Ctrl-C means haste: the main thread gets a KeyboardInterrupt, and
    if it does not react, the process ends.

    Args:
      answer: the sentence printed on the first request.
      farewell: the sentence printed on the second.
    """

    def __init__(self, answer: Callable[[], str], farewell: Callable[[], str]) -> None:
        self._answer = answer
        self._farewell = farewell
        self._request = threading.Event()
        self._has_left = threading.Event()
        self._handlers = {}
        self._num_interrupts = 0

    def is_set(self) -> bool:
        """Whether a stop was requested."""
        return self._request.is_set()

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _SIGNALS:
            if number == signal.SIGUSR1 and signal.getsignal(number) == signal.SIG_IGN:
                continue  # whoever started this requested and handles it
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
        # On preemption, both the machine and the launcher may send a signal: only a second Ctrl-C
        # means haste.
        self._num_interrupts += number == signal.SIGINT
        if self._num_interrupts > 1:
            self._has_left.set()
            raise KeyboardInterrupt
        self._request.set()

    def _listen(self) -> None:
        has_answered, num_interrupts = False, 0
        while number := self._reader.recv(1):
            if number[0] not in self._handlers:
                continue
            num_interrupts += number[0] == signal.SIGINT
            if not has_answered:
                has_answered = True
                hosts.give_notice()
                hosts.log(self._answer())
            elif num_interrupts > 1 and not self._has_left.wait(_SECONDS_TO_LEAVE):
                hosts.log(self._farewell())
                os._exit(_STOPPED)
