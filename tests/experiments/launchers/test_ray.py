"""Runs on a Ray cluster of two nodes on this machine; one node is killed."""

import json
import os
import signal
import sys
import types
from contextlib import closing
from pathlib import Path

import pytest

from experiments.launchers import ray
from experiments.run import presence
from t2t_jax.locks import try_lock
from tests.experiments.launchers import counting_run
from tests.experiments.launchers.counting_run import steps_of
from tests.experiments.sweeps import prepared
from tests.experiments.waiting import wait_until

# Ray starts its processes by a fork, which JAX warns of; each begins another program at once.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


@pytest.mark.parametrize(("num_gpus", "memory"), [(0.5, "0.38"), (1, None), (0, None)])
def test_runs_that_share_a_gpu_share_its_memory(tmp_path, monkeypatch, num_gpus, memory):
    for variable in ("XLA_CLIENT_MEM_FRACTION", "NPROC"):
        monkeypatch.delenv(variable, raising=False)
    name = "XLA_CLIENT_MEM_FRACTION"
    program = f"import os; print(os.environ.get({name!r}, ''), os.environ.get('NPROC'))"
    before = signal.getsignal(signal.SIGINT)
    amounts = {"GPU": num_gpus, "CPU": 2}
    try:
        assert ray._run(tmp_path, [sys.executable, "-c", program], os.getcwd(), amounts) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    threads = None if num_gpus else 2
    assert (tmp_path / "log.txt").read_text() == f"{memory or ''} {threads}\n"


@pytest.fixture(scope="module")
def cluster():
    """A cluster whose nodes have one core each, and a head that has none."""
    from ray.cluster_utils import Cluster

    # A node that is killed is missed after two seconds, not after half a minute.
    health = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 4,
    }
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": health}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def _scores(directories):
    return [json.loads((path / "record.json").read_text())["scores"] for path in directories]


def _is_free(directory) -> bool:
    """Whether no process does the run, not even one that is about to be killed."""
    with open(directory / ".lock", "ab") as lock:
        return try_lock(lock)


@pytest.mark.slow
def test_a_run_whose_node_dies_goes_on_elsewhere_to_the_same_score(tmp_path, cluster):
    cluster.add_node(num_cpus=1)
    doomed = cluster.add_node(num_cpus=1, resources={"doomed": 1})
    directories = prepared(tmp_path, "base,one_layer")
    for path in directories:
        (path / "pause").write_text("7")  # neither ends before both are there
    launched = ray.launch(
        directories, resources={"CPU": 1}, address=cluster.address, command=counting_run.COMMAND
    )
    events = []
    with closing(launched):
        for event in launched:
            events.append(event)
            if [one.kind for one in events] == ["started", "started"]:
                wait_until(lambda: min(len(steps_of(path)) for path in directories) >= 7)
                cluster.remove_node(doomed, allow_graceful=False)
                wait_until(lambda: any(map(_is_free, directories)))
                for path in directories:
                    (path / "pause").unlink()
    started = [event.directory for event in events if event.kind == "started"]
    assert sorted(event.directory for event in events if event.kind == "finished") == directories
    [moved] = [path for path in directories if started.count(path) == 2]
    [stayed] = [path for path in directories if path != moved]
    assert _scores(directories) == [counting_run.scores_of(row) for row in ("base", "one_layer")]
    # Steps were repeated from the last checkpoint on, by one process after the other.
    processes = [pid for _, pid in steps_of(moved)]
    first, second = dict.fromkeys(processes)
    assert processes == sorted(processes, key=[first, second].index)
    repeated = [step for step, pid in steps_of(moved) if pid == second]
    assert repeated[0] % 5 == 1 and repeated[0] > 1
    assert len({pid for _, pid in steps_of(stayed)}) == 1
    assert all(presence.read(path) is None for path in directories)


def test_who_fails_has_failed_and_who_is_stopped_saves_and_goes_on(tmp_path, cluster):
    cluster.add_node(num_cpus=2)
    failing, stopped = prepared(tmp_path, "one_head,no_positions")
    launched = ray.launch(
        [failing, stopped],
        resources={"CPU": 1},
        address=cluster.address,
        command=counting_run.COMMAND,
    )
    with closing(launched):
        event = next(event for event in launched if event.kind == "failed")
        assert event.directory == failing
        assert event.reason == "exit code 1: no such thing"
        wait_until(lambda: len(steps_of(stopped)) >= 2)
        # A machine that will be taken away tells its processes: the run is not given up for that.
        os.kill(steps_of(stopped)[0][1], signal.SIGTERM)
        assert next(launched).kind == "started"
        wait_until(lambda: len({pid for _, pid in steps_of(stopped)}) >= 2)
    counted = [step for step, _ in steps_of(stopped)]
    assert counted == list(range(1, len(counted) + 1))
    assert json.loads((stopped / "checkpoint.json").read_text())["step"] == counted[-1]
    assert not (stopped / "record.json").exists()
    assert presence.read(stopped) is None and not (stopped / "failure.json").exists()


def test_who_is_stopped_again_and_again_is_given_up(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(ray, "_MOST_STOPS", 1)
    cluster.add_node(num_cpus=1)
    [directory] = prepared(tmp_path, "base")
    program = "import sys; open(sys.argv[1] + '/starts', 'a').write('x'); sys.exit(130)"
    launched = ray.launch(
        [directory],
        resources={"CPU": 1},
        address=cluster.address,
        command=(sys.executable, "-c", program),
    )
    with closing(launched):
        *_, last = launched
    assert (last.kind, last.reason) == ("failed", "it was told to stop 2 times")
    assert (directory / "starts").read_text() == "xx"
    assert presence.read(directory) is None


def test_wrong_addresses_and_resources_are_told_in_a_sentence(monkeypatch):
    with pytest.raises(ConnectionError, match="there is no Ray cluster at 127.0.0.1:1"):
        next(ray.launch([Path("absent")], address="127.0.0.1:1"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"-e '\.\[ray\]'"):
        ray.check_installed()


@pytest.mark.parametrize(
    ("nodes", "amounts"),
    [
        ([(True, {"CPU": 8.0, "GPU": 2.0})], {"GPU": 1.0}),
        ([(True, {"CPU": 8.0}), (False, {"CPU": 8.0, "GPU": 2.0})], {"CPU": 2.0}),
        ([(True, {"CPU": 1.0})], {"CPU": 1.0}),
        ([(True, {"memory": 1.0}), (True, {"CPU": 1.5})], {"CPU": 1.5}),
    ],
)
def test_a_run_gets_a_gpu_where_there_is_one_or_two_cores(nodes, amounts):
    nodes = [{"Alive": alive, "Resources": resources} for alive, resources in nodes]
    cluster = types.SimpleNamespace(nodes=lambda: nodes)
    assert ray._amounts(cluster, None, is_own=True) == amounts


def test_where_only_the_head_is_up_and_has_no_cores_runs_wait_for_others(capsys):
    cluster = types.SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": {"CPU": 0.0}}])
    assert ray._amounts(cluster, None, is_own=False) == {"CPU": 2.0}
    assert "2 CPU, but the nodes have 0 CPU: the runs wait" in capsys.readouterr().err


def test_the_reason_of_a_failed_task_is_its_cause_without_terminal_codes():
    error = RuntimeError("\x1b[36mray::_run()\x1b[39m (pid=7)\n  File ...\nOSError: no disk")
    assert ray._reason(error) == r"\x1b[36mray::_run()\x1b[39m (pid=7)"
    error.cause = OSError("no disk")
    assert ray._reason(error) == "OSError: no disk"
