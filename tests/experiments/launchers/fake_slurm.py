"""Stand-ins for sbatch, srun, sacct, scontrol and scancel: a cluster of this machine's processes.

The name it is called by says which program it is. Its jobs are kept in the directory FAKE_SLURM. It
does what matters here: an array is several jobs of one script; a signal goes to every process of a
job; a requeued job starts its script again under the same number.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

STATE = Path(os.environ.get("FAKE_SLURM", "."))


def sbatch(script: str) -> None:
    """Starts the jobs of the script and prints the number of the first."""
    text = Path(script).read_text()
    number = 70 + len(list(STATE.glob("*.sh")))
    (STATE / f"{number}.sh").write_text(text)
    array = re.search(r"^#SBATCH --array=0-(\d+)%", text, re.MULTILINE)
    names = [f"{number}_{index}" for index in range(int(array[1]) + 1)] if array else [str(number)]
    for name in names:
        (STATE / f"{name}.state").write_text("PENDING")
        subprocess.Popen(
            [sys.executable, __file__, "job", name],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    print(f"Submitted batch job {number}")


def job(name: str) -> None:
    """A job from its first start to its end, in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    number, _, index = name.partition("_")
    (STATE / f"{name}.session").write_text(str(os.getsid(0)))
    environment = {**os.environ, "SLURM_JOB_ID": number, "SLURM_PROCID": "0"}
    if index:
        environment |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": index}
    while True:
        (STATE / f"{name}.state").write_text("RUNNING")
        code = subprocess.run(
            ["bash", str(STATE / f"{number}.sh")],
            env=environment,
            preexec_fn=_expect_signals,
        ).returncode
        requeue = STATE / f"{name}.requeue"
        if not requeue.exists():
            break
        requeue.unlink()
    (STATE / f"{name}.state").write_text("COMPLETED" if code == 0 else "FAILED")


def _expect_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def srun(*arguments: str) -> None:
    """Becomes the command behind its own options."""
    rest = list(arguments)
    while rest[0].startswith("--"):
        rest = rest[2:] if rest[0] in ("--output", "--error") else rest[1:]
    os.execvp(rest[0], rest)


def sacct(*arguments: str) -> None:
    """The states of the jobs asked for, as --parsable2 prints them."""
    asked = [
        after for before, after in zip(arguments, arguments[1:], strict=False) if before == "-j"
    ]
    print("JobID|State|NodeList")
    for path in sorted(STATE.glob("*.state")):
        if path.stem.partition("_")[0] in asked:
            print(f"{path.stem}|{path.read_text()}|here")


def scontrol(verb: str, name: str) -> None:
    """Queues a job again."""
    assert verb == "requeue"
    (STATE / f"{name}.requeue").touch()


def scancel(name: str, _: str = "--signal", signal_name: str = "KILL") -> None:
    """Sends a signal to all processes of a job but the one that stands for SLURM and the shell."""
    session = int((STATE / f"{name}.session").read_text())
    if signal_name == "KILL":
        (STATE / f"{name}.state").write_text("CANCELLED")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            command, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        pid = int(path.parent.name)
        is_of_job = int(rest.split()[3]) == session
        if is_of_job and (signal_name == "KILL" or (pid != session and command != "bash")):
            os.kill(pid, signal.Signals["SIG" + signal_name.removeprefix("SIG")])


def install(directory: Path, state: Path) -> dict[str, str]:
    """Makes the programs; what the environment needs for them."""
    directory.mkdir()
    state.mkdir()
    for name in ("sbatch", "srun", "sacct", "scontrol", "scancel"):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {name} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", "FAKE_SLURM": str(state)}


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    with open(STATE / "calls.jsonl", "a") as calls:
        calls.write(json.dumps([name, *arguments]) + "\n")
    globals()[name](*arguments)
