"""A run on a machine that will be taken away: its directory is kept in a bucket.

    python -m experiments.launchers.bucket restore RUN_DIRECTORY gs://BUCKET/...
    python -m experiments.launchers.bucket run RUN_DIRECTORY gs://BUCKET/... ATTEMPT
    python -m experiments.launchers.bucket restore_log DIRECTORY gs://BUCKET/...
    python -m experiments.launchers.bucket run_there DIRECTORY gs://BUCKET/... ATTEMPT

The first brings what is in the bucket. The second does the run, copies its directory to the bucket
every minute and at the end, and leaves ended.json there. If the hosts of a slice share the
directory, all of them do the second, and the first host alone copies.

If they do not, all of them do the other two: the run works in the bucket itself, and each host
copies only its log, which is in a directory of its own.

A checkpoint is many files. uploaded.json, written after them, names the checkpoints of which all
files have arrived; what else an interrupted copy has left is not restored. It also names the one
directory that has gone on with the run: where it is still there, it has no less than the bucket.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

from experiments.launchers import gcloud, process
from experiments.launchers.event import COMMAND
from experiments.run import presence, record
from t2t_jax.json_files import read_json, write_json

ENDED_FILE = "ended.json"
_UPLOADED_FILE = "uploaded.json"

_SECONDS_BETWEEN_COPIES = 60.0
# At the end: a bucket may not answer for a moment, and a preempted machine has half a minute left.
_SECONDS_BETWEEN_LAST_TRIES = 5.0
_MOST_LAST_TRIES = 5
# Unfinished files, files of this machine alone, and files that must arrive last.
_NOT_COPIED = r".*\.orbax-checkpoint-tmp.*|(.*/)?(uploaded\.json|ended\.json|\.(train\.)?lock)$"
# Of the try that is running, or of the last one.
_OF_ONE_TRY = (presence.RUNNING_FILE, record.FAILURE_FILE)
# Large files, of no use except to continue the run.
LARGE = r"(.*/)?(checkpoints|tensorboard)/.*"


def restore(directory: Path, url: str) -> None:
    """Fetches the run's directory from the bucket, without incomplete checkpoints.

    A directory on a share outlives its slice. It stays as it is unless the run was continued
    elsewhere; then it is fetched again.

    Raises:
      GcloudError: the bucket cannot be read or written.
    """
    with tempfile.TemporaryDirectory() as small:
        gcloud.mirror(url, small, without=LARGE)
        uploaded = _uploaded(Path(small))
        asked = read_json(Path(small) / record.RUN_FILE)
    if "owner" in uploaded and _uploaded(directory).get("owner") == uploaded["owner"]:
        write_json(directory / record.RUN_FILE, asked)  # maybe with other devices than before
        (directory / ENDED_FILE).unlink(missing_ok=True)
        _forget_last_try(directory, url)
        return
    owner = uuid.uuid4().hex
    # Elsewhere first: a command whose connection broke may still be working in the directory.
    aside = directory.with_name(f"{directory.name}.{owner}")
    aside.mkdir(parents=True)
    gcloud.mirror(url, str(aside), without=_NOT_COPIED)
    _forget_last_try(aside, url)
    whole = uploaded.get("checkpoints", [])
    for checkpoint in _checkpoints(aside):
        if checkpoint not in whole:
            shutil.rmtree(aside / "checkpoints" / checkpoint)
    if not _checkpoints(aside):  # it is trained anew, which its record must not deny
        (aside / record.TRAINING_FILE).unlink(missing_ok=True)
    if directory.exists():
        shutil.rmtree(directory)
    aside.rename(directory)
    _write_uploaded(directory, url, {"owner": owner, "checkpoints": whole})


def run(directory: Path, url: str, attempt: str, command: Sequence[str] = COMMAND) -> int:
    """Does the run; returns its exit code, which `ended.json` records with the attempt's name."""
    start = partial(process.start, directory, command, host=_host())
    return _done(start, partial(_upload, directory, url), directory, url, attempt)


def restore_log(directory: Path, url: str) -> None:
    """Fetches this host's log, to which a run in the bucket itself will append.

    The first host also says in the bucket that the run is there, and removes what an earlier try
    has left of its life and failure.

    Raises:
      GcloudError: the bucket cannot be read or written.
    """
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as aside:
        gcloud.mirror(url, aside, without=_all_but_own_log())
        # Linked, since a command whose connection broke may do so when the run has begun already.
        for log in Path(aside).iterdir():
            with contextlib.suppress(FileExistsError):
                (directory / log.name).hardlink_to(log)
    if not _host():
        _forget_last_try(directory, url)
        _write_uploaded(directory, url, {"is_there": True})


def run_there(directory: Path, url: str, attempt: str, command: Sequence[str] = COMMAND) -> int:
    """The same as `run`, for a run in the bucket itself; `directory` has this host's log."""
    start = partial(process.start, directory, command, host=_host(), url=url)
    return _done(start, partial(_upload_log, directory, url), directory, url, attempt)


def works_there(directory: Path) -> bool | None:
    """Whether a run works in the bucket itself, as the files from there say; None if it is new."""
    uploaded = _uploaded(directory)
    return uploaded.get("is_there", False) if uploaded else None


def forget(directory: Path) -> None:
    """Removes what a bucket has told of a run; it is fetched again with the run's other files."""
    (directory / _UPLOADED_FILE).unlink(missing_ok=True)


def _done(
    start: Callable[[], Popen], upload: Callable[[], bool], directory: Path, url: str, attempt: str
) -> int:
    """Starts the run, and uploads until it has ended; returns its exit code."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    started = start()
    try:
        while started.poll() is None:
            _wait_for(started, _SECONDS_BETWEEN_COPIES)
            upload()
    except KeyboardInterrupt:
        pass
    # If our machine is being taken away, the copy comes first: a second request must wait.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process.stop([started])
    end = {"attempt": attempt, "exit_code": started.returncode}
    _upload_at_last(upload, directory, url, end)
    return started.returncode


def _wait_for(started: Popen, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while started.poll() is None and time.monotonic() < deadline:
        time.sleep(process.POLL_SECONDS)


def _upload_at_last(
    upload: Callable[[], bool], directory: Path, url: str, end: dict[str, str | int | bool]
) -> None:
    """Copies until all has arrived or the tries are used up; then writes ended.json there."""
    for tries_left in reversed(range(_MOST_LAST_TRIES)):
        has_arrived = upload()
        # Even if not: the machine costs money while the launcher waits for the end.
        end["has_arrived"] = has_arrived
        if (has_arrived or not tries_left) and _write_end(directory, url, end):
            return
        if tries_left:
            time.sleep(_SECONDS_BETWEEN_LAST_TRIES)


def _write_end(directory: Path, url: str, end: dict[str, str | int | bool]) -> bool:
    """Writes ended.json to the bucket; returns whether it has arrived."""
    if _host():
        return True

    def copy() -> None:
        # In memory, if there is such a place: the launcher must hear of the end of a full disk too.
        memory = "/dev/shm"
        in_memory = memory if os.access(memory, os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=in_memory) as place:
            write_json(Path(place) / ENDED_FILE, end)
            gcloud.copy(f"{place}/{ENDED_FILE}", f"{url}/{ENDED_FILE}")

    return _copied(copy, url)


def _copied(copy: Callable[[], None], url: str) -> bool:
    """Copies to the bucket; returns whether it has arrived, else prints why not."""
    try:
        copy()
    except (gcloud.GcloudError, OSError) as error:  # OSError: the disk here is full
        print(f"not copied to {url}: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _upload(directory: Path, url: str) -> bool:
    """Copies the directory to the bucket; returns whether all of it has arrived."""
    if _host():
        return True

    def copy() -> None:
        before = _checkpoints(directory)
        gcloud.mirror(str(directory), url, without=_NOT_COPIED)
        whole = [name for name in before if name in _checkpoints(directory)]
        _write_uploaded(directory, url, _uploaded(directory) | {"checkpoints": whole})
        # Old checkpoints are deleted once the new ones are there.
        gcloud.mirror(str(directory), url, without=_NOT_COPIED, delete=True)

    return _copied(copy, url)


def _upload_log(directory: Path, url: str) -> bool:
    """Copies this host's log to the bucket; returns whether it has arrived."""
    without = _all_but_own_log()
    return _copied(lambda: gcloud.mirror(str(directory), url, without=without), url)


def _all_but_own_log() -> str:
    """A regular expression for the paths of all files but this host's log."""
    return rf"(?!{re.escape(process.log_name(_host()))}$).*"


def _forget_last_try(directory: Path, url: str) -> None:
    """Removes what the launcher would take for signs of this try.

    Raises:
      GcloudError: the bucket cannot be written.
    """
    for name in _OF_ONE_TRY:
        (directory / name).unlink(missing_ok=True)
        gcloud.remove(f"{url}/{name}")


def _uploaded(directory: Path) -> dict[str, Any]:
    path = directory / _UPLOADED_FILE
    return read_json(path) if path.exists() else {}


def _write_uploaded(directory: Path, url: str, uploaded: dict[str, Any]) -> None:
    """Records, here and in the bucket, which checkpoints are complete there and who owns the run.

    Raises:
      GcloudError: the bucket cannot be written.
    """
    path = directory / _UPLOADED_FILE
    write_json(path, uploaded)
    gcloud.copy(str(path), f"{url}/{_UPLOADED_FILE}")


def _checkpoints(directory: Path) -> list[str]:
    """The names of the complete checkpoints: others have longer names."""
    names = [path.name for path in (directory / "checkpoints").glob("*")]
    return sorted((name for name in names if name.isdecimal()), key=int)


def _host() -> int:
    """The number of this host in its slice: Cloud TPU ends host names with -w- and the number."""
    number = re.search(r"-w-(\d+)$", socket.gethostname())
    return int(number[1]) if number else 0


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    try:
        match arguments:
            case ["restore", directory, url]:
                restore(Path(directory), url)
                return 0
            case ["run", directory, url, attempt]:
                return run(Path(directory), url, attempt)
            case ["restore_log", directory, url]:
                restore_log(Path(directory), url)
                return 0
            case ["run_there", directory, url, attempt]:
                return run_there(Path(directory), url, attempt)
            case _:
                sys.exit(f"bucket: {' '.join(arguments)!r} is none of its commands\n{__doc__}")
    except (gcloud.GcloudError, OSError, ValueError) as error:
        sys.exit(f"bucket: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
