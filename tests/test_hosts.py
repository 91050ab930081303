"""Two processes of two devices each do what one process of one device does."""

import functools
import http.server
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from ml_collections import ConfigDict

from experiments.run import record
from t2t_jax import hosts
from t2t_jax.cli import lines
from t2t_jax.cli import score as scoring
from t2t_jax.devices import make_devices
from t2t_jax.runs import workdir
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.score import score
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.train import train
from t2t_jax.training.metrics_file import read_metrics
from tests import fake_bucket, slurm_tasks
from tests.cli.command import command
from tests.data.text_corpus import sentence_pairs, write_pairs
from tests.runs.configs import smallest_config

REPOSITORY = Path(__file__).parents[1]
# What is said of a process that lost another.
ENDED = "t2t-jax: this process has ended before it was done: another host has stopped or cannot be"


@pytest.fixture(scope="module")
def config_of(tmp_path_factory):
    """Makes the config of a run of so many steps; 23 test sentences are no multiple of anything."""
    directory = tmp_path_factory.mktemp("corpus")
    pairs = sentence_pairs(120)
    for stem, own in (("train", pairs[:80]), ("dev", pairs[80:97]), ("test", pairs[97:])):
        write_pairs(directory, stem, own)

    def config(steps, **changes):
        fixed = {
            "data.source": "text",
            "data.directory": str(directory),
            "data.vocabulary_size": 60,
            "data.num_buckets": 1,
            # The gradient of a key's bias is rounding noise, which Adam makes full steps of.
            "model.attention_biases": False,
            "training.schedule": "peak",
            "training.steps": steps,
            "training.log_every_steps": 1,
            "training.evaluate_every_steps": 100_000,
            "training.checkpoint_every_steps": 2,
        }
        return smallest_config(directory / "cache", **fixed | changes)

    return config


@pytest.fixture
def sections_of(config_of):
    """The same as sections."""
    return lambda steps, **changes: read_sections(config_of(steps, **changes))


def start_host(*command: str, **environment: str) -> subprocess.Popen:
    """Starts `python command`, a host with two devices."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=REPOSITORY,
        env=os.environ
        | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2",
        }
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_two_hosts(*commands: Sequence[str]) -> list[subprocess.Popen]:
    """Starts `t2t-jax command`, one for each host, which find each other by flags."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    job = [f"--coordinator=localhost:{port}", "--num_processes=2"]
    return [
        start_host("-m", "t2t_jax.cli.main", *command, *job, f"--process_id={number}")
        for number, command in enumerate(commands)
    ]


def start_two_slurm_tasks(*command: str) -> list[subprocess.Popen]:
    """Starts `python command` twice, as srun would."""
    return [start_host(*command, **of_task) for of_task in slurm_tasks.environments(2)]


def write_config(path: Path, config: ConfigDict) -> Path:
    path.write_text(
        "from ml_collections import ConfigDict\n\n\ndef get_config():\n"
        f"    return ConfigDict({config.to_dict()!r}).lock()\n"
    )
    return path


def params_of(workdir: Path, step: int):
    directory = workdir / "checkpoints" / str(step) / "params"
    return ocp.StandardCheckpointer().restore(directory.resolve())


def losses_of(workdir: Path) -> list[float]:
    entries = read_metrics(workdir / "metrics.jsonl")
    return [entry["loss"] for entry in entries if entry["split"] == "train"]


@pytest.mark.slow
def test_a_run_that_is_handed_on_from_layout_to_layout_is_the_run_on_one_device(
    config_of, sections_of, tmp_path
):
    """1 device, 8, 2 hosts of 2, whose 20 steps and translations are the point, 1 device.

    The hosts do a run of a sweep, record and all.
    """
    relay, alone = tmp_path / "relay", tmp_path / "alone"
    train(sections_of(2), relay)
    train(sections_of(4, **{"devices.data": 4, "devices.fsdp": 2}), relay)
    config = config_of(24, **{"devices.data": 2, "devices.fsdp": 2}).to_dict()
    record.write_run(relay, record.Run("a_table", "a_row", {}, config["seed"], config, config))
    first, other = (
        (process, *process.communicate(timeout=300))
        for process in start_two_slurm_tasks("-m", "experiments.run", str(relay))
    )
    for process, _, errors in (first, other):
        assert process.returncode == 0, errors
    assert first[1].startswith(f"{relay / record.RECORD_FILE}: PPL ") and other[1] == ""
    assert "mesh of 4 x cpu on 2 hosts: replica 1, data 2, fsdp 2, tensor 1" in first[2]
    assert "train 24/24" in first[2] and "train" not in other[2]
    by_hosts = (relay / "translations" / "test.txt").read_text("utf-8").splitlines()
    train(sections_of(26), relay)

    train(sections_of(24), alone)
    scores = score(alone, "test")
    assert by_hosts == (alone / "translations" / "test.txt").read_text("utf-8").splitlines()
    assert len(by_hosts) == 23 and len(set(by_hosts)) > 1
    assert record.read_json(relay / record.RECORD_FILE)["scores"]["test"]["bleu"] == scores["bleu"]
    train(sections_of(26), alone)
    losses = [losses_of(workdir) for workdir in (relay, alone)]
    assert len(losses[0]) == 26
    assert losses[0][-1] < 0.9 * losses[0][0]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        params_of(relay, 26),
        params_of(alone, 26),
    )


@pytest.mark.slow
def test_hosts_do_a_run_in_a_bucket_and_another_pair_goes_on_with_it(
    config_of, sections_of, tmp_path, monkeypatch
):
    """Each has its own copy of the small files; the first one's are those in the bucket."""
    config = config_of(40, **{"devices.data": 2, "devices.fsdp": 2}).to_dict()
    record.write_run(tmp_path, record.Run("a_table", "a_row", {}, config["seed"], config, config))
    url = "gs://bkt/run"
    with fake_bucket.served(monkeypatch) as bucket:
        bucket.write(f"{url}/run.json", (tmp_path / "run.json").read_bytes())
        bucket.write(f"{url}/failure.json", b'{"error": "of an earlier try"}')
        command = ("-m", "tests.fake_bucket", "experiments.run", url)
        pair = start_two_slurm_tasks(*command)
        deadline = time.monotonic() + 240
        while f"{url}/checkpoints/4/commit_success.txt" not in bucket.writes:
            assert all(each.poll() is None for each in pair), pair[0].communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert f"{url}/failure.json" not in bucket and f"{url}/running.json" in bucket
        pair[1].send_signal(signal.SIGTERM)
        for process in pair:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 130, errors

        first, other = (
            (process, *process.communicate(timeout=300))
            for process in start_two_slurm_tasks(*command)
        )
        for process, _, errors in (first, other):
            assert process.returncode == 0, errors
        assert first[1].startswith(f"{url}/record.json: PPL ") and other[1] == ""
        assert "continuing after step " in first[2]
        # The other host writes parts of checkpoints, and nothing else.
        assert bucket.writes[-1] == f"{url}/record.json"
        for name in ("training.json", "record.json", "translations/test.txt"):
            assert bucket.writes.count(f"{url}/{name}") == 1, name
        (tmp_path / "metrics.jsonl").write_bytes(bucket.read(f"{url}/metrics.jsonl"))
        by_hosts = bucket.read(f"{url}/translations/test.txt").decode()
        scores = json.loads(bucket.read(f"{url}/record.json"))["scores"]

    alone = tmp_path / "alone"
    train(sections_of(40), alone)
    assert scores["test"]["bleu"] == score(alone, "test")["bleu"]
    assert by_hosts == (alone / "translations/test.txt").read_text("utf-8")
    np.testing.assert_allclose(losses_of(tmp_path), losses_of(alone), rtol=1e-5)
    assert len(losses_of(alone)) == 40


@pytest.mark.slow
def test_a_step_that_fails_on_hosts_in_a_bucket_is_kept_there_whole(
    config_of, tmp_path, monkeypatch
):
    wild = {"training.peak_learning_rate": 1e30, "devices.data": 4}
    config = config_of(8, **wild).to_dict()
    tuning = {"space": [], "trials": 2, "trial": 0, "point": {"seed": config["seed"]}}
    trial = record.Run("a_table", "a_row", {}, config["seed"], config, config, "steps", tuning)
    record.write_run(tmp_path, trial)
    url = "gs://bkt/run"
    with fake_bucket.served(monkeypatch) as bucket:
        bucket.write(f"{url}/run.json", (tmp_path / "run.json").read_bytes())
        pair = start_two_slurm_tasks("-m", "tests.fake_bucket", "experiments.run", url)
        for process in pair:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
        told = json.loads(bucket.read(f"{url}/record.json"))["diverged"]
        command = re.search(r"python -m (t2t_jax.runs.nonfinite gs://\S+) computes", told)
        assert command is not None, told
        again = start_host("-m", "tests.fake_bucket", *command[1].split())
        output, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert "gradients that are not finite: " in output and "none" not in output


def test_hosts_with_different_configs_are_told(config_of, tmp_path):
    path = write_config(tmp_path / "config.py", config_of(2))
    command = ["train", f"--config={path}", f"--workdir={tmp_path / 'run'}"]
    processes = start_two_hosts(
        *([*command, f"--config.training.warmup_steps={steps}"] for steps in (1, 2))
    )
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode != 0
        assert (
            "t2t-jax train: the config is not the same on all hosts: start all with the same "
            "command" in errors
        )
    assert not (tmp_path / "run").exists()


FAILS_ALONE = """
import sys, time
from t2t_jax import hosts
hosts.join()
if hosts.is_first():
    hosts.leave("why it ends", ERROR)
time.sleep(100)
"""


@pytest.mark.parametrize(
    ("error", "exit_code", "last_line"),
    [
        ("OSError()", 1, "why it ends"),
        ("TimeoutError()", -signal.SIGABRT, ENDED),
        ("jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: 9 GiB')", 1, "why it ends"),
    ],
)
def test_a_host_that_fails_alone_says_why_and_the_others_end_with_it(error, exit_code, last_line):
    program = "import jax\n" + FAILS_ALONE.replace("ERROR", error)
    first, other = start_two_slurm_tasks("-c", program)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == exit_code
    assert "why it ends" in errors and errors.splitlines()[-1].startswith(last_line)
    _, errors = other.communicate(timeout=60)
    assert other.returncode != 0
    assert errors.splitlines()[-1].startswith(ENDED)


def test_a_host_that_does_not_train_ends_when_it_is_told():
    program = "import time\nfrom t2t_jax import hosts\nhosts.join()\nprint('joined', flush=True)\n"
    first, other = start_two_slurm_tasks("-c", program + "time.sleep(100)")
    assert other.stdout is not None and other.stdout.readline() == "joined\n"
    other.send_signal(signal.SIGTERM)
    other.communicate(timeout=60)
    assert other.returncode == -signal.SIGTERM
    first.kill()
    first.communicate()


def test_hosts_that_share_no_disk_are_told(sections_of, tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "is_first", lambda: False)
    monkeypatch.setattr(workdir, "_SECONDS_TO_APPEAR", 0.0)
    sections = sections_of(2)
    prepared = prepare(sections)
    with pytest.raises(ValueError, match=f"{tmp_path} must be on a disk that all hosts share: "):
        workdir.write_run(tmp_path, sections, prepared)
    (tmp_path / "config.json").touch()
    workdir.write_run(tmp_path, sections, prepared)


def test_hosts_that_were_given_different_commands_are_told(sections_of, tmp_path, monkeypatch):
    trained = tmp_path / "w"
    train(sections_of(2), trained)
    compared = []
    monkeypatch.setattr(hosts, "check_same", lambda what, data, _: compared.append((what, data)))
    monkeypatch.setattr(hosts, "join", lambda *_, **__: None)
    monkeypatch.setattr(scoring, "main", lambda: None)
    for arguments in (
        ["--coordinator=localhost:1", "--process_id=0", "--debug"],
        ["--process_id", "1", "--coordinator", "10.0.0.1:1"],
        ["--process_id=1", "--checkpoint=4"],
    ):
        command("score", f"--workdir={trained}", "--split=dev", *arguments)
    ((what, first), *others) = [each for each in compared if each[0] == "the command"]
    assert first == f"--split=dev --workdir={trained} score".encode()
    assert [each == first for _, each in others] == [True, False]


@pytest.mark.slow
def test_where_a_host_dies_the_others_stop_and_the_job_resumes(config_of, sections_of, tmp_path):
    path = write_config(tmp_path / "config.py", config_of(100_000, **{"devices.data": -1}))
    workdir = tmp_path / "run"
    command = ["train", f"--config={path}", f"--workdir={workdir}"]
    survivor, victim = start_two_hosts(command, command)
    deadline = time.monotonic() + 240
    while not (workdir / "checkpoints" / "4").exists():
        assert survivor.poll() is None and victim.poll() is None, survivor.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    _, errors = survivor.communicate(timeout=120)
    victim.communicate()
    assert survivor.returncode != 0
    assert errors.splitlines()[-1].startswith(ENDED)
    assert "Traceback" not in errors and "most recent call" not in errors

    last = max(
        int(each.name) for each in (workdir / "checkpoints").iterdir() if each.name.isdigit()
    )
    train(sections_of(last + 1), workdir)
    assert [entry["step"] for entry in read_metrics(workdir / "metrics.jsonl")][-2:] == [
        last + 1,
        last + 1,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_one_host_is_asked_to_stop_and_all_save_the_same_step(config_of, tmp_path, number):
    """The other one, which is to be taken away; the first learns of it from JAX."""
    changes = {"devices.data": -1, "training.checkpoint_every_steps": 50_000}
    config = config_of(100_000, **changes)
    path = write_config(tmp_path / "config.py", config)
    workdir = tmp_path / "run"
    command = ["train", f"--config={path}", f"--workdir={workdir}"]
    processes = start_two_hosts(command, command)
    deadline = time.monotonic() + 240
    metrics = workdir / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < 3:
        assert all(each.poll() is None for each in processes), processes[0].communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    processes[1].send_signal(number)
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 130, errors
    [step] = [int(each.name) for each in (workdir / "checkpoints").iterdir()]
    assert [entry["step"] for entry in read_metrics(metrics)][-1] == step


def test_hosts_that_are_not_asked_to_stop_ask_each_other_nothing(monkeypatch):
    """A question would wait for all steps that have begun."""
    asked = []
    monkeypatch.setattr(hosts, "are_several", lambda: True)
    monkeypatch.setattr(hosts, "_stops_together", False)
    monkeypatch.setattr(hosts.multihost_utils, "process_allgather", lambda _: pytest.fail("asks"))

    def is_sync_point(number):
        asked.append(number)
        return len(asked) == 3

    monkeypatch.setattr(hosts.multihost_utils, "reached_preemption_sync_point", is_sync_point)
    assert [hosts.stop_together(True) for _ in range(5)] == [False, False, True, True, True]
    # Counted on, also where a run goes back and has the same step again.
    assert asked == list(range(asked[0], asked[0] + 5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a:1", None, 0), "--coordinator, --num_processes and --process_id go together"),
        ((None, 2, None), "--coordinator, --num_processes and --process_id go together"),
        (("a:1", 2, 2), "--process_id=2 must be from 0 to 1, as --num_processes=2"),
        (("a:1", 0, 0), "--num_processes=0 must be at least 1"),
        (("a", 2, 0), "--coordinator=a must be ADDRESS:PORT"),
        (("", 2, 0), "--coordinator= must be ADDRESS:PORT"),
    ],
)
def test_a_wrong_job_is_told(given, message):
    with pytest.raises(ValueError, match=message):
        hosts.join(*given)


@pytest.fixture
def joins(monkeypatch):
    """What JAX is asked to join, in an environment that speaks of nothing."""
    asked = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *given, **_: asked.append(given))
    for name in ("_keep_output_clean", "_have_a_witness"):
        monkeypatch.setattr(hosts, name, lambda: None)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    for name in os.environ:
        if name.startswith(("SLURM_", "TPU_", "MEGASCALE_", "CUDA_VISIBLE", "JAX_", "JOB_")):
            monkeypatch.delenv(name)
    return asked


@pytest.fixture
def metadata(monkeypatch):
    """Serves attributes of a virtual machine with a TPU, as Google Cloud does."""
    attributes = {}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            place, _, name = self.path.rpartition("/")
            known = place == "/computeMetadata/v1/instance/attributes" and name in attributes
            is_asked_rightly = self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200 if known and is_asked_rightly else 404)
            self.end_headers()
            self.wfile.write(attributes.get(name, "").encode())

        def log_message(self, *_):
            pass

    monkeypatch.setenv("TPU_ML_PLATFORM", "JAX")
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield attributes
        server.shutdown()


@pytest.mark.parametrize(
    ("attributes", "has_others"),
    [
        ({"worker-network-endpoints": "unknown:unknown:10.0.0.2,unknown:unknown:10.0.0.3"}, True),
        ({"worker-network-endpoints": "unknown:unknown:10.0.0.2"}, False),
        (
            {
                "worker-network-endpoints": "a",
                "tpu-env": "ZONE: 'us'\nMEGASCALE_NUM_SLICES: '2'\n",
            },
            True,
        ),
        ({"worker-network-endpoints": "a", "tpu-env": "MEGASCALE_NUM_SLICES: '1'"}, False),
        ({}, False),
    ],
)
def test_a_machine_with_a_tpu_is_asked_for_others(joins, metadata, attributes, has_others):
    metadata.update(attributes)
    hosts.join()
    assert bool(joins) == has_others


@pytest.mark.parametrize(
    "environment",
    [
        {"TPU_SKIP_MDS_QUERY": "1"},
        {"TPU_PROCESS_BOUNDS": "1,1,1"},
        {"JAX_PLATFORMS": "cpu"},
        {"TPU_ML_PLATFORM": ""},
    ],
)
def test_a_machine_without_a_tpu_asks_nobody(joins, metadata, monkeypatch, environment):
    metadata["worker-network-endpoints"] = "a,b"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hosts.join()
    assert joins == []


@pytest.mark.parametrize("name", ["TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"])
def test_the_environment_of_a_pod_tells_of_others_unless_a_host_is_to_work_alone(
    joins, monkeypatch, name
):
    monkeypatch.setenv(name, "a:8476,b:8476")
    hosts.join(detect=False)
    assert joins == []
    hosts.join()
    assert joins
    monkeypatch.setenv("TPU_PROCESS_BOUNDS", "1,1,1")  # a run of a chip of its own
    hosts.join()
    assert len(joins) == 1


WHO_AM_I = """
import jax
from t2t_jax import hosts
hosts.join()
print(hosts.is_first(), jax.process_index(), jax.process_count(), jax.device_count())
"""


def test_the_pods_of_an_indexed_job_find_each_other():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    pods = [
        start_host(
            *("-W", "error", "-c", WHO_AM_I),
            JOB_COMPLETION_INDEX=str(number),
            JAX_COORDINATOR_ADDRESS=f"localhost:{port}",
            JAX_NUM_PROCESSES="2",
            KUBERNETES_SERVICE_HOST="10.0.0.1",
        )
        for number in range(2)
    ]
    for number, pod in enumerate(pods):
        told, errors = pod.communicate(timeout=120)
        assert pod.returncode == 0, errors
        assert told.split() == [str(number == 0), str(number), "2", "4"]


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, []),  # the manifest says nothing: a pod alone
        ({"JAX_NUM_PROCESSES": "1", "JAX_COORDINATOR_ADDRESS": "a"}, []),
        (
            {"JAX_NUM_PROCESSES": "4", "JAX_COORDINATOR_ADDRESS": "a-0.a"},
            [("a-0.a:8482", 4, 3, None, "deactivate")],
        ),
        (  # of a TPU JAX knows the others
            {
                "JAX_NUM_PROCESSES": "4",
                "JAX_COORDINATOR_ADDRESS": "a-0.a:1",
                "TPU_WORKER_HOSTNAMES": "a,b,c,d",
            },
            [(None, None, None, None, None)],
        ),
    ],
)
def test_what_a_pod_joins(joins, monkeypatch, environment, asked):
    for name, value in ({"JOB_COMPLETION_INDEX": "3"} | environment).items():
        monkeypatch.setenv(name, value)
    if environment.get("JAX_NUM_PROCESSES") == "1":
        monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    hosts.join()
    assert joins == asked


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"JAX_NUM_PROCESSES": "4"}, "go together, and JAX_COORDINATOR_ADDRESS is not set"),
        ({"JAX_COORDINATOR_ADDRESS": "a"}, "go together, and JAX_NUM_PROCESSES is not set"),
        (
            {"JAX_NUM_PROCESSES": "3", "JAX_COORDINATOR_ADDRESS": "a"},
            "JOB_COMPLETION_INDEX=3 must be from 0 to one less than JAX_NUM_PROCESSES=3",
        ),
    ],
)
def test_a_wrong_manifest_is_told(joins, monkeypatch, environment, sentence):
    for name, value in ({"JOB_COMPLETION_INDEX": "3"} | environment).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        hosts.join()
    assert joins == []


@pytest.mark.parametrize(
    ("environment", "ids"),
    [
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, []),  # one task has all GPUs of its node
        ({"SLURM_STEP_TASKS_PER_NODE": "8(x2)", "CUDA_VISIBLE_DEVICES": "3"}, []),
        (
            {
                "SLURM_STEP_TASKS_PER_NODE": "2",
                "SLURM_GPUS_PER_TASK": "gpu:4",
                "CUDA_VISIBLE_DEVICES": "0,1,2,3",
            },
            [],
        ),
        (  # with --gpu-bind=none
            {
                "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
                "SLURM_GPUS_PER_TASK": "1",
                "CUDA_VISIBLE_DEVICES": "0,1,2,3",
            },
            None,
        ),
        ({"SLURM_STEP_TASKS_PER_NODE": "8(x2)", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}, None),
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)", "JAX_LOCAL_DEVICE_IDS": "1"}, None),
        ({}, None),
    ],
)
def test_which_gpus_a_task_of_slurm_has(joins, monkeypatch, environment, ids):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hosts.join()
    assert joins == [(None, None, None, ids, None)]


def test_devices_of_processes_that_have_not_joined_are_refused(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    with pytest.raises(ValueError, match="belong to 4 processes, .* give t2t-jax --distributed"):
        make_devices()


def test_what_hosts_must_agree_on_is_compared(sections_of, tmp_path, monkeypatch):
    train(sections_of(2), tmp_path)
    compared = {}
    monkeypatch.setattr(hosts, "check_same", lambda what, data, _: compared.update({what: data}))
    train(sections_of(2), tmp_path)
    checkpoints = tmp_path / "checkpoints"
    assert compared[
        f"the list of checkpoints in {checkpoints}, a disk that all hosts must share,"
    ] == (b"[2]")
    fingerprint = json.loads((tmp_path / "training.json").read_text())["data_fingerprint"]
    assert compared["the prepared corpus"] == fingerprint.encode()


def test_a_standard_output_that_is_closed_stays_so(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    hosts._keep_output_clean()
    assert sys.stdout is None


def test_standard_input_is_compared_between_hosts(monkeypatch):
    compared = []
    monkeypatch.setattr(hosts, "check_same", lambda what, data, _: compared.append((what, data)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    monkeypatch.setattr(lines, "BYTES_AT_ONCE", 5)
    assert list(lines.read_windows()) == [["one", "two"]]
    # The end too: another host may have more.
    assert compared == [("standard input", b"one\ntwo\n"), ("standard input", b"")]


def test_one_host_alone_is_the_first_and_waits_for_nobody(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "WARNING: could not determine, please set")
    hosts.join()
    assert hosts.is_first() and hosts.any_of(True) and not hosts.any_of(False)
    assert hosts.first_then_others(lambda: 3) == 3


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_is_the_one_that_joined_as_the_first(monkeypatch, number):
    """JAX counts the machines of a TPU slice in an order of its own."""
    monkeypatch.setattr(hosts, "are_several", lambda: True)
    monkeypatch.setattr(hosts.global_state, "process_id", number)
    monkeypatch.setattr(jax, "process_index", lambda: 1 - number)
    assert hosts.is_first() == (number == 0)


@pytest.mark.parametrize(("first", "order"), [(True, "work wait"), (False, "wait work")])
def test_the_first_host_works_before_the_others(monkeypatch, first, order):
    done = []
    monkeypatch.setattr(hosts, "is_first", lambda: first)
    monkeypatch.setattr(hosts, "wait", lambda what: done.append("wait"))
    hosts.first_then_others(lambda: done.append("work"))
    assert done == order.split()


@pytest.mark.parametrize(("flags", "expected"), [([False, True], True), ([False, False], False)])
def test_one_host_is_enough(monkeypatch, flags, expected):
    monkeypatch.setattr(hosts, "are_several", lambda: True)
    gather = functools.partial(lambda found, flag: found, np.array(flags))
    monkeypatch.setattr(hosts.multihost_utils, "process_allgather", gather)
    assert hosts.any_of(False) == expected
