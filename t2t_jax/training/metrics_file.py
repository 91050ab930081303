"""What a run measures as it goes: JSON lines for tables and figures, and TensorBoard files."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import tensorboardX

from t2t_jax import hosts
from t2t_jax.json_files import finite, json_text, write_bytes

Entry = Mapping[str, float | str]


class MetricsFile:
    """`metrics.jsonl` in a run's directory, and the same numbers in `tensorboard/`.

    An entry has a `split` (train, dev, start: the first step after a start, or rewind: another try
    of a step), a `step` and numbers; one that is none, such as a perplexity that no float can hold,
    is null. Opened at a step, it forgets what a run that was stopped had written of later ones, so
    that no step stands in it twice. Of several hosts the first writes, the others keep the entries.
    """

    def __init__(self, workdir: Path, step: int) -> None:
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
        self._tensorboard = tensorboardX.SummaryWriter(
            str(self._path.with_name("tensorboard")), purge_step=step + 1, flush_secs=10
        )

    def forget_after(self, step: int) -> None:
        """Forgets entries of later steps, which are made anew, but not that it was done before."""
        self.entries = [
            entry
            for entry in self.entries
            if entry["step"] <= step or (entry["split"] == "rewind" and entry["step"] == step + 1)
        ]
        if self._writes:
            self._close()
            self._open(step)

    def write(self, entry: Entry) -> None:
        """Adds an entry, to both."""
        kept = finite(dict(entry))
        self.entries.append(kept)
        if not self._writes:
            return
        print(json_text(kept), file=self._file, flush=True)
        for name, value in kept.items():
            if name not in ("split", "step") and value is not None:
                self._tensorboard.add_scalar(f"{entry['split']}/{name}", value, int(entry["step"]))

    def flush(self) -> None:
        """Brings all entries to the disk, where a machine that is lost leaves them."""
        if self._writes:
            os.fsync(self._file.fileno())

    def __enter__(self) -> "MetricsFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writes:
            self._close()

    def _close(self) -> None:
        self._file.close()
        self._tensorboard.close()


def read_metrics(path: Path) -> list[dict]:
    """The entries of a metrics file, oldest first; none if there is no file.

    A last line that was cut when a run was killed is left out.

    Raises:
      ValueError: a line is no entry; says which.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from error
    return [_entry(path, place, line) for place, line in enumerate(lines[:-1], 1) if line]


def _entry(path: Path, place: int, line: str) -> dict:
    try:
        entry = json.loads(line)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path}, line {place} is not JSON: {error}") from error
    if not isinstance(entry, dict) or not {"split", "step"} <= entry.keys():
        raise ValueError(f"{path}, line {place} is no entry with a split and a step")
    return entry
