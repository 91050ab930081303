"""Runs as the jobs of one SLURM array, by submitit.

The workdir, the code and its Python environment are on disks that all nodes share. A job that is
preempted or reaches its time limit saves its state and is requeued. The jobs outlive the command
that submitted them; the same command follows them again.
"""

import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
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
    was_stopped,
)
from experiments.run import presence, record
from experiments.run.plain_text import counted, plain_text

_JOB_FILE = "slurm_job.json"
_POLL_SECONDS = 1.0
# If the cluster allows only short jobs, a long training is many of them in sequence.
_MOST_TIMEOUTS = 1000
# sacct may not know a job that was just submitted, and forgets one that ended long ago.
_SECONDS_UNTIL_KNOWN = 600.0
# SLURM warns all processes of a job before a preemption, and the one that started it only shortly
# before the end of the cluster's GraceTime.
_SECONDS_UNTIL_THE_WARNING = 1800.0
_SECONDS_TO_ANSWER = 60
_SIGNAL_DELAY = 90  # seconds, submitit's own: from its warning to the end of the time limit
_SECONDS_TO_REQUEUE = 30
_RULE = r"\n-{5,}\n"  # around the trace in submitit's errors
# Under submitit's names. A run is one task on one node, so there are none for their numbers.
_TEXT_OPTIONS = frozenset(
    "account comment constraint dependency exclude gres job_name mail_type mail_user mem "
    "mem_per_cpu mem_per_gpu nodelist partition qos".split()
)
_NUMBER_OPTIONS = frozenset(
    "cpus_per_gpu cpus_per_task gpus_per_node gpus_per_task signal_delay_s time".split()
)


class _Followed(NamedTuple):
    directory: Path
    job: Any
    since: float  # seconds since 1970: its first start, before that the first look at it
    sign: presence.Sign | None = None


def check_installed() -> None:
    """Raises ValueError if submitit is not installed or this machine has no SLURM."""
    if importlib.util.find_spec("submitit") is None:
        raise ValueError(
            "--launcher=slurm needs submitit: pip install -c constraints.txt -e '.[slurm]'"
        )
    for program in ("sbatch", "srun", "sacct"):
        if shutil.which(program) is None:
            raise ValueError(
                f"--launcher=slurm needs {program}, which is not on PATH here: a login node of the "
                "cluster has it"
            )
    asked = ["sacct", "--noheader", "--jobs=1"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER)
        reason = done.returncode and (done.stderr.strip() or f"exit code {done.returncode}")
    except subprocess.TimeoutExpired:
        reason = f"it is silent for {_SECONDS_TO_ANSWER} s"
    if reason:
        print(
            f"sacct does not answer ({plain_text(reason)}): of a job that SLURM ends, only the "
            "next command will know",
            file=sys.stderr,
        )


def checked(options: Mapping[str, str]) -> dict[str, str | int]:
    """The options under submitit's names, numbers as int.

    Raises:
      ValueError: one is unknown or not an integer, or the time is missing.
    """
    values: dict[str, str | int] = {}
    for name, value in options.items():
        if name in _TEXT_OPTIONS:
            values[name] = value
        elif name not in _NUMBER_OPTIONS:
            known = ", ".join(sorted(_TEXT_OPTIONS | _NUMBER_OPTIONS))
            raise ValueError(f"--slurm knows no option {name}; it knows {known}")
        elif not value.isdecimal() or int(value) < 1:
            raise ValueError(f"--slurm: {name}={value}; a whole number is needed, at least 1")
        else:
            values[name] = int(value)
    delay = values.get("signal_delay_s", _SIGNAL_DELAY)
    if not isinstance(delay, int) or delay < 2 * _SECONDS_TO_REQUEUE:
        raise ValueError(
            f"--slurm: signal_delay_s={delay}; at least {2 * _SECONDS_TO_REQUEUE} are needed, of "
            f"which the last {_SECONDS_TO_REQUEUE} queue the job again"
        )
    if "time" not in values:
        raise ValueError("--slurm needs time=MINUTES, after which a job saves and is queued again")
    return values


def launch(
    directories: Sequence[Path],
    *,
    options: Mapping[str, str | int],
    parallel: int | None = None,
    command: Sequence[str] = COMMAND,
) -> Generator[Event, None, None]:
    """Submits `command DIRECTORY` for each, or follows its existing job, until all have ended.

    Closing it leaves the jobs as they are.

    Args:
      options: of sbatch, see `checked`.
      parallel: jobs of the array at a time; by default as many as the cluster allows.
    """
    running = {directory: job for directory in directories if (job := _job_of(directory))}
    new = [directory for directory in directories if directory not in running]
    if new:
        running |= _submit(new, options, parallel, command)
        for directory in new:
            values = {"job_id": running[directory].job_id, "submitted": time.time()}
            record.write_json(directory / _JOB_FILE, values)
    followed = [_Followed(directory, running[directory], time.time()) for directory in directories]
    try:
        while followed:
            time.sleep(_POLL_SECONDS)
            for one in list(followed):
                sign, event = start_event(one.directory, one.sign)
                since = sign.started if sign is not None and one.sign is None else one.since
                followed[followed.index(one)] = one = one._replace(sign=sign, since=since)
                if event is not None:
                    yield event
                if one.job.done():
                    followed.remove(one)
                    (one.directory / _JOB_FILE).unlink(missing_ok=True)
                    yield _end(one)
    finally:
        if followed:
            _tell_what_goes_on([one.job.job_id for one in followed])


class _Runner:
    """The work of a job; submitit calls `checkpoint` when the job must make room."""

    _grace: float = process.GRACE_SECONDS  # of jobs submitted before it could be chosen

    def __init__(self, command: Sequence[str], code: str, grace: float) -> None:
        self._command = command
        self._code = code
        self._grace = grace  # seconds to save the state
        self._pid: int | None = None

    def __call__(self, directory: Path) -> int:
        """Runs it; returns its exit code."""
        started = process.start(directory, self._command, code=self._code)
        self._pid = started.pid
        exit_code = process.wait(started)
        if was_stopped(exit_code):
            # SLURM warned the run itself. It will warn submitit too, which then requeues the job.
            time.sleep(_SECONDS_UNTIL_THE_WARNING)
        return exit_code

    def checkpoint(self, directory: Path) -> Any:
        """Stops the run, which saves its state; returns the job to queue instead of this one."""
        from submitit.helpers import DelayedSubmission

        if self._pid is not None:
            _stop(self._pid, self._grace)
        presence.clear(directory)
        return DelayedSubmission(_Runner(self._command, self._code, self._grace), directory)


def _stop(pid: int, grace: float) -> None:
    # Not by the Popen object: this may interrupt its wait, which holds a lock.
    deadline = time.monotonic() + grace
    try:
        os.kill(pid, signal.SIGTERM)
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(process.POLL_SECONDS)
    except (ChildProcessError, ProcessLookupError):
        pass  # it has ended already


def _submit(
    directories: Sequence[Path],
    options: Mapping[str, str | int],
    parallel: int | None,
    command: Sequence[str],
) -> dict[Path, Any]:
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError

    _slurm_job()
    executor = SlurmExecutor(_folder(directories[0]), max_num_timeout=_MOST_TIMEOUTS)
    options = {"job_name": "t2t-jax", "signal_delay_s": _SIGNAL_DELAY, **options}
    if cores := options.get("cpus_per_task"):
        # Since SLURM 22.05, srun takes them no longer from sbatch.
        executor.update_parameters(srun_args=[f"--cpus-per-task={cores}"])
    executor.update_parameters(
        **options,
        array_parallelism=parallel or len(directories),
        # Also if a node fails, which the job itself cannot handle.
        additional_parameters={"requeue": True},
    )
    grace = float(options["signal_delay_s"]) - _SECONDS_TO_REQUEUE
    runner = _Runner(command, os.getcwd(), grace)
    for directory in directories:
        clear(directory)
    try:
        jobs = executor.map_array(runner, [directory.absolute() for directory in directories])
    except FailedJobError as error:
        raise ValueError(
            f"--slurm: sbatch refused: {str(error).strip().splitlines()[-1]}"
        ) from error
    return dict(zip(directories, jobs, strict=True))


def _folder(directory: Path) -> Path:
    """Directory for submitit's own files, in the workdir of the sweep."""
    return directory.absolute().parents[2] / "slurm"


@functools.cache
def _slurm_job() -> Any:
    """Submitit's class of jobs; to what watches them there, a suspended one had ended."""
    from submitit import SlurmJob
    from submitit.slurm.slurm import SlurmInfoWatcher

    class Watcher(SlurmInfoWatcher):
        def is_done(self, job_id: str, mode: str = "standard") -> bool:
            is_suspended = self.get_state(job_id, mode).upper() == "SUSPENDED"
            return not is_suspended and super().is_done(job_id, "cache")

    SlurmJob.watcher = Watcher(delay_s=SlurmJob.watcher._delay_s)
    return SlurmJob


def _job_of(directory: Path) -> Any:
    """The job submitted for this run, if it has not ended; else None."""
    job_file = directory / _JOB_FILE
    if not job_file.exists():
        return None
    values = record.read_json(job_file)
    job_id, submitted = values.get("job_id"), values.get("submitted")
    if not isinstance(job_id, str) or not record.is_number(submitted):
        raise ValueError(f"{job_file} does not say which job was submitted, and when: remove it")
    job = _slurm_job()(_folder(directory), job_id)
    if job.done(force_check=True):
        return None
    age = time.time() - submitted
    if job.watcher.get_state(job.job_id, mode="cache") == "UNKNOWN" and age > _SECONDS_UNTIL_KNOWN:
        return job if _is_queued(job_id) else None
    return job


def _is_queued(job_id: str) -> bool:
    """Whether SLURM itself still has a job of which its accounting says nothing."""
    if shutil.which("squeue") is None:
        return False
    asked = ["squeue", "--noheader", f"--jobs={job_id}"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.returncode == 0 and bool(done.stdout.strip())


def _end(one: _Followed) -> Event:
    seconds = max(0.0, time.time() - one.since)  # clocks of two machines differ
    if record.is_finished(one.directory):
        return ended(one.directory, seconds, 0)
    if not one.job.paths.result_pickle.exists():
        presence.clear(one.directory)
        return failed(one.directory, seconds, f"SLURM ended job {one.job.job_id}: {one.job.state}")
    error = one.job.exception()
    if error is None:
        return ended(one.directory, seconds, one.job.result())
    presence.clear(one.directory)
    said, *traces = re.split(_RULE, str(error))
    line = (traces[0] if traces else said).strip().splitlines()[-1]
    return failed(one.directory, seconds, f"SLURM job {one.job.job_id}: {line}")


def _tell_what_goes_on(job_ids: Sequence[str]) -> None:
    arrays = " ".join(sorted({job_id.partition("_")[0] for job_id in job_ids}))
    print(
        f"left to SLURM: {counted(len(job_ids), 'job')}; the same command follows what goes on, "
        f"and scancel {arrays} ends it",
        file=sys.stderr,
    )
