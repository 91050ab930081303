"""The finished runs below a directory, in a form for any destination: settings, scores, curves.

In: run.json, record.json and metrics.jsonl, possibly somebody else's. Out: plain text and numbers.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.report.measures import COSTS
from experiments.run import record
from experiments.run.outcomes import Outcome, read_outcomes
from experiments.run.plain_text import plain_text, plain_values
from experiments.run.record import is_number
from t2t_jax.json_files import flat_dict
from t2t_jax.training.metrics_file import read_metrics

_TEXTS = ("direction", "hardware", "commit", "data_fingerprint", "vocabulary_fingerprint")
_LARGEST = 10**9  # steps or seconds
# In the entry of a split, besides its scores.
_NO_SCORES = ("step", "tokens", "sentences", "seconds")


class Point(NamedTuple):
    """Measurements at a step of training, such as "dev/perplexity"."""

    step: int
    seconds: float  # since training began
    numbers: dict[str, float]


class ExportedRun(NamedTuple):
    """A finished run."""

    name: str  # its directory below the workdir
    table: str
    row: str
    seed: int
    config: dict[str, Any]  # by dotted key
    changed: dict[str, Any]  # the keys that a row changes, or in which two runs differ
    numbers: dict[str, float]  # parameters, steps and costs
    scores: dict[str, float]  # by split and score, such as "test_bleu"
    facts: dict[str, str]
    points: list[Point]
    ended: float  # seconds since 1970

    @property
    def title(self) -> str:
        """Row and seed, or trial: "A.h=1 seed-0"."""
        return f"{self.row} {Path(self.name).name}"

    @property
    def step(self) -> int:
        """The step that was scored."""
        return int(_bounded(self.numbers.get("steps", 0)))

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970."""
        return self.ended - _bounded(self.numbers.get("seconds", 0))

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of everything there is to export, but for what other runs change."""
        values = json.dumps(self._replace(ended=0, changed={}), sort_keys=True)
        return hashlib.sha256(values.encode()).hexdigest()


def read_runs(workdir: Path) -> tuple[list[ExportedRun], list[str]]:
    """The finished runs below `workdir`, and a sentence per other run and per damaged file.

    Raises:
      ValueError: there is no finished run.
    """
    found = read_outcomes(workdir)
    told = list(found.unreadable.values())
    finished = [outcome for outcome in found.runs if outcome.record is not None]
    for outcome in found.runs:
        if outcome.record is None:
            why = outcome.refused or outcome.failure
            name = plain_text(_name(outcome, workdir))
            told.append(f"{name} {f'has no record: {why}' if why else 'is not finished'}")
    if not finished:
        more = f": {told[0]}" if told else "; experiments.sweep makes them"
        raise ValueError(f"there are no finished runs below {workdir}{more}")
    keys = _changed_keys(finished)
    runs = []
    for outcome in finished:
        try:
            points = list(_points(outcome.directory / "metrics.jsonl"))
        except (OSError, ValueError) as error:
            points = []
            told.append(plain_text(f"{_name(outcome, workdir)} has no curve: {error}"))
        runs.append(_exported(outcome, workdir, keys, points))
    return runs, told


def _name(outcome: Outcome, workdir: Path) -> str:
    relative = outcome.directory.relative_to(workdir)
    return (relative if relative.parts else outcome.run.directory).as_posix()


def _changed_keys(outcomes: Sequence[Outcome]) -> list[str]:
    """The keys in which a run differs from its base or from another run, except the seed."""
    configs = [record.settings(outcome.run.config) for outcome in outcomes]
    bases = [record.settings(outcome.run.base) for outcome in outcomes]
    return [
        key
        for key in dict.fromkeys(key for config in configs for key in config)
        if len({json.dumps(each.get(key)) for each in (*configs, *bases)}) > 1
    ]


def _exported(
    outcome: Outcome, workdir: Path, keys: Sequence[str], points: list[Point]
) -> ExportedRun:
    run, values = outcome.run, outcome.record or {}
    config = flat_dict(run.config)
    signature = values.get("scores", {}).get("test", {}).get("bleu_signature", "")
    return ExportedRun(
        name=_name(outcome, workdir),
        table=run.table,
        row=run.row,
        seed=run.seed,
        config=config,
        changed={key: config.get(key) for key in keys},
        numbers=_finite(_numbers(values)),
        scores=_finite(_scores(values)),
        facts={key: values.get(key) or "" for key in _TEXTS} | {"bleu_signature": signature},
        points=points,
        ended=(outcome.directory / record.RECORD_FILE).stat().st_mtime,
    )


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("params", "steps"):
        yield key, values.get(key)
    for cost in COSTS:
        try:
            yield cost.name, cost.value(dict(values))
        except (KeyError, TypeError, ZeroDivisionError):
            continue  # an older record lacks it


def _scores(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for split, scores in values.get("scores", {}).items():
        for name, value in scores.items():
            if isinstance(value, dict):
                for kind, number in value.items():
                    its_score = number.get("score") if isinstance(number, dict) else number
                    if name in ("metrics", "probes", "accuracy_by_class"):
                        yield f"{split}_{'' if name == 'metrics' else f'{name}_'}{kind}", its_score
            elif name not in _NO_SCORES:
                yield f"{split}_{name}", value


def _points(path: Path) -> Iterator[Point]:
    for entry in plain_values(read_metrics(path)):
        others = ((key, value) for key, value in entry.items() if key not in ("split", "step"))
        numbers = _finite((f"{entry['split']}/{key}", value) for key, value in others)
        seconds = _bounded(numbers.pop(f"{entry['split']}/seconds", 0))
        if numbers and entry["step"] == _bounded(entry["step"]):
            yield Point(entry["step"], seconds, numbers)


def _bounded(value: float) -> float:
    """A number of steps or seconds; 0 if no run can have it."""
    return value if 0 <= value < _LARGEST else 0


def _finite(values: Any) -> dict[str, float]:
    return {key: value for key, value in values if is_number(value) and math.isfinite(value)}
