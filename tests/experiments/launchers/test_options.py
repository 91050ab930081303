"""How the flags choose a launcher."""

import os
import types

import pytest

from configs import multi30k
from experiments.launchers import local, options, ray, slurm, tpu_vm

FLAGS = dict.fromkeys(
    ("base", "parallel", "runs_per_gpu", "resources", "ray_address", "slurm", "tpu")
)


def _values(**flags):
    return types.SimpleNamespace(**{"launcher": "local", **FLAGS, **flags})


def test_the_launcher_gets_its_options(monkeypatch):
    chosen = options.chosen(_values(parallel=3))
    assert chosen.launch.func is local.launch and chosen.launch.keywords == {"parallel": 3}
    monkeypatch.setattr(local, "_gpus", lambda: ["0", "1", "2"])
    chosen = options.chosen(_values(runs_per_gpu=2))
    assert chosen.launch.keywords == {"parallel": 6}
    half = {"CUDA_VISIBLE_DEVICES": "0", "XLA_CLIENT_MEM_FRACTION": "0.38"}
    assert chosen.share(99).environment == half  # of the first of three GPUs
    assert chosen.share(2).environment == {"CUDA_VISIBLE_DEVICES": "0"}
    chosen = options.chosen(_values(launcher="ray", resources='{"GPU": 0.5}', ray_address="auto"))
    assert chosen.launch.func is ray.launch and chosen.shares_files
    assert chosen.share is None
    assert chosen.launch.keywords["resources"] == {"GPU": 0.5}
    assert chosen.launch.keywords["address"] == "auto"
    monkeypatch.setattr(slurm, "check_installed", lambda: None)
    chosen = options.chosen(_values(launcher="slurm", slurm="time=9, exclude=n1,n2,partition=p"))
    assert chosen.launch.keywords["options"]["exclude"] == "n1,n2"
    monkeypatch.setattr(tpu_vm, "check_installed", lambda: None)
    chosen = options.chosen(
        _values(launcher="tpu_vm", tpu="project=p, zone=z,type=v4-8,bucket=gs://b/d/")
    )
    assert chosen.launch.func is tpu_vm.launch and not chosen.shares_files
    assert chosen.launch.keywords["request"].bucket == "gs://b/d"


def test_gcloud_without_an_account_is_told_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    gcloud = tmp_path / "gcloud"
    gcloud.write_text("#!/bin/sh\necho 'ERROR: no active account' >&2\nexit 1\n")
    gcloud.chmod(0o755)
    with pytest.raises(ValueError, match="no account that works .*: ERROR: no active account"):
        options.chosen(_values(launcher="tpu_vm", tpu=""))
    gcloud.write_text("#!/bin/sh\necho token\n")
    with pytest.raises(ValueError, match="--tpu needs project"):
        options.chosen(_values(launcher="tpu_vm", tpu=""))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"resources": "{}"}, "--resources is for --launcher=ray; this is --launcher=local"),
        ({"launcher": "ray", "slurm": "time=3"}, "--slurm is for --launcher=slurm"),
        ({"parallel": 0}, "--parallel=0 runs at a time; at least 1"),
        ({"runs_per_gpu": 0}, "--runs_per_gpu=0 runs at a time; at least 1"),
        ({"runs_per_gpu": 2, "parallel": 4}, "--parallel and --runs_per_gpu are two answers"),
        ({"runs_per_gpu": 2}, "--runs_per_gpu=2: no GPU is here"),
        ({"runs_per_gpu": 2, "launcher": "ray"}, "--runs_per_gpu is for --launcher=local"),
        ({"launcher": "ray", "resources": "{CPU: 2}"}, "is not a JSON object of positive numbers"),
        (
            {"launcher": "ray", "resources": '{"CPU": "2"}'},
            "is not a JSON object of positive numbers",
        ),
        (
            {"launcher": "ray", "resources": '{"CPU": 0}'},
            "is not a JSON object of positive numbers",
        ),
        ({"launcher": "slurm", "slurm": "time"}, "--slurm: 'time' is not NAME=VALUE"),
        ({"launcher": "slurm", "slurm": "time=1,time=2"}, "--slurm has time twice"),
        ({"launcher": "tpu_vm", "base": multi30k.get_config()}, "files of this machine, which a"),
    ],
)
def test_an_option_that_is_wrong_is_told_in_a_sentence(flags, sentence, monkeypatch):
    monkeypatch.setattr("experiments.launchers.slurm.check_installed", lambda: None)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(ValueError, match=sentence):
        options.chosen(_values(**flags))
