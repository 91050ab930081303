"""Runs as tasks of a Ray cluster: an existing one, or one of this machine alone.

The workdir, the code and its Python environment are in directories that all nodes share under the
same names. A run whose node dies moves to another one and continues from its checkpoint; a run that
fails by itself has failed.
"""

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.launchers import process
from experiments.launchers.event import (
    COMMAND,
    Event,
    clear,
    ended,
    failed,
    start_event,
    tell,
    was_stopped,
)
from experiments.run import presence
from experiments.run.plain_text import counted, plain_text

_POLL_SECONDS = 0.5
# Preemptible machines are preempted often.
_MOST_LOST_NODES = 100
# A machine tells its run to stop before it goes away; after this many times, the cause is another.
_MOST_STOPS = 20
# For Ray's results, one number per run; by default it takes a third of the memory.
_OBJECT_STORE_BYTES = 100_000_000


class _Running(NamedTuple):
    directory: Path
    submitted: float
    sign: presence.Sign | None = None  # of its start


def check_installed() -> None:
    """Raises ValueError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise ValueError("--launcher=ray needs Ray: pip install -c constraints.txt -e '.[ray]'")


def launch(
    directories: Sequence[Path],
    *,
    resources: Mapping[str, float] | None = None,
    address: str | None = None,
    parallel: int | None = None,
    command: Sequence[str] = COMMAND,
) -> Generator[Event, None, None]:
    """Runs `command DIRECTORY` for each as a task, its output in DIRECTORY/log.txt.

    Args:
      resources: of a run, by Ray's names: CPU, GPU, TPU or the cluster's own. By default
        {"GPU": 1} if the cluster has GPUs, else {"CPU": 2}.
      address: of the cluster; by default RAY_ADDRESS, else a cluster of this machine alone.
      parallel: runs at a time at most; by default as many as the resources allow.

    Raises:
      ConnectionError: there is no cluster at `address`.
      ValueError: the cluster of this machine can never give a run its `resources`.
    """
    if not directories:
        return
    with _cluster(address or os.environ.get("RAY_ADDRESS")) as (ray, is_own):
        amounts = _amounts(ray, resources, is_own)
        task = ray.remote(**_task_options(amounts))(_run)
        work = (command, os.getcwd(), amounts)
        yield from _watch(ray, task, directories, parallel or len(directories), work)


def _run(directory: Path, command: Sequence[str], code: str, amounts: Mapping[str, float]) -> int:
    """The task; returns the exit code of the run."""
    # Ray cancels by an interrupt, which a cluster started in the background ignores.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    num_gpus, num_cores = amounts.get("GPU", 0.0), int(amounts.get("CPU", 0.0))
    environment = process.gpu_memory(num_gpus) if num_gpus else {}
    # Ray counts cores, but keeps no process to its own. XLA takes as many threads as this says.
    if num_cores and not num_gpus and "NPROC" not in os.environ:
        environment = {"NPROC": str(num_cores)}
    return process.wait(process.start(directory, command, environment, code))


def _watch(
    ray: Any, task: Any, directories: Sequence[Path], parallel: int, work: Sequence[Any]
) -> Generator[Event, None, None]:
    waiting = [directory.absolute() for directory in directories]
    names = dict(zip(waiting, directories, strict=True))
    running: dict[Any, _Running] = {}
    num_stops: Counter[Path] = Counter()
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                directory = waiting.pop(0)
                clear(directory)
                result = task.remote(directory, *work)
                running[result] = _Running(names[directory], time.monotonic())
            done, _ = ray.wait(list(running), timeout=_POLL_SECONDS)
            for result, one in running.items():
                sign, event = start_event(one.directory, one.sign)
                running[result] = one._replace(sign=sign)
                if event is not None:
                    yield event
            for result in done:
                one = running.pop(result)
                event = _end(ray, result, one, num_stops[one.directory])
                if event is None:
                    num_stops[one.directory] += 1
                    waiting.append(one.directory.absolute())
                else:
                    yield event
    finally:
        _stop(ray, running)


def _end(ray: Any, result: Any, one: _Running, num_stops: int) -> Event | None:
    """How the run ended; None if it was stopped by its node, which is being taken away.

    Args:
      num_stops: how often this has happened to the run before.
    """
    seconds = time.monotonic() - one.submitted
    if one.sign is not None:
        seconds = max(0.0, time.time() - one.sign.started)  # clocks of two machines differ
    try:
        exit_code = ray.get(result)
    except ray.exceptions.RayError as error:
        presence.clear(one.directory)
        return failed(one.directory, seconds, f"Ray: {_reason(error)}")
    if not was_stopped(exit_code):
        return ended(one.directory, seconds, exit_code)
    if num_stops < _MOST_STOPS:
        return None
    presence.clear(one.directory)
    return failed(one.directory, seconds, f"it was told to stop {num_stops + 1} times")


def _reason(error: Exception) -> str:
    """What went wrong; of a task, Ray's text begins with a header and has a trace."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return plain_text(f"{type(cause).__name__}: {plain_text(cause)}")
    return plain_text(str(error).strip().splitlines()[0])


def _stop(ray: Any, running: Mapping[Any, _Running]) -> None:
    if not running:
        return
    tell(f"stopping {counted(len(running), 'run')}; what has been learned is saved")
    # The task waits this long for its run, plus a little for Ray.
    deadline = time.monotonic() + process.GRACE_SECONDS + 10
    left = list(running)
    while left and time.monotonic() < deadline:
        for result in left:
            ray.cancel(result)  # repeatedly: it may be lost while a task is starting
        _, left = ray.wait(left, num_returns=len(left), timeout=5)
    for one in running.values():
        presence.clear(one.directory)


@contextlib.contextmanager
def _cluster(address: str | None) -> Generator[tuple[Any, bool], None, None]:
    """Ray, connected, and whether the cluster is this process's own."""
    # Ray asks its users before it collects usage statistics; here nobody could answer.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's future default: a task without GPUs sees those that its node shows to all.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    _silence(ray)
    on_termination = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    else:
        _check_answers(address)
    try:
        ray.init("local" if address is None else address, **options)
    except ConnectionError as error:
        raise ConnectionError(f"there is no Ray cluster at {address}: {error}") from error
    except RuntimeError as error:  # such as another version of Ray or Python there
        sentence = " ".join(str(error).split())
        raise ConnectionError(f"the Ray cluster at {address} is of no use: {sentence}") from error
    # Ray's own handler would end this process silently.
    signal.signal(signal.SIGTERM, on_termination)
    try:
        yield ray, address is None
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Raises ConnectionError if nothing answers at host:port; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "://" in address or not port.isdecimal():  # "auto", or a form left to Ray
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(f"there is no Ray cluster at {address}: {error}") from error


def _silence(ray: Any) -> None:
    """Keeps the raylet's messages off the terminal; those that matter come as events."""
    worker = ray._private.worker
    if hasattr(worker, "print_to_stdstream"):  # no setting turns them off
        worker.print_to_stdstream = lambda *_, **__: None


def _amounts(ray: Any, resources: Mapping[str, float] | None, is_own: bool) -> Mapping[str, float]:
    """The resources of a run.

    Raises:
      ValueError: no node can ever provide them, and no other will come.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if resources is None:
        has_gpus = any(node.get("GPU") for node in nodes)
        most_cores = max(node.get("CPU", 0.0) for node in nodes)
        # A head that only starts workers may have none: a task of no cores would run there.
        resources = {"GPU": 1.0} if has_gpus else {"CPU": min(2.0, most_cores) or 2.0}
    for node in nodes:
        if all(node.get(name, 0.0) >= amount for name, amount in resources.items()):
            return resources
    wanted = _words(resources)
    there = "; ".join(_words({name: node.get(name, 0.0) for name in resources}) for node in nodes)
    if is_own:
        raise ValueError(f"a run is to get {wanted}, but this machine has {there}")
    print(
        f"a run is to get {wanted}, but the nodes have {there}: the runs wait for a larger node",
        file=sys.stderr,
    )
    return resources


def _words(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items())


def _task_options(amounts: Mapping[str, float]) -> dict[str, Any]:
    own_names = {name: amount for name, amount in amounts.items() if name not in ("CPU", "GPU")}
    return {
        "num_cpus": amounts.get("CPU", 0),
        "num_gpus": amounts.get("GPU", 0),
        "resources": own_names,
        "max_retries": _MOST_LOST_NODES,
    }
