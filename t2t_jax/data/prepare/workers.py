"""Applies a function to many items in several processes, with the results in the items' order.

The processes are fresh interpreters that import the function and nothing else of the program:
they copy none of its threads or locks, do not run its main module again, and need no more memory
than the function does. Each has one connection to its parent and ends when that is closed, hence
also when the parent is killed.
"""

import contextlib
import os
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
        busy: dict[Connection, int] = {}
        results: dict[int, Result] = {}
        num_given = 0
        following = next(numbered, None)
        while following is not None or busy or results:
            stop = num_given + _AHEAD * num_processes
            while idle and following is not None and following[0] < stop:
                number, item = following
                connection = idle.pop()
                _send(connection, (None, item))
                busy[connection] = number
                following = next(numbered, None)  # read while the workers work
            if num_given in results:
                yield results.pop(num_given)
                num_given += 1
                continue
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                results[busy.pop(connection)] = _receive(connection)
                idle.append(connection)
        for connection in idle if rest is not None else ():
            _send(connection, (rest, None))
            yield _receive(connection)


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
            connection.send(answer)


@contextlib.contextmanager
def _workers(function: Callable, num_processes: int) -> Iterator[list[Connection]]:
    """Connections to processes that have received the function."""
    # The import path, including the main module's folder.
    paths = [path or os.getcwd() for path in sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(num_processes):
            ours, theirs = Pipe()
            stack.enter_context(ours)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", _CODE, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    process_group=0,  # Ctrl-C reaches only the parent, which then ends them
                )
            stack.callback(_end, process)
            connections.append(ours)
        for connection in connections:
            _send(connection, function)
        yield connections


def _end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)  # it has nothing to lose
    process.wait()


def _send(connection: Connection, item: Any) -> None:
    with _death_in_words():
        connection.send(item)


def _receive(connection: Connection) -> Any:
    with _death_in_words():
        result, error = connection.recv()
    if error is not None:
        raise error
    return result


@contextlib.contextmanager
def _death_in_words() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise ChildProcessError(
            "a worker process has been ended, perhaps for lack of memory"
        ) from error
