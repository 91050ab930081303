"""A run that is moved between devices at random steps."""

import random
import socket
from pathlib import Path

import jax
import numpy as np

from tests.faults.count import Count
from tests.faults.trainings import Trainings, arrays, ended, measured

# So few that rounding stays within what tests/training/test_layouts.py allows.
_STEPS = 26


def moves(trainings: Trainings, directory: Path, num: int, seed: int) -> Count:
    """1 device, 8, two hosts of 2, 1: each such run must be that of one device, but for rounding.

    Its losses to 1e-5, its parameters to 1e-4, as tests/training/test_layouts.py has them.
    """
    draws = random.Random(seed)
    alone = directory / "alone"
    trainings.finish(alone, *_until(_STEPS))
    lost = []
    for number in range(num):
        steps = sorted(draws.sample(range(1, _STEPS), 3))
        workdir = directory / str(number)
        try:
            trainings.finish(workdir, *_until(steps[0]))
            eight = ("--config.devices.data=4", "--config.devices.fsdp=2")
            trainings.finish(workdir, *_until(steps[1]), *eight, devices=8)
            _on_two_hosts(trainings, workdir, steps[2])
            trainings.finish(workdir, *_until(_STEPS))
            _check_same(workdir, alone)
        except (AssertionError, RuntimeError, ValueError) as error:
            lost.append(f"moves after {steps}: {error}")
    return Count(
        "moved on over 1, 8, 2 x 2, 1 devices",
        num,
        tuple(lost),
        "2 x 2: two hosts; losses to 1e-5, parameters to 1e-4",
    )


def _until(step: int) -> tuple[str, ...]:
    return (f"--config.training.steps={step}",)


def _on_two_hosts(trainings: Trainings, workdir: Path, step: int) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = (*_until(step), "--config.devices.data=2", "--config.devices.fsdp=2")
    job = (f"--coordinator=localhost:{port}", "--num_processes=2")
    hosts = [
        trainings.start(workdir, *flags, *job, f"--process_id={number}", devices=2)
        for number in range(2)
    ]
    try:
        for host in hosts:
            ended(host)
    finally:
        for host in hosts:
            host.kill()  # one whose partner has failed


def _check_same(actual: Path, expected: Path) -> None:
    losses = [
        [(entry["step"], entry["loss"]) for entry in measured(workdir) if entry["split"] == "train"]
        for workdir in (actual, expected)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        *(arrays(workdir, _STEPS, "params") for workdir in (actual, expected)),
    )
