"""Processes on this machine that find each other like the tasks of a SLURM step."""

import contextlib
import os
import socket

import pytest


def environments(num_tasks: int) -> list[dict[str, str]]:
    """What srun would set, for each task; JAX makes the port of the job's number."""
    others = os.getpid()  # tests that run beside this one begin elsewhere
    for job in (number % 4_096 for number in range(others, others + 4_096)):
        with socket.socket() as socket_of_job, contextlib.suppress(OSError):
            socket_of_job.bind(("localhost", 61_440 + job))
            break
    else:
        pytest.fail("no port is free")
    return [
        {
            "SLURM_JOB_ID": str(job),
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NTASKS": str(num_tasks),
            "SLURM_STEP_NUM_TASKS": str(num_tasks),
            "SLURM_PROCID": str(number),
            "SLURM_LOCALID": str(number),
        }
        for number in range(num_tasks)
    ]
