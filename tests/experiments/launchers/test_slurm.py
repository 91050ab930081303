"""Runs as SLURM jobs, with stand-ins for SLURM's programs."""

import json
import os
import subprocess
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

# Here, where nothing is captured for one test alone: its import has logging close all handlers, and
# absl's closes what it writes to unless that is sys.stderr at that moment.
import submitit

from experiments.launchers import slurm
from t2t_jax.json_files import write_json
from tests.experiments.launchers import counting_run, fake_slurm
from tests.experiments.sweeps import prepared

OPTIONS = {"time": 60, "partition": "gpu", "gpus_per_node": 1}


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The directory of the cluster that stands in for one."""
    for name, value in fake_slurm.install(tmp_path / "bin", tmp_path / "slurm").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0.04")
    monkeypatch.setattr(slurm, "_POLL_SECONDS", 0.2)
    return tmp_path / "slurm"


def _calls(state, program):
    calls = [json.loads(line) for line in (state / "calls.jsonl").read_text().splitlines()]
    return [arguments for name, *arguments in calls if name == program]


def _steps(directory):
    return [step for step, _ in counting_run.steps_of(directory)]


def _wait_for_step(directory, step):
    deadline = time.monotonic() + 60
    while len(_steps(directory)) < step:
        assert time.monotonic() < deadline, (directory / "log.txt").read_text()
        time.sleep(0.05)


def _launch(directories, **options):
    return closing(
        slurm.launch(directories, options=OPTIONS, command=counting_run.COMMAND, **options)
    )


def test_what_sbatch_refuses_is_told_in_a_sentence(tmp_path, state):
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition specified: typo' >&2\nexit 1\n"
    )
    with pytest.raises(ValueError, match=r"--slurm: sbatch refused: .*invalid partition.*: typo"):
        with _launch(prepared(tmp_path / "work", "base")) as events:
            list(events)


def test_a_preempted_job_saves_is_queued_again_and_goes_on(tmp_path, state):
    preempted, failing = prepared(tmp_path / "work", "base,one_head")
    (preempted / "pause").write_text("7")
    with _launch([preempted, failing], parallel=2) as events:
        seen = [next(events)]
        while seen[-1].kind != "failed":
            seen.append(next(events))
        _wait_for_step(preempted, 7)
        # As SLURM does: everybody is told, then who is to queue the job again.
        subprocess.run(["scancel", "70_0", "--signal", "SIGTERM"], check=True)
        (preempted / "pause").write_text("20")  # when it goes on
        subprocess.run(["scancel", "70_0", "--signal", "SIGUSR2"], check=True)
        seen.append(next(events))
        (preempted / "pause").unlink()
        seen += events
    of_failing = [event for event in seen if event.directory == failing]
    assert of_failing[-1].reason == "exit code 1: no such thing"
    of_preempted = [event for event in seen if event.directory == preempted]
    assert [event.kind for event in of_preempted] == ["started", "started", "finished"]
    assert of_preempted[1].reason.startswith("again on ")
    assert _calls(state, "scontrol") == [["requeue", "70_0"]]
    # Nothing was done twice: it had saved its state when it was told.
    assert _steps(preempted) == list(range(1, 41))
    script = (state / "70.sh").read_text()
    for line in ("array=0-1%2", "partition=gpu", "time=60", "gpus-per-node=1", "requeue"):
        assert f"#SBATCH --{line}\n" in script


def test_the_reason_of_an_error_in_a_job_is_the_last_line_of_its_trace(tmp_path):
    [directory] = prepared(tmp_path, "base")
    rule = "-" * 22
    trace = "Traceback (most recent call last):\n  File ...\nModuleNotFoundError: no experiments\n"
    error = RuntimeError(
        f"Job (task=0) failed during processing with trace:\n{rule}\n{trace}\n{rule}\n"
        "You can check full logs with 'job.stderr(0)'"
    )
    (tmp_path / "result.pkl").touch()
    paths = SimpleNamespace(result_pickle=tmp_path / "result.pkl")
    job = SimpleNamespace(job_id="70_0", paths=paths, exception=lambda: error)
    found = slurm._end(slurm._Followed(directory, job, 0.0))
    assert found.reason == "SLURM job 70_0: ModuleNotFoundError: no experiments"


def test_jobs_outlive_the_command_and_are_followed_by_the_next(tmp_path, state, capsys):
    [directory] = prepared(tmp_path / "work", "base")
    with _launch([directory]) as events:
        assert next(events).kind == "started"
    said = capsys.readouterr().err
    assert "left to SLURM: 1 job; " in said and "scancel 70 ends it" in said
    with _launch([directory]) as events:
        assert [event.kind for event in events] == ["started", "finished"]
    assert len(_calls(state, "sbatch")) == 1
    assert _steps(directory) == list(range(1, 41))


def test_a_cancelled_job_has_failed_and_is_submitted_anew(tmp_path, state, monkeypatch):
    [directory] = prepared(tmp_path / "work", "base")
    with _launch([directory]) as events:
        assert next(events).kind == "started"
        subprocess.run(["scancel", "70"], check=True)
        event = next(events)
    assert (event.kind, event.reason) == ("failed", "SLURM ended job 70: CANCELLED")
    monkeypatch.setenv("COUNTING_SECONDS_A_STEP", "0")
    with _launch([directory]) as events:
        assert list(events)[-1].kind == "finished"
    assert len(_calls(state, "sbatch")) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"partition": "gpu"}, "--slurm needs time=MINUTES"),
        ({"tim": "60"}, "--slurm knows no option tim; it knows account, "),
        ({"time": "1:00:00"}, "time=1:00:00; a whole number is needed"),
        ({"time": "60", "signal_delay_s": "59"}, "signal_delay_s=59; at least 60 are needed"),
    ],
)
def test_wrong_options_are_told_before_anything_is_submitted(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        slurm.checked(options)


def test_the_options_are_those_that_submitit_has(tmp_path, state):
    executor = submitit.SlurmExecutor(tmp_path)
    executor.update_parameters(**dict.fromkeys(slurm._TEXT_OPTIONS, "a"))
    numbers = slurm._NUMBER_OPTIONS - {"cpus_per_gpu"}  # not without the next one, says submitit
    executor.update_parameters(**dict.fromkeys(numbers, 1))


@pytest.mark.parametrize(
    ("age", "queued", "is_followed"), [(0.9, "", True), (1.1, "", False), (1.1, "7", True)]
)
def test_a_job_that_neither_sacct_nor_squeue_knows_counts_as_gone_after_a_while(
    age, queued, is_followed, tmp_path, monkeypatch
):
    (tmp_path / "squeue").write_text(f"#!/bin/sh\necho {queued}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    directory = tmp_path / "table" / "row" / "seed-0"
    directory.mkdir(parents=True)
    submitted = time.time() - age * slurm._SECONDS_UNTIL_KNOWN
    write_json(directory / slurm._JOB_FILE, {"job_id": "7", "submitted": submitted})
    monkeypatch.setattr(submitit.SlurmJob, "done", lambda self, force_check: False)
    monkeypatch.setattr(type(submitit.SlurmJob.watcher), "get_state", lambda *_, **__: "UNKNOWN")
    assert (slurm._job_of(directory) is not None) == is_followed


@pytest.mark.parametrize(
    ("state", "is_done"),
    [("SUSPENDED", False), ("RUNNING", False), ("PREEMPTED", False), ("FAILED", True)],
)
def test_a_suspended_job_has_not_ended(monkeypatch, state, is_done):
    watcher = slurm._slurm_job().watcher
    monkeypatch.setattr(type(watcher), "get_state", lambda *_, **__: state)
    assert watcher.is_done("7") == is_done


def test_a_cluster_whose_accounting_does_not_answer_is_told(tmp_path, state, capsys):
    slurm.check_installed()
    assert capsys.readouterr().err == ""
    sacct = tmp_path / "bin" / "sacct"
    sacct.write_text("#!/bin/sh\necho 'sacct: Connection refused' >&2\nexit 1\n")
    slurm.check_installed()
    assert "does not answer (sacct: Connection refused): of" in capsys.readouterr().err


def test_a_run_has_until_shortly_before_the_end_to_save(tmp_path, state, monkeypatch):
    graces = []
    monkeypatch.setattr(slurm, "_Runner", lambda *all: graces.append(all[-1]) or len)
    for options in ({}, {"signal_delay_s": 300, "cpus_per_task": 6}):
        slurm._submit(prepared(tmp_path / "work", "base"), OPTIONS | options, None, ["true"])
    assert graces == [60, 270]
    first, second = ((state / f"{number}.sh").read_text() for number in (70, 71))
    assert "--cpus-per-task=6 " in second.partition("srun")[2]
    assert "cpus-per-task" not in first and "#SBATCH --signal=USR2@300" in second


def test_a_machine_without_slurm_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="sbatch, which is not on PATH here"):
        slurm.check_installed()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"-e '\.\[slurm\]'"):
        slurm.check_installed()
