"""Applies a function to many items in several processes, with the results in the items' order.

The processes are fresh interpreters that import the function and nothing else of the program:
they copy none of its threads or locks, do not run its main module again, and need no more memory
than the function does. Each has one connection to its parent and ends when that is closed, hence
also when the parent is killed.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from t2t_jax.cores import own_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

# A worker takes about 150 MB, and one parent can hardly feed more.
_MAX_PROCESSES = 8
# Results that wait for an earlier one are held in memory.
_AHEAD = 2  # items per process
_CODE = "import sys; from t2t_jax.data.prepare.workers import serve; serve(int(sys.argv[1]))"


def num_cores() -> int:
    """How many processes are worthwhile here."""
    return min(len(own_cores()), _MAX_PROCESSES)


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    num_processes: int,
    rest: Callable[[Any], Result] | None = None,
) -> Generator[Result, None, None]:
    """Yields function(item) for each item, in order, for any number of processes.

    A single process is this one; otherwise `function`, the items and the results are pickled.

    Args:
      rest: called at the end in every process with its `function`, which may have state; its
        results come last.

    Raises:
      ChildProcessError: a worker was killed from outside.
      Exception: what `function` raises.
    """
    if num_processes == 1:
        yield from map(function, items)
        if rest is not None:
            yield rest(function)
        return
    numbered = enumerate(items)
    with _workers(function, num_processes) as idle:
        busy: dict[_Worker, int] = {}
        results: dict[int, Result] = {}
        num_given = 0
        following = next(numbered, None)
        while following is not None or busy or results:
            stop = num_given + _AHEAD * num_processes
            while idle and following is not None and following[0] < stop:
                number, item = following
                worker = idle.pop()
                worker.send((None, item))
                busy[worker] = number
                following = next(numbered, None)  # read while the workers work
            if num_given in results:
                yield results.pop(num_given)
                num_given += 1
                continue
            waiting: Any = list(busy)  # `wait` takes whatever has a `fileno`
            for worker in wait(waiting):
                assert isinstance(worker, _Worker)
                results[busy.pop(worker)] = worker.receive()
                idle.append(worker)
        for worker in idle if rest is not None else ():
            worker.send((rest, None))
            yield worker.receive()


def serve(file_descriptor: int) -> None:
    """The loop of a worker: receives the function, then items, and answers each with a result."""
    with Connection(file_descriptor) as connection, contextlib.suppress(EOFError, ConnectionError):
        function = connection.recv()
        while True:
            rest, item = connection.recv()
            try:
                answer = function(item) if rest is None else rest(function), None
            except Exception as error:
                error.add_note("in a worker process:\n" + traceback.format_exc())
                answer = None, error
            try:
                connection.send(answer)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                connection.send((None, RuntimeError(f"{answer} cannot be pickled: {error}")))


@contextlib.contextmanager
def _workers(function: Callable, num_processes: int) -> Iterator[list["_Worker"]]:
    """Processes that have received the function; they end with the context."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_Worker()) for _ in range(num_processes)]
        for worker in workers:
            worker.send(function)
        yield workers


class _Worker(contextlib.AbstractContextManager):
    """A process that runs `serve`, and our end of its connection, for which `wait` can wait."""

    def __init__(self) -> None:
        # The import path, including the main module's folder.
        paths = [path or os.getcwd() for path in sys.path]
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                process_group=0,  # Ctrl-C reaches only the parent, which then ends them
            )

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGKILL)  # it has nothing to lose
        self._process.wait()
        self._connection.close()

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, item: Any) -> None:
        with self._death_in_words():
            self._connection.send(item)

    def receive(self) -> Any:
        """The result; raises the error that came instead."""
        with self._death_in_words():
            result, error = self._connection.recv()
        if error is not None:
            raise error
        return result

    @contextlib.contextmanager
    def _death_in_words(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            status = self._process.wait()
            why = (
                "was killed, perhaps for lack of memory"
                if status == -signal.SIGKILL
                else f"failed with exit status {status}; its error is above"
            )
            raise ChildProcessError(f"a worker process {why}") from error
