"""All runs for TensorBoard: curves, and the HPARAMS plugin with settings and scores."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.report.export.exported_runs import ExportedRun
from t2t_jax.json_files import write_bytes

# The same each time: a second export replaces the first.
_FILE = "events.out.tfevents.0.t2t_jax"


def export(runs: Sequence[ExportedRun], output: Path) -> Path:
    """Writes a directory per run, and next to them what the HPARAMS page lists."""
    from tensorboardX.summary import hparams

    settings: dict[str, Any] = {}
    for run in runs:  # runs of another version may lack a key
        settings |= {key: value for key, value in _settings(run).items() if value is not None}
    scores = {tag: 0.0 for run in runs for tag in _scores(run)}
    experiment, _, _ = hparams(settings, scores)
    _write(output / _FILE, [_event(0, min(run.began for run in runs), summary=experiment)])
    for run in runs:
        directory = output / run.name
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / _FILE, _events(run))
    return output


def _settings(run: ExportedRun) -> dict[str, Any]:
    return {"table": run.table, "row": run.row, "seed": run.seed, **run.changed}


def _scores(run: ExportedRun) -> dict[str, float]:
    return {f"scores/{name}": value for name, value in run.scores.items()}


def _events(run: ExportedRun) -> Iterator[Any]:
    from tensorboardX.summary import hparams, scalar

    _, start, end = hparams(_settings(run), {})
    yield _event(0, run.began, summary=start)
    for point in run.points:
        for tag, value in point.numbers.items():
            seconds = run.began + point.seconds
            yield _event(point.step, seconds, summary=scalar(tag, float(value)))
    for tag, value in _scores(run).items():
        yield _event(run.step, run.ended, summary=scalar(tag, float(value)))
    yield _event(run.step, run.ended, summary=end)


def _event(step: int, seconds: float, **what: Any) -> Any:
    from tensorboardX.proto import event_pb2

    protocol: Any = event_pb2  # its names are created on import
    return protocol.Event(step=step, wall_time=seconds, **what)


def _write(path: Path, events: Iterable[Any]) -> None:
    first = _event(0, 0.0, file_version="brain.Event:2")
    write_bytes(path, b"".join(_framed(each.SerializeToString()) for each in (first, *events)))


def _framed(data: bytes) -> bytes:
    """The data with its length and checksums, as a TFRecord."""
    from tensorboardX.record_writer import masked_crc32c

    length = struct.pack("<Q", len(data))
    checksums = [struct.pack("<I", masked_crc32c(each)) for each in (length, data)]
    return length + checksums[0] + data + checksums[1]
