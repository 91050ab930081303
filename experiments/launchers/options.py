"""The launchers by name, and the flags that choose and configure one."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl import flags

from experiments.launchers import local
from experiments.launchers.event import Launch

_OWN_FLAGS = {
    "runs_per_gpu": "local",
    "resources": "ray",
    "ray_address": "ray",
    "slurm": "slurm",
    "tpu": "tpu_vm",
}


class Chosen(NamedTuple):
    """A launcher with its options."""

    launch: Launch
    shares_files: bool  # whether its runs read and write the files of this machine
    # What one of so many runs gets, if they run where the sweep does.
    share: Callable[[int], local.Share] | None = None


LOCAL = Chosen(local.launch, shares_files=True, share=local.share_of_one)


def define_flags() -> None:
    """The flags of all launchers."""
    flags.DEFINE_enum(
        "launcher",
        "local",
        ["local", "ray", "slurm", "tpu_vm"],
        "where the runs go: this machine, a Ray cluster, a SLURM cluster, Cloud TPU slices",
    )
    flags.DEFINE_integer(
        "parallel",
        None,
        "runs at a time (default: local: one per GPU or TPU chip, else one per two cores; 1 gives "
        "a run all TPU chips; ray and slurm: as many as fit; tpu_vm: one slice)",
    )
    flags.DEFINE_integer(
        "runs_per_gpu",
        None,
        "local: runs at a time on each GPU, instead of --parallel; they share its memory",
    )
    flags.DEFINE_string(
        "resources",
        None,
        'ray: what a run gets, such as {"CPU": 2}, {"GPU": 1} or {"TPU": 4} (default: {"GPU": 1} '
        'if the cluster has GPUs, else {"CPU": 2})',
    )
    flags.DEFINE_string(
        "ray_address",
        None,
        "ray: a running cluster, host:port or auto (default: RAY_ADDRESS, else this machine alone)",
    )
    flags.DEFINE_string(
        "slurm",
        None,
        "slurm: sbatch options by submitit's names, time in minutes, such as "
        "partition=gpu,time=600,gpus_per_node=1,cpus_per_task=8",
    )
    flags.DEFINE_string(
        "tpu",
        None,
        "tpu_vm: project=P,zone=Z,type=v5litepod-8,bucket=gs://B/D; optionally version=RUNTIME, "
        "spot=true, reserved=true or provisioning_model=flex-start, max_run_duration=4h, "
        "reservation=, service_account=, network=, subnetwork=, labels=NAME=VALUE;...; "
        "share=ADDRESS:/PATH, an NFS 4.1 share where several hosts work instead of in the bucket; "
        "each directory D of the bucket belongs to one workdir",
    )


def chosen(values: Any) -> Chosen:
    """The launcher named by the flags, which are attributes of `values`.

    Raises:
      ValueError: an option is wrong, missing, or another launcher's; or a requirement of the
        launcher is not installed.
    """
    check(values)
    return _CHOICES[values.launcher](values)


def check(values: Any) -> None:
    """Checks the flags as far as possible without the launcher, which may not be installed.

    Raises:
      ValueError: an option is wrong, or another launcher's.
    """
    name = values.launcher
    for flag, owner in _OWN_FLAGS.items():
        if getattr(values, flag) is not None and owner != name:
            raise ValueError(f"--{flag} is for --launcher={owner}; this is --launcher={name}")
    for flag in ("parallel", "runs_per_gpu"):
        number = getattr(values, flag)
        if number is not None and number < 1:
            raise ValueError(f"--{flag}={number} runs at a time; at least 1 is needed")
    if values.parallel is not None and values.runs_per_gpu is not None:
        raise ValueError("--parallel and --runs_per_gpu are two answers to one question")
    source = values.base.data.source if values.base is not None else "embedded"
    if name == "tpu_vm" and source not in ("tfds", "embedded"):
        raise ValueError(
            f"--launcher=tpu_vm: data.source={source!r} is files of this machine, which a slice "
            "does not have; it has 'tfds' and 'embedded'"
        )


def _local(values: Any) -> Chosen:
    parallel = values.parallel
    if values.runs_per_gpu is not None:
        parallel = local.parallel_on_gpus(values.runs_per_gpu)
    launch = functools.partial(local.launch, parallel=parallel)
    share = functools.partial(local.share_of_one, parallel=parallel)
    return Chosen(launch, shares_files=True, share=share)


def _ray(values: Any) -> Chosen:
    from experiments.launchers import ray

    ray.check_installed()
    launch = functools.partial(
        ray.launch,
        resources=None if values.resources is None else _resources(values.resources),
        address=values.ray_address,
        parallel=values.parallel,
    )
    return Chosen(launch, shares_files=True)


def _slurm(values: Any) -> Chosen:
    from experiments.launchers import slurm

    slurm.check_installed()
    options = slurm.checked(_pairs("slurm", values.slurm or ""))
    launch = functools.partial(slurm.launch, options=options, parallel=values.parallel)
    return Chosen(launch, shares_files=True)


def _tpu_vm(values: Any) -> Chosen:
    from experiments.launchers import gcloud, tpu_vm

    tpu_vm.check_installed()
    request = gcloud.request_of(_pairs("tpu", values.tpu or ""))
    launch = functools.partial(tpu_vm.launch, request=request, parallel=values.parallel or 1)
    return Chosen(launch, shares_files=False)


_CHOICES: Mapping[str, Callable[[Any], Chosen]] = {
    "local": _local,
    "ray": _ray,
    "slurm": _slurm,
    "tpu_vm": _tpu_vm,
}


def _resources(text: str) -> dict[str, float]:
    """Parses Ray resources; raises ValueError if `text` is none."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if (
        not isinstance(values, dict)
        or not values
        or any(type(amount) not in (int, float) or amount <= 0 for amount in values.values())
    ):
        raise ValueError(
            f"--resources={text} is not a JSON object of positive numbers; "
            """one would be --resources='{"CPU": 2}'"""
        )
    return values


def _pairs(flag: str, text: str) -> dict[str, str]:
    """The pairs of "a=b,c=d"; in "a=b,c" the value of a is "b,c".

    Raises:
      ValueError: the first part has no "=", or a name occurs twice.
    """
    pairs: dict[str, str] = {}
    name = ""
    for part in filter(None, (part.strip() for part in text.split(","))):
        if name and "=" not in part:
            pairs[name] += f",{part}"
            continue
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"--{flag}: {part!r} is not NAME=VALUE")
        if name in pairs:
            raise ValueError(f"--{flag} has {name} twice")
        pairs[name] = value
    return pairs
