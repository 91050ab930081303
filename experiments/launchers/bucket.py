"""A run on a machine that will be taken away: its directory is kept in a bucket.

    python -m experiments.launchers.bucket restore RUN_DIRECTORY gs://BUCKET/...
    python -m experiments.launchers.bucket run RUN_DIRECTORY gs://BUCKET/... ATTEMPT

The first brings what is in the bucket. The second does the run, copies its directory to the bucket
every minute and at the end, and leaves ended.json there. The hosts of a slice share the directory:
all of them do the second, and the first alone copies.

A checkpoint is many files. uploaded.json, written after them, names the checkpoints of which all
files have arrived; what else an interrupted copy has left is not restored.
"""

import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

from experiments.launchers import gcloud, process
from experiments.launchers.event import COMMAND
from t2t_jax.json_files import read_json, write_json

ENDED_FILE = "ended.json"
_UPLOADED_FILE = "uploaded.json"

_SECONDS_BETWEEN_COPIES = 60.0
# At the end, when a copy is the last chance, and a machine that goes away leaves half a minute.
_SECONDS_BETWEEN_LAST_TRIES = 5.0
_MOST_LAST_TRIES = 5
# What is being written, what is of this machine alone, and what has to arrive last.
_NOT_COPIED = r".*\.orbax-checkpoint-tmp.*|(.*/)?(uploaded\.json|ended\.json|\.(train\.)?lock)$"


def restore(directory: Path, url: str) -> None:
    """Makes the run's directory what is in the bucket, without half a checkpoint.

    What a slice that was taken away has left in it since its last copy is deleted: it may be half
    written, and the run may have gone on elsewhere.

    Raises:
      GcloudError: the bucket cannot be read or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    gcloud.mirror(url, str(directory), delete=True)
    (directory / ENDED_FILE).unlink(missing_ok=True)
    path = directory / _UPLOADED_FILE
    whole = read_json(path)["checkpoints"] if path.exists() else []
    for checkpoint in _checkpoints(directory):
        if checkpoint not in whole:
            shutil.rmtree(directory / "checkpoints" / checkpoint)
    write_json(path, {"checkpoints": _checkpoints(directory)})
    gcloud.copy(str(path), f"{url}/{_UPLOADED_FILE}")


def run(directory: Path, url: str, attempt: str, command: Sequence[str] = COMMAND) -> int:
    """Does the run; its exit code, which `ended.json` tells with the name of the attempt."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    started = process.start(directory, command, host=_host())
    try:
        while started.poll() is None:
            _wait_for(started, _SECONDS_BETWEEN_COPIES)
            _upload(directory, url)
    except KeyboardInterrupt:
        pass
    # If our machine is to go away, the copy comes first: a second request has to wait.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process.stop([started])
    _upload_at_last(directory, url, {"attempt": attempt, "exit_code": started.returncode})
    return started.returncode


def _wait_for(started: Popen, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while started.poll() is None and time.monotonic() < deadline:
        time.sleep(process.POLL_SECONDS)


def _upload_at_last(directory: Path, url: str, end: dict[str, str | int]) -> None:
    """The last chance: a bucket may not answer for a moment. Then tells the end there."""
    for tries_left in reversed(range(_MOST_LAST_TRIES)):
        has_arrived = _upload(directory, url)
        # Who waits for the end pays for the machine, and is told even without the files.
        if (has_arrived or not tries_left) and _tell_end(directory, url, end):
            return
        if tries_left:
            time.sleep(_SECONDS_BETWEEN_LAST_TRIES)


def _tell_end(directory: Path, url: str, end: dict[str, str | int]) -> bool:
    """Leaves ended.json in the bucket; whether it has arrived."""
    if _host():
        return True
    path = directory / ENDED_FILE
    write_json(path, end)
    try:
        gcloud.copy(str(path), f"{url}/{ENDED_FILE}")
    except gcloud.GcloudError as error:
        print(f"not copied to {url}: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _upload(directory: Path, url: str) -> bool:
    """Copies the directory to the bucket; whether all of it has arrived."""
    if _host():
        return True
    marker = directory / _UPLOADED_FILE
    before = _checkpoints(directory)
    try:
        gcloud.mirror(str(directory), url, without=_NOT_COPIED)
        whole = [name for name in before if name in _checkpoints(directory)]
        write_json(marker, {"checkpoints": whole})
        gcloud.copy(str(marker), f"{url}/{_UPLOADED_FILE}")
        # Old checkpoints are deleted when the new ones are there.
        gcloud.mirror(str(directory), url, without=_NOT_COPIED, delete=True)
    except gcloud.GcloudError as error:
        print(f"not copied to {url}: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _checkpoints(directory: Path) -> list[str]:
    """The names of those that are whole: the others have longer names."""
    names = [path.name for path in (directory / "checkpoints").glob("*")]
    return sorted((name for name in names if name.isdecimal()), key=int)


def _host() -> int:
    """The number of this host in its slice: Cloud TPU ends their names with -w- and the number."""
    number = re.search(r"-w-(\d+)$", socket.gethostname())
    return int(number[1]) if number else 0


def main(arguments: Sequence[str]) -> int:
    """Does what the arguments say; the exit code."""
    if len(arguments) == 3 and arguments[0] == "restore":
        try:
            restore(Path(arguments[1]), arguments[2])
        except gcloud.GcloudError as error:
            sys.exit(f"bucket: {error}")
        return 0
    if len(arguments) == 4 and arguments[0] == "run":
        return run(Path(arguments[1]), arguments[2], arguments[3])
    sys.exit(f"bucket: {' '.join(arguments)!r} is none of its commands\n{__doc__}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
