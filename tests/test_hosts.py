"""Two processes of two devices each do what one process of one device does."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from t2t_jax import hosts
from t2t_jax.cli.score import score
from t2t_jax.cli.train import train
from t2t_jax.training.metrics_file import read_metrics
from tests.cli.configs import smallest_config
from tests.data.text_corpus import sentence_pairs, write_pairs

REPOSITORY = Path(__file__).parents[1]


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


def start_two_hosts(module: str, *arguments: Sequence[str]) -> list[subprocess.Popen]:
    """Starts `python -m module`, each process with arguments of its own and two devices."""
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, *own],
            cwd=REPOSITORY,
            env=os.environ
            | {
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for own in arguments
    ]


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


def params_of(workdir: Path, step: int):
    directory = workdir / "checkpoints" / str(step) / "params"
    return ocp.StandardCheckpointer().restore(directory.resolve())


def test_a_run_that_is_handed_on_from_layout_to_layout_is_the_run_on_one_device(
    config_of, tmp_path
):
    """1 device, 8, 2 hosts of 2, whose 20 steps and translations are the point, 1 device."""
    relay, alone = tmp_path / "relay", tmp_path / "alone"
    train(config_of(2), relay)
    train(config_of(4, **{"devices.data": 4, "devices.fsdp": 2}), relay)
    of_hosts = config_of(24, **{"devices.data": 2, "devices.fsdp": 2}).to_json()
    port = free_port()
    first, other = (
        (process, *process.communicate(timeout=300))
        for process in start_two_hosts(
            "tests.one_of_two_hosts",
            *([str(number), port, str(relay), of_hosts] for number in range(2)),
        )
    )
    for process, _, errors in (first, other):
        assert process.returncode == 0, errors
    assert "mesh of 4 x cpu on 2 hosts: replica 1, data 2, fsdp 2, tensor 1" in first[2]
    assert "train 24/24" in first[2] and "train" not in other[2]
    by_hosts = (relay / "translations" / "test.txt").read_text("utf-8").splitlines()
    train(config_of(26), relay)

    train(config_of(24), alone)
    score(alone, "test")
    assert by_hosts == (alone / "translations" / "test.txt").read_text("utf-8").splitlines()
    assert len(by_hosts) == 23 and len(set(by_hosts)) > 1
    train(config_of(26), alone)
    losses = [
        [
            entry["loss"]
            for entry in read_metrics(workdir / "metrics.jsonl")
            if entry["split"] == "train"
        ]
        for workdir in (relay, alone)
    ]
    assert len(losses[0]) == 26
    assert losses[0][-1] < 0.9 * losses[0][0]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        params_of(relay, 26),
        params_of(alone, 26),
    )


def test_hosts_with_different_configs_are_told(config_of, tmp_path):
    port = free_port()
    configs = [config_of(2, **{"training.warmup_steps": steps}).to_json() for steps in (1, 2)]
    processes = start_two_hosts(
        "tests.one_of_two_hosts",
        *([str(number), port, str(tmp_path / "run"), configs[number]] for number in range(2)),
    )
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode != 0
        assert "ValueError: the config is not the same on all hosts" in errors
    assert not (tmp_path / "run").exists()


def test_where_a_host_dies_the_others_stop_and_the_job_resumes(config_of, tmp_path):
    path = tmp_path / "config.py"
    config = config_of(100_000, **{"devices.data": -1})
    path.write_text(
        "from ml_collections import ConfigDict\n\n\ndef get_config():\n"
        f"    return ConfigDict({config.to_dict()!r}).lock()\n"
    )
    workdir, port = tmp_path / "run", free_port()
    command = ["train", f"--config={path}", f"--workdir={workdir}"]
    command += [f"--coordinator=localhost:{port}", "--num_processes=2"]
    survivor, victim = start_two_hosts(
        "t2t_jax.cli.main", *([*command, f"--process_id={number}"] for number in range(2))
    )
    deadline = time.monotonic() + 240
    while not (workdir / "checkpoints" / "4").exists():
        assert survivor.poll() is None and victim.poll() is None, survivor.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    _, errors = survivor.communicate(timeout=120)
    victim.communicate()
    assert survivor.returncode != 0
    assert errors.splitlines()[-1].startswith(
        "t2t-jax: this process has ended before it was done: another host has stopped or cannot be"
    )
    assert "Traceback" not in errors and "most recent call" not in errors

    last = max(
        int(each.name) for each in (workdir / "checkpoints").iterdir() if each.name.isdigit()
    )
    train(config_of(last + 1), workdir)
    assert [entry["step"] for entry in read_metrics(workdir / "metrics.jsonl")][-2:] == [
        last + 1,
        last + 1,
    ]


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


def test_one_host_alone_is_the_first_and_waits_for_nobody(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "WARNING: could not determine, please set")
    hosts.join()
    assert hosts.is_first() and hosts.any_of(True) and not hosts.any_of(False)
    assert hosts.first_then_others(lambda: 3) == 3
