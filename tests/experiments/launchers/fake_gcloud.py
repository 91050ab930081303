"""A stand-in for gcloud: TPU slices that are directories of this machine, and a bucket that is one.

It notes every command in FAKE_GCLOUD/calls.jsonl. FAKE_GCLOUD/plan.json says what goes wrong:

    preempted      pairs of a signal and a step: when it is saved, the machine tells its run to stop
                   with SIGTERM, or is gone with SIGKILL
    never_there    what becomes of a slice that is asked for: [state, message]
    create_error, describe_error, scp_error, delete_error    what the command says, and fails

FAKE_GCLOUD/ssh_errors and FAKE_GCLOUD/describe_errors say how many such commands fail before one
does not.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ.get("FAKE_GCLOUD", "."))

# What stands at ~/venv/bin/python of a slice: the module is ours, the run only counts.
_PYTHON = """#!{python}
import sys
from pathlib import Path
from experiments.launchers import bucket
bucket._SECONDS_BETWEEN_COPIES = 0.3
assert sys.argv[1:3] == ["-m", "experiments.launchers.bucket"], sys.argv
verb, directory, *rest = sys.argv[3:]
if verb == "run":
    sys.exit(bucket.run(Path(directory), *rest, command=("{python}", "{counting_run}")))
sys.exit(bucket.main(sys.argv[3:]))
"""


def main(arguments: list[str]) -> None:
    """Does what the real one would, as far as it matters here."""
    plan = json.loads((HOME / "plan.json").read_text())
    with open(HOME / "calls.jsonl", "a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    words = [word for word in arguments if not word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    if words[0] == "storage":
        _storage(words[1], _path(words[2]), _path(words[3]), options)
        return
    assert words[:2] == ["compute", "tpus"] and {"project", "zone", "quiet"} <= options.keys()
    if error := plan.get(f"{words[3]}_error"):
        sys.exit(error)
    if words[2] == "queued-resources":
        _queued_resource(words[3], HOME / "slices" / words[4], plan)
    elif words[3] == "scp":
        shutil.copy(words[4], HOME / "slices" / words[5].rstrip(":"))
    else:
        _ssh(HOME / "slices" / words[4], options["command"])


def _queued_resource(verb: str, slice_: Path, plan: dict) -> None:
    if verb == "create":
        (slice_ / "venv/bin").mkdir(parents=True)
        here = Path(__file__).parent
        script = _PYTHON.format(python=sys.executable, counting_run=here / "counting_run.py")
        (slice_ / "venv/bin/python").write_text(script)
        (slice_ / "venv/bin/python").chmod(0o755)
        (slice_ / "state").write_text("CREATING")
        return
    if not slice_.exists():
        sys.exit("ERROR: (gcloud) NOT_FOUND: Resource was not found")
    if verb == "describe" and _is_to_fail("describe"):
        sys.exit("ERROR: UNAVAILABLE")
    if verb == "delete":
        _kill(slice_)
        shutil.rmtree(slice_)
        return
    state, message = _next_state(slice_, plan)
    (slice_ / "state").write_text(state)
    values = {"state": state, "failedData": {"error": {"message": message}}}
    print(json.dumps({"name": slice_.name, "state": values}))


def _next_state(slice_: Path, plan: dict) -> tuple[str, str]:
    state = (slice_ / "state").read_text()
    if "never_there" in plan:
        state, message = plan["never_there"]
        return state, message
    if state != "ACTIVE":
        return {"CREATING": "WAITING_FOR_RESOURCES"}.get(state, "ACTIVE"), ""
    saved = [
        json.loads(path.read_text())["step"] for path in HOME.rglob("bucket/**/checkpoint.json")
    ]
    (name, step), *others = plan.get("preempted") or [("", 0)]
    if name and saved and max(saved) >= step:
        (HOME / "plan.json").write_text(json.dumps(plan | {"preempted": others}))
        _kill(slice_, signal.Signals[name])
        return ("SUSPENDED" if name == "SIGKILL" else "ACTIVE"), ""
    return state, ""


def _kill(slice_: Path, by: signal.Signals = signal.SIGKILL) -> None:
    if (slice_ / "run.pid").exists():
        try:
            os.kill(int((slice_ / "run.pid").read_text()), by)
        except ProcessLookupError:
            pass


def _ssh(slice_: Path, command: str) -> None:
    if _is_to_fail("ssh"):
        sys.exit(
            "ERROR: (gcloud.compute.tpus.tpu-vm.ssh) [/usr/bin/ssh] exited with return code [255]."
        )
    if " pip install " in command:
        archive = re.search(r"tar -xzf (\S+)", command)
        assert archive and (slice_ / archive[1]).stat().st_size > 1000
        (slice_ / "t2t_jax").mkdir()
        return
    environment = os.environ | {"HOME": str(slice_)}
    done = subprocess.run(["bash", "-c", command], cwd=slice_, env=environment)
    if done.returncode:
        sys.exit(f"ERROR: exit code {done.returncode}")


def _is_to_fail(verb: str) -> bool:
    errors = HOME / f"{verb}_errors"
    left = int(errors.read_text()) if errors.exists() else 0
    errors.write_text(str(max(0, left - 1)))
    return left > 0


def _path(name: str) -> Path:
    return HOME / "bucket" / name.removeprefix("gs://") if name.startswith("gs://") else Path(name)


def _storage(verb: str, source: Path, destination: Path, options: dict[str, str]) -> None:
    if "denied" in destination.parts:
        sys.exit("ERROR: HTTPError 403: no access")
    if verb == "cp":
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, destination)
        return
    assert "recursive" in options
    if not source.exists():
        sys.exit(f"ERROR: {source} matches nothing")

    def files(directory: Path) -> set[str]:
        names = {
            str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()
        }
        without = options.get("exclude")
        return {name for name in names if not (without and re.match(without, name))}

    for name in sorted(files(source)):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        partial = destination / f"{name}.{os.getpid()}"
        try:
            shutil.copy(source / name, partial)
        except FileNotFoundError:
            sys.exit(f"ERROR: {name} has gone")
        partial.replace(destination / name)
    if "delete-unmatched-destination-objects" in options:
        for name in files(destination) - files(source):
            (destination / name).unlink()


def install(directory: Path, home: Path) -> dict[str, str]:
    """Makes the program; what the environment needs for it."""
    directory.mkdir()
    home.mkdir()
    program = directory / "gcloud"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} "$@"\n')
    program.chmod(0o755)
    (home / "plan.json").write_text("{}")
    root = str(Path(__file__).parents[3])
    path = f"{directory}:{os.environ['PATH']}"
    return {"PATH": path, "FAKE_GCLOUD": str(home), "PYTHONPATH": root}


if __name__ == "__main__":
    main(sys.argv[1:])
