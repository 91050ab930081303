"""The gcloud commands that create, use and delete a TPU slice, and those for a bucket.

Syntax: https://cloud.google.com/sdk/gcloud/reference/ of compute/tpus/queued-resources (create,
describe, delete), alpha/compute/tpus/queued-resources (create), compute/tpus/tpu-vm (scp, ssh) and
storage (cp, rm, rsync).
Flex-start: https://cloud.google.com/tpu/docs/request-using-flex-start
Reservations: https://cloud.google.com/tpu/docs/consume-reservation
States: https://cloud.google.com/tpu/docs/queued-resources
Runtimes: https://cloud.google.com/tpu/docs/runtimes
"""

import json
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_POLL_SECONDS = 0.2
# For one command. Without an answer for so long, it has failed: a slice would wait and cost money.
_MOST_SECONDS = 3600.0
# The runtime of an accelerator type, by the beginning of its name.
_RUNTIMES = {"v6e": "v2-alpha-tpuv6e", "v5p": "v2-alpha-tpuv5", "v5lite": "v2-alpha-tpuv5-lite"}
_OLDER_RUNTIME = "tpu-ubuntu2204-base"
# The number at the end of a type counts chips, or cores, two per chip.
_MOST_OF_ONE_HOST = 8
_NEEDED = ("project", "zone", "type", "bucket")
# Options of gcloud itself, there with hyphens; the first ones only in its alpha commands.
_OF_ALPHA = ("provisioning_model", "max_run_duration", "reservation")
_PASSED_ON = (*_OF_ALPHA, "service_account", "network", "subnetwork")
_TRUE_OR_FALSE = ("spot", "reserved")
_ALLOWED = (*_NEEDED, "version", *_TRUE_OR_FALSE, "share", "labels", *_PASSED_ON)
_MODELS = ("standard", "spot", "flex-start", "reservation-bound")
_DURATION = r"(\d+d)?(\d+h)?(\d+m)?(\d+s)?"
_LABEL = r"[a-z][a-z0-9_-]{0,62}=[a-z0-9_-]{0,63}"


class GcloudError(Exception):
    """A gcloud command failed; the message is its own."""


class Stopped(Exception):
    """The user asked to stop while a command ran, or while waiting for one."""


class Request(NamedTuple):
    """The kind of slice wanted, and the directory in a bucket where runs are kept."""

    project: str
    zone: str
    type: str  # accelerator type, such as v5litepod-8
    bucket: str  # gs://BUCKET/DIRECTORY
    version: str  # of the runtime
    options: tuple[str, ...]  # of `create`: whose capacity, for how long, in which network
    needs_alpha: bool  # whether only the alpha command knows them
    share: str  # ADDRESS:/PATH of an NFS 4.1 share that the hosts mount; empty if there is none
    has_several_hosts: bool


def request_of(pairs: Mapping[str, str]) -> Request:
    """The request of the flag --tpu.

    Raises:
      ValueError: a part is missing, unknown or wrong.
    """
    for name in pairs:
        if name not in _ALLOWED:
            raise ValueError(f"--tpu knows no {name}; it knows {', '.join(_ALLOWED)}")
    for name in _NEEDED:
        if name not in pairs:
            raise ValueError(f"--tpu needs {name}=...; it needs {', '.join(_NEEDED)}")
    if not re.match(r"gs://[^/]", pairs["bucket"]):
        raise ValueError(f"--tpu: bucket={pairs['bucket']}; a bucket's address is gs://BUCKET/DIR")
    if not re.fullmatch(r"[a-z0-9]+-\d+", pairs["type"]):
        raise ValueError(f"--tpu: type={pairs['type']}; it is such as v5litepod-8, v6e-8 or v4-8")
    if pairs["type"].startswith("v5e"):
        meant = pairs["type"].replace("v5e", "v5litepod")
        raise ValueError(f"--tpu: type={pairs['type']}; Cloud TPU calls it {meant}")
    options = _options_of(pairs)
    share = pairs.get("share", "")
    if share and not re.fullmatch(r"[^/]+:/\S*", share):
        raise ValueError(f"--tpu: share={share}; an NFS 4.1 share is ADDRESS:/PATH")
    has_several_hosts = int(pairs["type"].rpartition("-")[2]) > _MOST_OF_ONE_HOST
    runtimes = [runtime for start, runtime in _RUNTIMES.items() if pairs["type"].startswith(start)]
    return Request(
        project=pairs["project"],
        zone=pairs["zone"],
        type=pairs["type"],
        bucket=pairs["bucket"].rstrip("/"),
        version=pairs.get("version") or (runtimes or [_OLDER_RUNTIME])[0],
        options=tuple(options),
        needs_alpha=any(name in pairs for name in _OF_ALPHA),
        share=share,
        has_several_hosts=has_several_hosts,
    )


def _options_of(pairs: Mapping[str, str]) -> list[str]:
    """The options of `create` for capacity, duration, account, network and labels."""
    for name in _TRUE_OR_FALSE:
        if pairs.get(name, "false") not in ("true", "false"):
            raise ValueError(f"--tpu: {name}={pairs[name]}; it is true or false")
    given = [name for name in _TRUE_OR_FALSE if pairs.get(name) == "true"]
    model = pairs.get("provisioning_model")
    if model is not None and model not in _MODELS:
        raise ValueError(f"--tpu: provisioning_model={model}; gcloud has {', '.join(_MODELS)}")
    if len(given) + (model is not None) > 1:
        said = " and ".join([*given, *(["provisioning_model"] if model else [])])
        raise ValueError(f"--tpu: {said} are two answers to whose capacity it is; give one")
    duration = pairs.get("max_run_duration")
    if duration is not None and not re.fullmatch(_DURATION, duration):
        raise ValueError(f"--tpu: max_run_duration={duration}; it is such as 4h, 90m or 1d12h")
    if model == "flex-start" and duration is None:
        raise ValueError(
            "--tpu: provisioning_model=flex-start needs max_run_duration=..., such as 4h; at most "
            "7d"
        )
    labels = pairs.get("labels", "").split(";") if "labels" in pairs else []
    for label in labels:
        if not re.fullmatch(_LABEL, label):
            raise ValueError(
                f"--tpu: labels={pairs['labels']}; they are NAME=VALUE;NAME=VALUE of small "
                "letters, digits, - and _"
            )
    options = [f"--{name}" for name in given]
    options += [f"--{name.replace('_', '-')}={pairs[name]}" for name in _PASSED_ON if name in pairs]
    return options + ([f"--labels={','.join(labels)}"] if labels else [])


def call(*arguments: str, stop: threading.Event | None = None) -> str:
    """Runs `gcloud ARGUMENTS`; returns what it prints.

    Raises:
      GcloudError: it cannot be started, has failed, or has not answered for an hour.
      Stopped: `stop` was set meanwhile; the command was ended.
    """
    words = f"gcloud {' '.join(arguments[:4])}"
    with _started(arguments) as command:
        deadline = time.monotonic() + _MOST_SECONDS
        while True:
            if time.monotonic() > deadline:
                command.kill()
                raise GcloudError(f"{words}: no answer for {_MOST_SECONDS / 60:.0f} minutes")
            if stop is not None and stop.is_set():
                command.terminate()
                raise Stopped
            try:
                printed, errors = command.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
    if command.returncode != 0:
        # With several hosts, gcloud names the one that failed in lines that start with #.
        lines = [line for line in errors.strip().splitlines() if not line.startswith("#")]
        lines = lines or [f"{words}: exit code {command.returncode}"]
        # A line that begins with ERROR says what went wrong; hints may follow it.
        reasons = [line for line in lines if line.startswith("ERROR")]
        raise GcloudError((reasons or lines)[-1])
    return printed


def _started(arguments: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            ["gcloud", *arguments, "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,  # Ctrl-C reaches it only through us
        )
    except OSError as error:  # no memory, or gcloud is being updated
        raise GcloudError(f"gcloud cannot be started: {error.strerror}") from error


class Slice:
    """A slice requested as a queued resource with one node, both of the same name.

    Its methods raise GcloudError and, where they take `stop`, Stopped.
    """

    def __init__(self, request: Request, name: str) -> None:
        self.name = name
        self._request = request
        self._where = (f"--project={request.project}", f"--zone={request.zone}")

    def create(self, stop: threading.Event) -> None:
        """Requests it; it is ready when its state is ACTIVE."""
        request = self._request
        self._queued(
            "create",
            f"--node-id={self.name}",
            f"--accelerator-type={request.type}",
            f"--runtime-version={request.version}",
            *request.options,
            stop=stop,
            alpha=request.needs_alpha,
        )

    def state(self, stop: threading.Event | None) -> tuple[str, str]:
        """Its state and, if FAILED, the reason; "GONE" if there is no such slice."""
        try:
            printed = self._queued("describe", "--format=json", stop=stop)
        except GcloudError as error:
            if "NOT_FOUND" in str(error):
                return "GONE", ""
            raise
        try:
            values = json.loads(printed).get("state", {})
        except ValueError as error:
            raise GcloudError(f"describe said {printed[:80]!r}, which is not JSON") from error
        reason = values.get("failedData", {}).get("error", {}).get("message", "")
        return values.get("state", "STATE_UNSPECIFIED"), reason

    def delete(self) -> None:
        """Deletes it, whatever its state."""
        try:
            self._queued("delete", "--force")
        except GcloudError as error:
            if "NOT_FOUND" not in str(error):
                raise

    @property
    def delete_command(self) -> str:
        """The same command, for the user."""
        where = " ".join(self._where)
        return f"gcloud compute tpus queued-resources delete {self.name} --force {where}"

    def send(self, file: Path, stop: threading.Event) -> None:
        """Copies a file into the home directory of every host."""
        self._vm("scp", str(file), f"{self.name}:", stop=stop)

    def run(
        self, command: str, stop: threading.Event | None, *, on_first_alone: bool = False
    ) -> None:
        """Runs a shell command on every host, or only on the first."""
        worker = "0" if on_first_alone else "all"
        self._vm("ssh", self.name, f"--command={command}", worker=worker, stop=stop)

    def _queued(
        self,
        verb: str,
        *arguments: str,
        stop: threading.Event | None = None,
        alpha: bool = False,
    ) -> str:
        command = ("compute", "tpus", "queued-resources", verb, self.name, *arguments)
        return call(*(["alpha"] if alpha else []), *command, *self._where, stop=stop)

    def _vm(
        self, verb: str, *arguments: str, stop: threading.Event | None, worker: str = "all"
    ) -> str:
        command = ("compute", "tpus", "tpu-vm", verb, *arguments, f"--worker={worker}")
        return call(*command, *self._where, stop=stop)


def copy(source: str, destination: str, stop: threading.Event | None = None) -> None:
    """Copies one file into or out of a bucket.

    Raises:
      GcloudError, Stopped: see `call`.
    """
    call("storage", "cp", source, destination, stop=stop)


def remove(object_: str) -> None:
    """Removes one file from a bucket, if it is there.

    Raises:
      GcloudError: see `call`.
    """
    try:
        call("storage", "rm", object_)
    except GcloudError as error:
        if "matched no objects" not in str(error):
            raise


def mirror(
    source: str,
    destination: str,
    *,
    without: str,
    delete: bool = False,
    stop: threading.Event | None = None,
) -> None:
    """Copies what has changed in a directory into or out of a bucket.

    Args:
      without: a Python regular expression for paths to skip.
      delete: whether to delete files in `destination` that are not in `source`.

    Raises:
      GcloudError, Stopped: see `call`.
    """
    options = ["--recursive", f"--exclude={without}"]
    options += ["--delete-unmatched-destination-objects"] if delete else []
    call("storage", "rsync", source, destination, *options, stop=stop)
