"""Runs on Cloud TPU, each on a slice of its own, created and deleted by gcloud.

The commit checked out here is sent to the slice. The run's directory is kept in a bucket and
fetched from there, without checkpoints, once a minute. A preempted slice is requested again, and
the run continues from the last checkpoint in the bucket. Whatever happens, a slice is deleted when
its run has ended, until gcloud says that it is gone: it costs money as long as it exists.

The hosts of a slice do the run together: in the bucket itself, or in a directory on a share that
all of them mount.
"""

import contextlib
import hashlib
import json
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from experiments.launchers import bucket, gcloud
from experiments.launchers.event import (
    Event,
    clear,
    ended,
    failed,
    start_event,
    tell,
    was_stopped,
)
from experiments.run import presence, record
from experiments.run.run import uncommitted

_POLL_SECONDS = 60.0  # for states and the bucket
_SECONDS_BEFORE_RETRY = 20.0  # for a machine that exists but does not answer yet
_MOST_TRIES = 10
# For a deletion. The pauses double up to the longest: together they span an outage of two hours.
_MOST_DELETIONS = 30
_LONGEST_SECONDS_BEFORE_RETRY = 300.0
_IN_VAIN = ("PERMISSION_DENIED", "INVALID_ARGUMENT")  # of a project or zone that is not there
_MOST_LATE_CHECKS = 3  # for a slice that appears after its creation has failed
_MOST_SLICES = 100  # for one run; a spot slice may be preempted many times
_MOST_LOST_HOSTS = 3  # for one run; after that, the run itself must be what kills them
# Longer than a copy to the bucket takes, with all checkpoints of a large model.
_SECONDS_OF_SILENCE = 1800.0
# Longer than any corpus takes to prepare; a hanging run gives signs of life too.
_SECONDS_WITHOUT_A_LINE = 4 * 3600.0

_WAITING = ("CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "STATE_UNSPECIFIED")

_ARCHIVE = "t2t_jax.tar.gz"
_PYTHON = "~/venv/bin/python"
# The machines have an older Python than this code needs; uv installs one.
_INSTALL = (
    f"rm -rf t2t_jax venv && tar -xzf {_ARCHIVE} && python3 -m pip install --quiet --user uv && "
    "python3 -m uv venv --quiet --python 3.11 venv && "
    f"python3 -m uv pip install --quiet --python {_PYTHON} "
    "--constraint t2t_jax/constraints.txt './t2t_jax[tpu]'"
)
# Where a host mounts the share, and our directory in it.
_SHARE = "~/share"
_RUNS = f"{_SHARE}/t2t_jax_runs"
# An NFS 4.1 server releases the locks of a machine that is gone. When a host closes or deletes a
# file, the others see it at once. nfs(5)
_MOUNT_OPTIONS = "vers=4.1,actimeo=0,retry=0"
_MOST_MOUNTS = 3
# World-writable: the same user may have a different id on each host.
_BEGIN = "umask 000 && cd t2t_jax && "
# Asks the run to stop, and waits until it has saved and copied its state. With several hosts, one
# may have ended by then, since they stop together.
_STOP = "kill -TERM $(cat run.pid); timeout 180 tail --pid=$(cat run.pid) -f /dev/null"


class _Preempted(Exception):
    """The slice was preempted."""


class _Code(NamedTuple):
    archive: Path
    commit: str


def check_installed() -> None:
    """Raises ValueError if gcloud is missing or has no account, or this is not a git checkout."""
    if shutil.which("gcloud") is None:
        raise ValueError(
            "--launcher=tpu_vm needs gcloud: https://cloud.google.com/sdk/docs/install"
        )
    try:
        gcloud.call("auth", "print-access-token")
    except gcloud.GcloudError as error:
        raise ValueError(
            f"--launcher=tpu_vm: gcloud has no account that works (`gcloud auth login`): {error}"
        ) from error
    if not _git("rev-parse", "HEAD"):
        raise ValueError("--launcher=tpu_vm sends a commit, and this code is not in a git checkout")


def launch(
    directories: Sequence[Path],
    *,
    request: gcloud.Request,
    parallel: int = 1,
) -> Generator[Event, None, None]:
    """Does each run on a slice of its own, `parallel` slices at a time."""
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    stop = threading.Event()
    with _code() as code, ThreadPoolExecutor(parallel) as pool:
        # All before the first begins: a damaged run.json raises.
        runs = [_Run(directory, request, code, events.put, stop) for directory in directories]
        for directory, one in zip(directories, runs, strict=True):
            pool.submit(one.do).add_done_callback(partial(_tell_end, directory, events.put))
        num_left = len(directories)
        try:
            while num_left:
                event = events.get()
                if event is None:
                    num_left -= 1
                else:
                    yield event
        finally:
            stop.set()
            if num_left:
                tell("stopping the runs, then deleting their slices: minutes")
            pool.shutdown(cancel_futures=True)


def _tell_end(
    directory: Path, tell_event: Callable[[Event | None], None], future: Future[None]
) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        # Of telling how the run ended, as on a full disk.
        tell_event(Event(directory, "failed", 0.0, f"{type(error).__name__}: {error}"))
    tell_event(None)


class _Run:
    """One run, on as many slices as it takes."""

    def __init__(
        self,
        directory: Path,
        request: gcloud.Request,
        code: _Code,
        tell: Callable[[Event], None],
        stop: threading.Event,
    ) -> None:
        self._directory = directory
        self._code = code
        self._tell = tell
        self._stop = stop
        self._sign: presence.Sign | None = None
        self._started = 0.0
        run = record.read_run(directory)
        self._url = _url(request.bucket, run)
        self._slice = gcloud.Slice(request, _slice_name(self._url))
        self._request = request
        self._is_there = request.has_several_hosts and not request.share  # in the bucket itself
        self._num_lost_hosts = 0

    def do(self) -> None:
        """Does the run and reports how it ends."""
        self._started = time.time()
        try:
            # A second command would delete the first one's slice as a leftover of a killed command.
            with presence.only_launcher(self._directory):
                exit_code = self._do()
        except gcloud.Stopped:
            presence.clear(self._directory)
        except presence.HasLauncherError as error:  # the files belong to that launcher
            self._tell(Event(self._directory, "failed", 0.0, str(error)))
        except gcloud.GcloudError as error:
            self._fail(f"gcloud: {error}")
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self._tell(ended(self._directory, self._seconds(), exit_code))

    def _fail(self, reason: str) -> None:
        presence.clear(self._directory)
        self._tell(failed(self._directory, self._seconds(), reason))

    def _seconds(self) -> float:
        """Since the run began on a slice, or before that since this one asked for a slice."""
        since = self._started if self._sign is None else self._sign.started
        return max(0.0, time.time() - since)  # clocks of two machines differ

    def _do(self) -> int:
        if self._stop.is_set():
            raise gcloud.Stopped
        (self._directory / record.FAILURE_FILE).unlink(missing_ok=True)
        # Before requesting a slice, which costs money: does the bucket exist, and may we write?
        run_file = str(self._directory / record.RUN_FILE)
        gcloud.copy(run_file, f"{self._url}/{record.RUN_FILE}", self._stop)
        # The leftover of a killed command; while it exists, another slice cannot be created. Before
        # the record is fetched, with which no further command would look for it.
        if error := self._delete(self._pause, _IN_VAIN):
            raise gcloud.GcloudError(
                f"{error}; cannot tell whether an earlier command left a slice"
            )
        self._fetch_what_was_left()
        for number in range(_MOST_SLICES):
            if record.is_finished(self._directory):
                return 0
            self._check_place()
            try:
                with self._slice_for_a_while():
                    exit_code = self._on_slice(f"{self._slice.name}-{number}-{time.time():.0f}")
                self._fetch_record()
                return exit_code
            except _Preempted as reason:
                # The run failed only because its slice, or a host, was lost.
                (self._directory / record.FAILURE_FILE).unlink(missing_ok=True)
                tell(f"{self._slice.name}: {reason}; asking for another")
        raise gcloud.GcloudError(f"{_MOST_SLICES} slices were taken away")

    @contextlib.contextmanager
    def _slice_for_a_while(self) -> Iterator[None]:
        was_made = False
        try:
            self._slice.create(self._stop)
            was_made = True
            yield
        finally:
            # It may have been requested without an answer, and may still appear.
            for number in range(1 if was_made else 1 + _MOST_LATE_CHECKS):
                if number:
                    time.sleep(_SECONDS_BEFORE_RETRY)
                if self._delete():  # for two hours, in vain
                    break

    def _delete(
        self, pause: Callable[[float], None] = time.sleep, in_vain: Sequence[str] = ()
    ) -> str:
        """Deletes the slice until it is gone; else prints and returns the reason.

        Signs of `in_vain` in gcloud's answer are returned at once.
        """
        error = ""
        seconds = _SECONDS_BEFORE_RETRY
        for number in range(_MOST_DELETIONS):
            if number:
                pause(seconds)
                seconds = min(2 * seconds, _LONGEST_SECONDS_BEFORE_RETRY)
            try:
                self._slice.delete()
                # A deletion that has begun may still fail.
                state, _ = self._slice.state(None)
            except Exception as failure:  # whatever it is, the slice goes on costing money
                error = str(failure)
                if any(sign in error for sign in in_vain):
                    return error
                if number == 0:
                    tell(f"{self._slice.name}: {error}; deleting it again")
                continue
            if state == "GONE":
                return ""
            error = f"it is {state} after its deletion"
        tell(
            f"The slice could not be deleted, and it costs money: {error}\n"
            f"Delete it by hand: {self._slice.delete_command}"
        )
        return error

    def _on_slice(self, attempt: str) -> int:
        self._wait_until_active()
        self._patiently(lambda: self._slice.send(self._code.archive, self._stop))
        self._patiently(lambda: self._slice.run(_INSTALL, self._stop))
        if self._request.share:
            mount = _mount_command(self._request.share)
            self._patiently(lambda: self._slice.run(mount, self._stop), _MOST_MOUNTS)
        self._patiently(self._restore)
        self._patiently(lambda: self._slice.run(self._start_command(attempt), self._stop))
        try:
            end = self._follow(attempt)
        except gcloud.Stopped:
            # If saving fails, what came after the last copy, a minute ago, is lost.
            with contextlib.suppress(gcloud.GcloudError):
                self._slice.run(_STOP, None)
            with contextlib.suppress(gcloud.GcloudError):
                self._fetch(None)
            raise
        # Files missing in the bucket are kept there for the next try.
        if self._request.share and end["exit_code"] == 0 and end["has_arrived"]:
            remove = f"rm -rf {self._there} {self._there}.*"
            with contextlib.suppress(gcloud.GcloudError):
                self._slice.run(remove, self._stop, on_first_alone=True)
        return end["exit_code"]

    def _restore(self) -> None:
        """Brings what the hosts need from the bucket: the run to the first, or each one's log."""
        verb = "restore_log" if self._is_there else "restore"
        restore = _BEGIN + self._bucket_command(verb)
        self._slice.run(restore, self._stop, on_first_alone=not self._is_there)

    @property
    def _there(self) -> str:
        """The run's directory on a host, for the shell."""
        return f"{_RUNS}/{self._slice.name}" if self._request.share else "~/run"

    def _bucket_command(self, verb: str) -> str:
        url = shlex.quote(self._url)
        return f"{_PYTHON} -m experiments.launchers.bucket {verb} {self._there} {url}"

    def _start_command(self, attempt: str) -> str:
        programs = shlex.quote(f"{self._request.bucket}/programs")
        verb = "run_there" if self._is_there else "run"
        environment = f"T2T_JAX_COMMIT={self._code.commit} JAX_COMPILATION_CACHE_DIR={programs}"
        return (
            f"{_BEGIN}([ -e ../run.pid ] || ({environment} nohup setsid "
            f"{self._bucket_command(verb)} {shlex.quote(attempt)} "
            "> ../bucket.log 2>&1 < /dev/null & echo $! > ../run.pid))"
        )

    def _wait_until_active(self) -> None:
        tries_left = _MOST_TRIES
        while True:
            try:
                state, reason = self._slice.state(self._stop)
                tries_left = _MOST_TRIES
            except gcloud.GcloudError as error:
                # It may have waited for hours, and would have to start over.
                tries_left -= 1
                if not tries_left:
                    raise
                tell(f"{self._slice.name}: {error}; trying again")
                state, reason = "STATE_UNSPECIFIED", ""
            if state == "ACTIVE":
                return
            if state == "FAILED":
                raise gcloud.GcloudError(f"no slice: {reason or state}")
            if state not in _WAITING:
                raise _Preempted(f"the slice is {state} before it was used")
            self._pause(_POLL_SECONDS)

    def _follow(self, attempt: str) -> Mapping[str, Any]:
        """How the run ended, as written by bucket.py."""
        # By this machine's monotonic clock: the slice's may be another, and this one may sleep.
        last_sign = last_line = time.monotonic()
        beat, failures = None, 0
        log, size = self._directory / record.LOG_FILE, 0
        while True:
            self._pause(_POLL_SECONDS)
            try:
                self._fetch(self._stop)
                end = self._end_of(attempt)
                exit_code = end.get("exit_code")
                if exit_code == 0:
                    return end
                if exit_code is not None and was_stopped(exit_code):
                    raise _Preempted("the run was told to stop by its machine")
                state, _ = self._slice.state(self._stop)
                if exit_code is not None and state == "ACTIVE":
                    if self._request.has_several_hosts and self._has_lost_a_host(exit_code):
                        self._ask_again()
                    return end
                failures = 0
            except gcloud.GcloudError as error:
                tell(f"{self._slice.name}: {error}; trying again")
                state = "ACTIVE"  # as far as we know; if this goes on, the silence limits apply
                failures += 1
            if state != "ACTIVE":
                raise _Preempted(f"the slice was taken away, its state is {state}")
            if self._sign is not None and self._sign.beat != beat:
                beat, last_sign = self._sign.beat, time.monotonic()
            size_before, size = size, log.stat().st_size if log.exists() else 0
            if size != size_before:
                last_line = time.monotonic()
            if 0 < failures < _MOST_TRIES:
                continue  # a single call may have taken an hour
            self._check_since("sign of life", last_sign, _SECONDS_OF_SILENCE)
            self._check_since(f"new line in {log.name}", last_line, _SECONDS_WITHOUT_A_LINE)

    def _check_since(self, what: str, last: float, most_seconds: float) -> None:
        """Raises GcloudError if `what` last came more than `most_seconds` ago."""
        if time.monotonic() - last > most_seconds:
            minutes = f"{most_seconds / 60:.0f} minutes"
            raise gcloud.GcloudError(f"no {what} in {self._url} for {minutes}")

    def _fetch_what_was_left(self) -> None:
        """Fetches the files of an earlier command, and clears its signs of life and of failure."""
        bucket.forget(self._directory)  # another bucket may have been told before
        self._mirror(self._stop, with_end=True)
        clear(self._directory)

    def _check_place(self) -> None:
        """Raises ValueError if the run was begun in the bucket itself and would go on elsewhere.

        Or the other way round: neither could read the other's checkpoints.
        """
        was_there = bucket.works_there(self._directory)
        if was_there is not None and was_there != self._is_there:
            way = "several hosts without share=" if was_there else "one host, or with share="
            raise ValueError(
                f"{self._url} was started with {way} and can only continue that way; another "
                "bucket= starts afresh"
            )

    def _mirror(self, stop: threading.Event | None, *, with_end: bool = False) -> None:
        """Fetches the run's files from the bucket.

        How it ended only once its slice is deleted: if this command is killed before, the next one
        goes on with the run, deletes the slice, and finds the record.
        """
        presence.forget_waiting(self._directory)  # a mirror deletes nothing
        small = r"run\.json|\.train\.lock" + ("" if with_end else r"|(record|failure)\.json")
        without = rf"{bucket.LARGE}|(.*/)?({small})$"
        gcloud.mirror(self._url, str(self._directory), without=without, stop=stop)

    def _fetch_record(self) -> None:
        for tries_left in reversed(range(_MOST_TRIES)):
            try:
                return self._mirror(self._stop, with_end=True)
            except gcloud.GcloudError:
                if not tries_left:
                    raise
                self._pause(_SECONDS_BEFORE_RETRY)

    def _fetch(self, stop: threading.Event | None) -> None:
        self._mirror(stop)
        self._sign, event = start_event(self._directory, self._sign)
        if event is not None:
            self._tell(event)

    def _end_of(self, attempt: str) -> Mapping[str, Any]:
        path = self._directory / bucket.ENDED_FILE
        values = record.read_json(path) if path.exists() else {}
        return values if values.get("attempt") == attempt else {}

    def _has_lost_a_host(self, exit_code: int) -> bool:
        """Whether a run has ended so since JAX kills a host that loses another.

        Or since the bucket did not answer for long, and the run took its own lock for another's.
        """
        return exit_code < 0 or (self._is_there and exit_code == presence.IS_TAKEN)

    def _ask_again(self) -> None:
        """Requests another slice, at most three times.

        Raises:
          _Preempted: it has happened less often than that.
        """
        if self._num_lost_hosts < _MOST_LOST_HOSTS:
            self._num_lost_hosts += 1
            raise _Preempted("a host was lost")

    def _patiently(self, action: Callable[[], None], most_tries: int = _MOST_TRIES) -> None:
        """Retries an action: a new machine does not answer at once.

        Raises:
          GcloudError: it still fails, though the slice exists.
        """
        for tries_left in reversed(range(most_tries)):
            try:
                action()
                return
            except gcloud.GcloudError:
                with contextlib.suppress(gcloud.GcloudError):
                    if self._slice.state(self._stop)[0] != "ACTIVE":
                        raise _Preempted(
                            "the slice was taken away before the run started"
                        ) from None
                if not tries_left:
                    raise
                self._pause(_SECONDS_BEFORE_RETRY)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise gcloud.Stopped


def _mount_command(share: str) -> str:
    """The command to mount the share on a host, unless mounted, with a directory for runs."""
    install = (
        "sudo apt-get -qq update; sudo apt-get -qq -y -o DPkg::Lock::Timeout=300 install nfs-common"
    )
    options = f"-t nfs -o {_MOUNT_OPTIONS}"
    return (
        f"mkdir -p {_SHARE} && (mountpoint -q {_SHARE} || "
        f"(([ -x /sbin/mount.nfs ] || ({install})) && "
        f"sudo timeout 120 mount {options} {shlex.quote(share)} {_SHARE})) && "
        f"([ -d {_RUNS} ] || sudo install -d -m 777 {_RUNS})"
    )


def _url(bucket_directory: str, run: record.Run) -> str:
    """Where the bucket keeps the run: another config has another place."""
    config = json.dumps(record.settings_since_then(run.config), sort_keys=True)
    return f"{bucket_directory}/{run.directory}-{hashlib.sha256(config.encode()).hexdigest()[:8]}"


def _slice_name(url: str) -> str:
    """Lower-case letters, digits and hyphens, not too long, unique to each run."""
    words = re.sub(r"[^a-z0-9]+", "-", "-".join(url.split("/")[-3:]).lower()).strip("-")
    return f"t2t-{words[:40].strip('-')}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


@contextlib.contextmanager
def _code() -> Iterator[_Code]:
    """The archive of the commit checked out here."""
    commit = _git("rev-parse", "HEAD")
    if uncommitted():
        print(
            f"files differ from the commit {commit[:7]}; the slices get the commit", file=sys.stderr
        )
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory) / _ARCHIVE
        _git("archive", "--format=tar.gz", "--prefix=t2t_jax/", f"--output={archive}", "HEAD")
        if not archive.exists():
            raise ValueError(f"git could make no archive of the commit {commit} in {directory}")
        yield _Code(archive, commit)


def _git(*arguments: str) -> str:
    root = str(Path(__file__).resolve().parents[2])
    command = ["git", "-C", root, *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
