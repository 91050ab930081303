"""Runs on this machine, with a stand-in for the training and for the drivers' device files."""

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest

from experiments.launchers import local, process
from experiments.run import presence
from tests.experiments import pretended_run
from tests.experiments.sweeps import prepared
from tests.experiments.waiting import wait_until

TPU_VARIABLES = (
    "TPU_VISIBLE_CHIPS",
    "TPU_VISIBLE_DEVICES",
    "TPU_CHIPS_PER_PROCESS_BOUNDS",
    "TPU_PROCESS_BOUNDS",
)


@pytest.fixture
def launch():
    return functools.partial(local.launch, command=pretended_run.COMMAND)


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Makes so many device files of GPUs."""
    monkeypatch.setattr(local, "_GPU_FILES", str(tmp_path / "nvidia") + "[0-9]*")
    monkeypatch.setattr(local, "_OTHER_ACCELERATOR_FILES", ())
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", *TPU_VARIABLES):
        monkeypatch.delenv(name, raising=False)

    def make(number):
        for index in range(number):
            (tmp_path / f"nvidia{index}").touch()
        (tmp_path / "nvidiactl").touch()

    return make


@pytest.fixture
def chips(tmp_path, monkeypatch, gpus):
    """Makes so many device files of TPU chips, as Cloud TPU has them since v5p."""
    (tmp_path / "vfio").mkdir()
    patterns = (str(tmp_path / "accel[0-9]*"), str(tmp_path / "vfio/[0-9]*"))
    monkeypatch.setattr(local, "_TPU_FILES", patterns)

    def make(number, on_bus=None):
        for index in range(number):
            (tmp_path / f"vfio/{index}").touch()
        (tmp_path / "vfio/vfio").touch()
        found = number if on_bus is None else on_bus
        monkeypatch.setattr(local, "_chips_on_bus", lambda: found)

    return make


def _wait_for(path: Path) -> str:
    """The text of a file that a process is about to write."""
    wait_until(lambda: path.exists() and path.read_text())
    return path.read_text()


def test_closing_the_launcher_ends_its_processes(tmp_path, launch):
    directories = prepared(tmp_path, "no_positions")
    start = time.monotonic()
    with closing(launch(directories, parallel=1)) as events:
        assert next(events).kind == "started"
        wait_until((directories[0] / "times_run").exists)
    assert time.monotonic() - start < 30
    assert not (directories[0] / "record.json").exists()
    assert not (directories[0] / "failure.json").exists()
    assert presence.read(directories[0]) is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system pins no processes")
def test_processes_share_the_cores_without_overlap():
    cores = sorted(os.sched_getaffinity(0))
    shares = local._shares(len(cores))
    assert sorted(core for share in shares for core in share.cores) == cores
    assert all(share.cores for share in local._shares(2 * len(cores) + 1))


def test_a_parallel_of_zero_is_refused():
    with pytest.raises(ValueError, match="parallel=0"):
        local.launch([], parallel=0)


def test_on_a_gpu_box_each_run_has_its_own(tmp_path, gpus, launch):
    gpus(2)
    directories = prepared(tmp_path, "base,learned_positions")
    events = list(launch(directories))
    # Both start before one ends: as many at a time as there are GPUs.
    assert [event.kind for event in events] == ["started", "started", "finished", "finished"]
    environments = [json.loads((path / "environment").read_text()) for path in directories]
    assert [values["CUDA_VISIBLE_DEVICES"] for values in environments] == ["0", "1"]
    assert "XLA_CLIENT_MEM_FRACTION" not in environments[0]


def test_as_many_runs_share_each_gpu_as_are_asked_for(tmp_path, gpus, launch):
    gpus(2)
    directories = prepared(tmp_path, "base,learned_positions", num_seeds=2)
    events = launch(directories, parallel=local.parallel_on_gpus(2))
    assert [event.kind for event in events] == ["started"] * 4 + ["finished"] * 4
    environments = [json.loads((path / "environment").read_text()) for path in directories]
    assert [values["CUDA_VISIBLE_DEVICES"] for values in environments] == ["0", "0", "1", "1"]
    assert {values["XLA_CLIENT_MEM_FRACTION"] for values in environments} == {"0.38"}


def test_gpus_are_cut_over_fewer_runs_and_shared_by_more(gpus):
    gpus(11)

    def visible(num_slots):
        return [share.environment["CUDA_VISIBLE_DEVICES"] for share in local._shares(num_slots)]

    assert visible(2) == ["0,1,2,3,4", "5,6,7,8,9,10"]
    assert sorted(visible(11), key=int) == [str(index) for index in range(11)]
    shares = local._shares(22)
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in shares[:4]] == [
        "0", "0", "1", "1",
    ]  # fmt: skip
    assert {share.environment["XLA_CLIENT_MEM_FRACTION"] for share in shares} == {"0.38"}


@pytest.mark.parametrize("name", process._MEMORY_VARIABLES)
def test_memory_that_a_person_has_set_is_left_as_it_is(monkeypatch, name):
    monkeypatch.setenv(name, "0.5")
    assert process.gpu_memory(0.5) == {}


def test_only_the_gpus_that_are_visible_are_used(gpus, monkeypatch):
    gpus(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-8932f937")
    assert local.default_parallel() == 2
    assert local._shares(2)[1].environment["CUDA_VISIBLE_DEVICES"] == "GPU-8932f937"
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert local._shares(1)[0].environment == {}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert local.default_parallel() == 4
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert local._shares(1)[0].environment == {}


def test_a_container_counts_its_gpus_from_zero(gpus, tmp_path):
    for name in ("nvidia6", "nvidia7"):
        (tmp_path / name).touch()
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in local._shares(2)] == ["0", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of the dead")
def test_a_run_does_not_outlive_a_launcher_that_is_killed(tmp_path, launch):
    [directory] = prepared(tmp_path, "no_positions")
    code = f"""
        from pathlib import Path
        from experiments.launchers import local
        list(local.launch([Path({str(directory)!r})], parallel=1,
                          command={launch.keywords["command"]!r}))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) as launcher:
        pid = int(_wait_for(directory / "pid"))
        launcher.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and _state(pid) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_gpu_that_has_become_free_is_the_next_runs(tmp_path, gpus, launch):
    gpus(2)
    names = ("base", "no_positions", "learned_positions")
    by_row = {path.parent.name: path for path in prepared(tmp_path, ",".join(names))}
    short, long, last = (by_row[name] for name in names)
    with closing(launch([short, long, last])) as events:
        next(event for event in events if event.directory == last and event.kind == "started")
        environment = json.loads(_wait_for(last / "environment"))
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"  # the long one has the other


def test_the_share_of_a_run_is_stronger_than_the_environment(tmp_path, gpus, launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    directories = prepared(tmp_path, "base,learned_positions")
    list(launch(directories))
    environments = [json.loads((path / "environment").read_text()) for path in directories]
    assert [values["CUDA_VISIBLE_DEVICES"] for values in environments] == ["2", "3"]


def test_a_run_stays_on_its_cores(tmp_path, gpus, launch, monkeypatch):
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(local, "own_cores", lambda: [core])
    [directory] = prepared(tmp_path, "no_positions")
    with closing(launch([directory], parallel=1)) as events:
        next(events)
        pid = int(_wait_for(directory / "pid"))
        assert os.sched_getaffinity(pid) == {core}


def test_as_many_runs_at_a_time_as_cores_allow(gpus, monkeypatch):
    monkeypatch.setattr(local, "own_cores", lambda: list(range(9)))
    assert (local.default_parallel(), local.default_parallel(cores_per_run=1)) == (4, 9)


def _environment(directory):
    return json.loads((directory / "environment").read_text())


def test_on_a_tpu_host_each_run_has_a_chip_of_its_own(tmp_path, chips, launch):
    chips(4)
    directories = prepared(tmp_path, "base,learned_positions", num_seeds=2)
    events = [event.kind for event in launch(directories)]
    assert events == ["started"] * 4 + ["finished"] * 4
    environments = [_environment(directory) for directory in directories]
    assert [each["TPU_VISIBLE_CHIPS"] for each in environments] == ["0", "1", "2", "3"]
    for each in environments:
        assert each["TPU_CHIPS_PER_PROCESS_BOUNDS"] == each["TPU_PROCESS_BOUNDS"] == "1,1,1"
        assert "CUDA_VISIBLE_DEVICES" not in each and "XLA_CLIENT_MEM_FRACTION" not in each


def test_a_chip_is_given_back_when_its_run_ends_fails_or_is_killed(tmp_path, chips, launch):
    """Twelve runs on two chips: one row fails, one is killed; no two are ever on one chip."""
    chips(2)
    directories = prepared(tmp_path, "base,one_head,one_layer,learned_positions", num_seeds=3)
    on_chips, used = set(), []
    for event in launch(directories):
        if event.kind == "started":
            _wait_for(event.directory / "environment")
            chip = _environment_when_whole(event.directory)["TPU_VISIBLE_CHIPS"]
            assert chip not in {taken for _, taken in on_chips}
            on_chips.add((event.directory, chip))
            used.append(chip)
        else:
            on_chips = {pair for pair in on_chips if pair[0] != event.directory}
    assert not on_chips and len(used) == 12 and set(used) == {"0", "1"}
    killed = [path for path in directories if path.parent.name == "one_layer"]
    assert all("killed by signal 9" in (path / "failure.json").read_text() for path in killed)


def _environment_when_whole(directory):
    deadline = time.monotonic() + 30
    while True:
        try:
            return _environment(directory)
        except ValueError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_run_that_is_alone_has_all_chips(tmp_path, chips, launch):
    chips(4)
    [directory] = prepared(tmp_path, "base")
    list(launch([directory]))
    assert not {name for name in TPU_VARIABLES if name in _environment(directory)}
    assert [share.environment for share in local._shares(1)] == [{}]


def test_more_runs_than_chips_are_refused(tmp_path, chips, launch):
    chips(2)
    with pytest.raises(
        ValueError, match="parallel=3 runs at a time; this host has 2 TPU chips, and each"
    ):
        launch(prepared(tmp_path, "base"), parallel=3)


def test_only_the_chips_that_are_visible_are_used(chips, monkeypatch):
    chips(4)
    assert local.default_parallel() == 4
    monkeypatch.setenv("TPU_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "1, 3")
    visible = [share.environment["TPU_VISIBLE_CHIPS"] for share in local._shares(2)]
    assert visible == ["1", "3"] and local.default_parallel() == 2
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert [share.environment for share in local._shares(2)] == [{}, {}]


@pytest.mark.parametrize(("files", "on_bus", "number"), [(4, 0, 0), (1, 8, 1), (8, 8, 8)])
def test_other_devices_and_other_containers_chips_are_not_counted(chips, files, on_bus, number):
    chips(files, on_bus)
    assert len(local._tpu_chips()) == number
