"""The measurements of a run: JSON lines for tables and figures, and TensorBoard files."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_jax.json_files import finite, full_disk_told, json_text, write_bytes

Entry = Mapping[str, float | str]


class MetricsFile:
    """`metrics.jsonl` in a run's directory, and the same numbers in `tensorboard/`.

    An entry has a `split` (train, dev, start: the first step after a start, or rewind: a retry of a
    step), a `step` and numbers; a non-finite one, such as a perplexity too large for a float, is
    null. Opened at a step, it forgets entries of later steps, written by a stopped run, so that no
    step appears twice. With several hosts, only the first writes; the others keep the entries.
    """

    def __init__(self, workdir: Path, step: int) -> None:
        # Imported here and in _TensorBoard: a report, which only reads, need not load jax.
        from t2t_jax import hosts

        path = workdir / "metrics.jsonl"
        self.entries = [entry for entry in read_metrics(path) if entry["step"] <= step]
        hosts.wait("the metrics are read")
        self._writes = hosts.is_first()
        if not self._writes:
            return
        self._path = path
        self._open(step)

    def _open(self, step: int) -> None:
        lines = "".join(json_text(entry) + "\n" for entry in self.entries)
        write_bytes(self._path, lines.encode())
        self._file = self._path.open("a", encoding="utf-8")
        with full_disk_told(self._path):
            self._tensorboard = _TensorBoard(self._path.with_name("tensorboard"), step + 1)

    def forget_after(self, step: int) -> None:
        """Forgets entries of later steps, which are redone; not starts and rewinds of the next."""
        self.entries = [
            entry
            for entry in self.entries
            if entry["step"] <= step + (entry["split"] in ("start", "rewind"))
        ]
        if self._writes:
            self._close()
            self._open(step)

    def write(self, entry: Entry) -> None:
        """Adds an entry to both.

        Raises:
          DiskFullError: no space; in words.
        """
        kept = finite(dict(entry))
        self.entries.append(kept)
        if not self._writes:
            return
        with full_disk_told(self._path):
            print(json_text(kept), file=self._file, flush=True)
            self._tensorboard.write(kept)

    def flush(self) -> None:
        """Forces all entries to disk, where they survive the loss of the machine."""
        if self._writes:
            with full_disk_told(self._path):
                os.fsync(self._file.fileno())

    def __enter__(self) -> "MetricsFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._writes:
            return
        # After a failure, closing may fail for the same reason.
        with contextlib.nullcontext() if kind is None else contextlib.suppress(OSError):
            self._close()

    def _close(self) -> None:
        with full_disk_told(self._path), contextlib.closing(self._tensorboard):
            self._file.close()


class _TensorBoard:
    """The same numbers for TensorBoard.

    Written by this thread: tensorboardX's own thread dies on a full disk, and its callers then wait
    forever.
    """

    _SECONDS_BETWEEN_FLUSHES = 10.0

    def __init__(self, directory: Path, first_step: int) -> None:
        """Forgets what was written for `first_step` and later ones before the run stopped."""
        from tensorboardX.proto import event_pb2
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import scalar

        self._scalar = scalar
        self._protocol: Any = event_pb2  # its names are created on import
        directory.mkdir(exist_ok=True)
        # To the microsecond: a run that rewinds may start two files within a second.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}"
        self._writer = RecordWriter(str(directory / name))
        self._add(first_step, file_version="brain.Event:2")
        start = self._protocol.SessionLog(status=self._protocol.SessionLog.START)
        self._add(first_step, session_log=start)
        self._flushed = -float("inf")

    def write(self, entry: Entry) -> None:
        """Adds the numbers of an entry."""
        for name, value in entry.items():
            if name not in ("split", "step") and value is not None:
                summary = self._scalar(f"{entry['split']}/{name}", value)
                self._add(int(entry["step"]), summary=summary)
        if time.monotonic() - self._flushed >= self._SECONDS_BETWEEN_FLUSHES:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, **what: Any) -> None:
        event = self._protocol.Event(step=step, wall_time=time.time(), **what)
        self._writer.write(event.SerializeToString())


def read_metrics(path: Path) -> list[dict]:
    """The entries of a metrics file, oldest first; none if there is no file.

    Ignores a last line cut off by a kill.

    Raises:
      ValueError: another line is damaged; says which.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [_entry(path, number, line) for number, line in enumerate(lines[:-1], 1) if line]


def _entry(path: Path, number: int, line: bytes) -> dict:
    entry: Any = None
    with contextlib.suppress(RecursionError, ValueError):
        entry = json.loads(line)
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("split"), str)
        or type(entry.get("step")) is not int
    ):
        raise ValueError(
            f"{path} is damaged, line {number} is no entry of a metrics file: remove the "
            "line, or move the file away; checkpoints also store the counts of tokens and seconds"
        )
    return entry
