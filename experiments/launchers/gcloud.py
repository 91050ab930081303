"""The gcloud commands that ask for a TPU slice, use it and give it back; and those of a bucket.

Syntax: https://cloud.google.com/sdk/gcloud/reference/ of compute/tpus/queued-resources (create,
describe, delete), compute/tpus/tpu-vm (scp, ssh) and storage (cp, rsync).
States: https://cloud.google.com/tpu/docs/queued-resources
Runtimes: https://cloud.google.com/tpu/docs/runtimes
"""

import json
import re
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_POLL_SECONDS = 0.2
# What Cloud TPU runs under a type, by the beginning of its name.
_RUNTIMES = {"v6e": "v2-alpha-tpuv6e", "v5p": "v2-alpha-tpuv5", "v5lite": "v2-alpha-tpuv5-lite"}
_OLDER_RUNTIME = "tpu-ubuntu2204-base"
# The number at the end of a type: chips, or the two cores of each.
_MOST_OF_ONE_HOST = 8
_NEEDED = ("project", "zone", "type", "bucket")
_ALLOWED = (*_NEEDED, "version", "spot", "share")


class GcloudError(Exception):
    """A gcloud command failed; in its own words."""


class Stopped(Exception):
    """The person asked to stop while a command ran, or while it was waited for."""


class Request(NamedTuple):
    """What kind of slice is wanted, and the directory in a bucket where runs are kept."""

    project: str
    zone: str
    type: str  # accelerator type, such as v5litepod-8
    bucket: str  # gs://BUCKET/DIRECTORY
    version: str  # of the runtime
    spot: bool  # cheaper, and may be taken away at any time
    share: str  # ADDRESS:/PATH of an NFS 4.1 share that the hosts mount; empty where there is none
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
    if not pairs["bucket"].startswith("gs://"):
        raise ValueError(f"--tpu: bucket={pairs['bucket']}; a bucket's address begins with gs://")
    spot = pairs.get("spot", "false")
    if spot not in ("true", "false"):
        raise ValueError(f"--tpu: spot={spot}; it is true or false")
    share = pairs.get("share", "")
    if share and not re.fullmatch(r"[^/]+:/\S*", share):
        raise ValueError(f"--tpu: share={share}; an NFS 4.1 share is ADDRESS:/PATH")
    family = pairs["type"]
    size = re.search(r"-(\d+)$", family)
    has_several_hosts = size is not None and int(size[1]) > _MOST_OF_ONE_HOST
    if has_several_hosts and not share:
        raise ValueError(
            f"--tpu: type={family} has several hosts, which need share=ADDRESS:/PATH, an NFS 4.1 "
            f"share such as Filestore's; types to -{_MOST_OF_ONE_HOST} do without"
        )
    runtimes = [runtime for start, runtime in _RUNTIMES.items() if family.startswith(start)]
    return Request(
        project=pairs["project"],
        zone=pairs["zone"],
        type=pairs["type"],
        bucket=pairs["bucket"].rstrip("/"),
        version=pairs.get("version") or (runtimes or [_OLDER_RUNTIME])[0],
        spot=spot == "true",
        share=share,
        has_several_hosts=has_several_hosts,
    )


def call(*arguments: str, stop: threading.Event | None = None) -> str:
    """What `gcloud ARGUMENTS` prints.

    Raises:
      GcloudError: it failed.
      Stopped: `stop` was set meanwhile; the command was ended.
    """
    with subprocess.Popen(
        ["gcloud", *arguments, "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,  # Ctrl-C reaches it through us alone
    ) as command:
        while True:
            if stop is not None and stop.is_set():
                command.terminate()
                raise Stopped
            try:
                printed, errors = command.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
    if command.returncode != 0:
        # Of several hosts gcloud also says, in lines of #, which one it was.
        lines = [line for line in errors.strip().splitlines() if not line.startswith("#")]
        lines = lines or [f"exit code {command.returncode}"]
        # The line that begins so says what went wrong; hints may follow it.
        reasons = [line for line in lines if line.startswith("ERROR")]
        raise GcloudError((reasons or lines)[-1])
    return printed


class Slice:
    """A slice that is asked for as a queued resource with one node, both of the same name.

    Its methods raise GcloudError and, where they take `stop`, Stopped.
    """

    def __init__(self, request: Request, name: str) -> None:
        self.name = name
        self._request = request
        self._where = (f"--project={request.project}", f"--zone={request.zone}")

    def create(self, stop: threading.Event) -> None:
        """Asks for it; it is there when its state is ACTIVE."""
        request = self._request
        spot = ["--spot"] if request.spot else []
        self._queued(
            "create",
            f"--node-id={self.name}",
            f"--accelerator-type={request.type}",
            f"--runtime-version={request.version}",
            *spot,
            stop=stop,
        )

    def state(self, stop: threading.Event) -> tuple[str, str]:
        """Its state and, of FAILED, the reason; "GONE" if there is no such slice."""
        try:
            printed = self._queued("describe", "--format=json", stop=stop)
        except GcloudError as error:
            if "NOT_FOUND" in str(error):
                return "GONE", ""
            raise
        values = json.loads(printed).get("state", {})
        reason = values.get("failedData", {}).get("error", {}).get("message", "")
        return values.get("state", "STATE_UNSPECIFIED"), reason

    def delete(self) -> None:
        """Gives it back, whatever its state."""
        try:
            self._queued("delete", "--force")
        except GcloudError as error:
            if "NOT_FOUND" not in str(error):
                raise

    @property
    def delete_command(self) -> str:
        """The same, for a person."""
        where = " ".join(self._where)
        return f"gcloud compute tpus queued-resources delete {self.name} --force {where}"

    def send(self, file: Path, stop: threading.Event) -> None:
        """Copies a file into the home directory of every host."""
        self._vm("scp", str(file), f"{self.name}:", stop=stop)

    def run(
        self, command: str, stop: threading.Event | None, *, on_first_alone: bool = False
    ) -> None:
        """Runs a shell command on every host, or on the first alone."""
        worker = "0" if on_first_alone else "all"
        self._vm("ssh", self.name, f"--command={command}", worker=worker, stop=stop)

    def _queued(self, verb: str, *arguments: str, stop: threading.Event | None = None) -> str:
        command = ("compute", "tpus", "queued-resources", verb, self.name, *arguments)
        return call(*command, *self._where, stop=stop)

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


def mirror(
    source: str,
    destination: str,
    *,
    without: str | None = None,
    delete: bool = False,
    stop: threading.Event | None = None,
) -> None:
    """Copies what has changed in a directory into or out of a bucket.

    Args:
      without: a pattern, of Python's kind, of the paths in it that are left alone.
      delete: whether what is not in `source` is deleted in `destination`.

    Raises:
      GcloudError, Stopped: see `call`.
    """
    options = ["--recursive"]
    options += [f"--exclude={without}"] if without else []
    options += ["--delete-unmatched-destination-objects"] if delete else []
    call("storage", "rsync", source, destination, *options, stop=stop)
