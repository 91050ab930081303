"""A stand-in for gcloud: TPU slices and a bucket that are directories on this machine.

A slice has a host, which is its home directory, for every eight of the number its type ends with.
They mount the directory FAKE_GCLOUD/share. FAKE_GCLOUD/environments.json may list additions to the
environment of each host.

Every command is recorded in FAKE_GCLOUD/calls.jsonl. FAKE_GCLOUD/plan.json says what goes wrong:

    preempted      pairs of a signal and a step: when it is saved, the machine tells its run to stop
                   with SIGTERM, or is gone with SIGKILL
    never_there    the fate of a requested slice: [state, message]
    taken_away_at  text of a command that finds the slice taken away, once
    breaks_after   text of a command whose connection breaks when it is done, once
    refused        the name of a file that the bucket refuses
    create_error, describe_error, scp_error, delete_error    what the command says, and fails

FAKE_GCLOUD/ssh_errors and FAKE_GCLOUD/describe_errors say how many such commands fail before one
does not.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ.get("FAKE_GCLOUD", "."))

# What stands at ~/venv/bin/python of a host: the module is ours, the run is FAKE_GCLOUD_RUN.
_PYTHON = """#!{python}
import os, socket, sys
from pathlib import Path
socket.gethostname = lambda: "t1v-n-0123abcd-" + Path.home().name
from experiments.launchers import bucket
bucket._SECONDS_BETWEEN_COPIES = 0.3
bucket._SECONDS_BETWEEN_LAST_TRIES = 0.1
assert sys.argv[1:3] == ["-m", "experiments.launchers.bucket"], sys.argv
verb, directory, *rest = sys.argv[3:]
if verb in ("run", "run_there"):
    del os.environ["JAX_COMPILATION_CACHE_DIR"]  # in a bucket, which is not here
    command = ("{python}", *os.environ["FAKE_GCLOUD_RUN"].split())
    sys.exit(getattr(bucket, verb)(Path(directory), *rest, command=command))
sys.exit(bucket.main(sys.argv[3:]))
"""

# What a host does as root; noted in FAKE_GCLOUD/sudo.txt.
_SUDO = """#!/bin/sh
echo "$@" >> "$FAKE_GCLOUD/sudo.txt"
case "$1" in
    apt-get) ;;
    timeout) rmdir "$9" && ln -s "$FAKE_GCLOUD/share" "$9" ;;
    install) exec "$@" ;;
    *) exit 1 ;;
esac
"""


def main(arguments: list[str]) -> None:
    """Does what the real one would, as far as it matters here."""
    plan = json.loads((HOME / "plan.json").read_text())
    with open(HOME / "calls.jsonl", "a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    words = [word for word in arguments if not word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    if words[:2] == ["storage", "rm"]:
        file = path(words[2])
        if not file.exists():
            error = "(gcloud.storage.rm) The following URLs matched no objects or files:"
            sys.exit(f"ERROR: {error}\n-{words[2]}")
        file.unlink()
        return
    if words[0] == "storage":
        _storage(words[1], path(words[2]), path(words[3]), options, plan.get("refused"))
        return
    assert words[:2] == ["compute", "tpus"] and {"project", "zone", "quiet"} <= options.keys()
    if error := plan.get(f"{words[3]}_error"):
        sys.exit(error)
    if words[2] == "queued-resources":
        _queued_resource(words[3], HOME / "slices" / words[4], plan, options)
    elif words[3] == "scp":
        assert options["worker"] == "all"
        for host in _hosts(HOME / "slices" / words[5].rstrip(":")):
            shutil.copy(words[4], host)
    else:
        number = {"all": "*", "0": "0"}[options["worker"]]
        for host in _hosts(HOME / "slices" / words[4], number):
            _ssh(host, options["command"], plan)


def _hosts(slice_: Path, number: str = "*") -> list[Path]:
    return sorted(slice_.glob(f"w-{number}"))


def _queued_resource(verb: str, slice_: Path, plan: dict, options: dict[str, str]) -> None:
    if verb == "create":
        size = int(options["accelerator-type"].rpartition("-")[2])
        for number in range(max(1, size // 8)):
            program = slice_ / f"w-{number}/venv/bin/python"
            program.parent.mkdir(parents=True)
            _write_program(program, _PYTHON.format(python=sys.executable))
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
    if state == "SUSPENDED":
        return state, ""
    if state != "ACTIVE":
        return {"CREATING": "WAITING_FOR_RESOURCES"}.get(state, "ACTIVE"), ""
    bucket = HOME / "bucket"
    saved = [json.loads(path.read_text())["step"] for path in bucket.rglob("checkpoint.json")]
    saved += [
        int(path.parent.name) for path in bucket.glob("**/checkpoints/*/_CHECKPOINT_METADATA")
    ]
    (name, step), *others = plan.get("preempted") or [("", 0)]
    if name and saved and max(saved) >= step:
        (HOME / "plan.json").write_text(json.dumps(plan | {"preempted": others}))
        _kill(slice_, signal.Signals[name])
        return ("SUSPENDED" if name == "SIGKILL" else "ACTIVE"), ""
    return state, ""


def _kill(slice_: Path, by: signal.Signals = signal.SIGKILL) -> None:
    for file in slice_.glob("w-*/run.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), by)


def _ssh(host: Path, command: str, plan: dict) -> None:
    if _is_to_fail("ssh"):
        sys.exit(
            "ERROR: (gcloud.compute.tpus.tpu-vm.ssh) [/usr/bin/ssh] exited with return code [255]."
        )
    if " pip install " in command:
        archive = re.search(r"tar -xzf (\S+)", command)
        assert archive and (host / archive[1]).stat().st_size > 1000
        (host / "t2t_jax").mkdir()
        return
    if "taken_away_at" in plan and plan.pop("taken_away_at") in command:
        (HOME / "plan.json").write_text(json.dumps(plan))
        (host.parent / "state").write_text("SUSPENDED")
        sys.exit("ERROR: Connection closed")
    environment = os.environ | {"HOME": str(host)}
    if (HOME / "environments.json").exists():
        of_hosts = json.loads((HOME / "environments.json").read_text())
        environment |= of_hosts[int(host.name.removeprefix("w-"))]
    done = subprocess.run(["bash", "-c", command], cwd=host, env=environment)
    if "breaks_after" in plan and plan.pop("breaks_after") in command:
        (HOME / "plan.json").write_text(json.dumps(plan))
        sys.exit("ERROR: Connection closed")
    if done.returncode:
        sys.exit(f"ERROR: exit code {done.returncode}")


def _is_to_fail(verb: str) -> bool:
    errors = HOME / f"{verb}_errors"
    left = int(errors.read_text()) if errors.exists() else 0
    errors.write_text(str(max(0, left - 1)))
    return left > 0


def path(name: str) -> Path:
    """The path that stands for an address in a bucket; others are as they are."""
    return HOME / "bucket" / name.removeprefix("gs://") if name.startswith("gs://") else Path(name)


def _storage(
    verb: str, source: Path, destination: Path, options: dict[str, str], refused: str | None
) -> None:
    if "denied" in destination.parts:
        sys.exit("ERROR: HTTPError 403: no access")
    if verb == "cp":
        if destination.name == refused:
            sys.exit("ERROR: HTTPError 503: try again")
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, destination)
        return
    assert "recursive" in options
    if not source.exists():
        sys.exit(f"ERROR: {source} matches nothing")

    def files(directory: Path) -> set[str]:
        all_names = {
            str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()
        }
        without = options.get("exclude")
        return {name for name in all_names if not (without and re.match(without, name))}

    names = files(source)  # once: a run goes on writing
    if refused in names and destination.is_relative_to(HOME / "bucket"):
        sys.exit("ERROR: HTTPError 503: try again")
    for name in sorted(names):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        partial = destination / f"{name}.{os.getpid()}"
        try:
            shutil.copy(source / name, partial)
        except FileNotFoundError:
            sys.exit(f"ERROR: {name} has gone")
        partial.replace(destination / name)
    if "delete-unmatched-destination-objects" in options:
        for name in files(destination) - names:
            (destination / name).unlink()


def install(directory: Path, home: Path) -> dict[str, str]:
    """Makes the programs; what the environment needs for them."""
    directory.mkdir()
    (home / "share").mkdir(parents=True)
    _write_program(directory / "gcloud", f'#!/bin/sh\nexec {sys.executable} -S {__file__} "$@"\n')
    _write_program(directory / "sudo", _SUDO)
    _write_program(directory / "mountpoint", '#!/bin/sh\n[ -L "$2" ]\n')
    (home / "plan.json").write_text("{}")
    return {
        "PATH": f"{directory}:{os.environ['PATH']}",
        "FAKE_GCLOUD": str(home),
        "FAKE_GCLOUD_RUN": str(Path(__file__).with_name("counting_run.py")),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


if __name__ == "__main__":
    main(sys.argv[1:])
