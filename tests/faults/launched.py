"""Sweeps, runs and nodes of a Ray cluster are killed; the same command continues.

The runs are those of tests/experiments/launchers/counting_run.py, whose score shows whether a step
was counted twice or left out.
"""

import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.experiments.launchers import counting_run
from tests.experiments.launchers.counting_run import steps_of
from tests.experiments.sweeps import prepared
from tests.faults.count import Count
from tests.faults.trainings import REPOSITORY, ended

_ROWS = ("base", "one_layer")
_SECONDS_A_STEP, _SECONDS_OF_A_RUN = "0.02", 0.8
# A node that is killed is missed after two seconds, not after half a minute.
_HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
_SWEEP = """
import functools, sys
from pathlib import Path
from experiments.launchers import local
from experiments.sweep import prepared_runs
from tests.experiments.launchers import counting_run
launch = functools.partial(local.launch, parallel=2, command=counting_run.COMMAND)
sys.exit(prepared_runs.do_unfinished([Path(path) for path in sys.argv[1:]], launch))
"""


def start_sweep(directories: Sequence[Path]) -> subprocess.Popen:
    """Starts a program that does these runs, two at a time."""
    return subprocess.Popen(
        [sys.executable, "-c", _SWEEP, *map(str, directories)],
        cwd=REPOSITORY,
        env=os.environ | {"COUNTING_SECONDS_A_STEP": _SECONDS_A_STEP, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sweeps(directory: Path, num: int, seed: int) -> Count:
    """Kills sweeps with their runs."""

    def kill(sweep: subprocess.Popen, directories: Sequence[Path]) -> None:
        sweep.kill()

    return _killed("SIGKILL of a sweep", directory, num, seed, kill)


def runs(directory: Path, num: int, seed: int) -> Count:
    """Kills one of the runs, with which the sweep goes on without it."""

    def kill(sweep: subprocess.Popen, directories: Sequence[Path]) -> None:
        steps = next(filter(None, map(steps_of, directories)))
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(steps[-1][1], signal.SIGKILL)

    return _killed("SIGKILL of a run of a sweep", directory, num, seed, kill)


def _killed(
    what: str,
    directory: Path,
    num: int,
    seed: int,
    kill: Callable[[subprocess.Popen, Sequence[Path]], None],
) -> Count:
    draws = random.Random(f"{seed} {what}")
    lost = []
    resumed = 0
    for number in range(num):
        directories = prepared(directory / str(number), ",".join(_ROWS))
        seconds = round(draws.uniform(0, _SECONDS_OF_A_RUN), 4)
        sweep = start_sweep(directories)
        _wait_for(lambda directories=directories: any(map(steps_of, directories)), sweep)
        time.sleep(seconds)
        kill(sweep, directories)
        sweep.communicate(timeout=100)
        wrong = _wrong_after(start_sweep(directories), directories)
        if wrong:
            lost.append(f"{what} with seed {seed}, {seconds} s after a first step: {wrong}")
        resumed += sum(map(_is_resumed, directories))
    remark = f"{resumed} runs resumed by the same command, each step counted once"
    return Count(what, num, tuple(lost), remark, in_time=resumed)


def _is_resumed(directory: Path) -> bool:
    return len({pid for _, pid in steps_of(directory)}) > 1


def _wrong_after(sweep: subprocess.Popen, directories: Sequence[Path]) -> str:
    try:
        ended(sweep)
    except RuntimeError as error:
        return str(error)
    return wrong_scores(directories)


def wrong_scores(directories: Sequence[Path]) -> str:
    """What is wrong in the runs that have ended; empty if nothing is."""
    for path in directories:
        scores = json.loads((path / "record.json").read_text())["scores"]
        if scores != counting_run.scores_of(path.parent.name):
            return f"{path} has scores {scores}"
        processes = [pid for _, pid in steps_of(path)]
        in_turn = list(dict.fromkeys(processes))
        if processes != sorted(processes, key=in_turn.index):
            return f"in {path} two processes worked at once"
    return ""


def nodes(directory: Path, num: int, seed: int) -> Count:
    """Kills a node of a cluster while both of its runs are on their way."""
    what = "node of a Ray cluster killed"
    if importlib.util.find_spec("ray") is None:
        return Count(what, 0, skipped="Ray is not installed")
    from experiments.launchers import ray

    draws = random.Random(f"{seed} {what}")
    lost = []
    moved = 0
    with _cluster() as cluster:
        cluster.add_node(num_cpus=1)
        for number in range(num):
            doomed = cluster.add_node(num_cpus=1)
            directories = prepared(directory / str(number), ",".join(_ROWS))
            seconds = round(draws.uniform(0, 3), 4)
            is_killed = False
            launched = ray.launch(
                directories,
                resources={"CPU": 1},
                address=cluster.address,
                command=counting_run.COMMAND,
            )
            failures = []
            with contextlib.closing(launched):
                num_started = 0
                for event in launched:
                    num_started += event.kind == "started"
                    if event.kind == "failed":
                        failures.append(event.reason)
                    if num_started == len(_ROWS) and not is_killed:
                        time.sleep(seconds)
                        cluster.remove_node(doomed, allow_graceful=False)
                        is_killed = True
            if wrong := "; ".join(failures) or wrong_scores(directories):
                lost.append(f"{what} with seed {seed}, {seconds} s after both had begun: {wrong}")
            moved += sum(map(_is_resumed, directories))
    remark = f"{moved} runs went on on the other node, each step counted once"
    return Count(what, num, tuple(lost), remark, in_time=moved)


@contextlib.contextmanager
def _cluster() -> Iterator:
    """One whose nodes are added, and a head that does no run."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": _HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _wait_for(is_so: Callable[[], bool], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 100
    while not is_so() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
