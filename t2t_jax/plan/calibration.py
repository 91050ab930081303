"""Calibrates predictions by a finished run on real hardware: seen / predicted seconds of a step."""

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from t2t_jax.json_files import read_json
from t2t_jax.plan.hardware import names_text, of_device
from t2t_jax.plan.plan import Settings, plan
from t2t_jax.runs.keys import own_cache, with_later_keys
from t2t_jax.runs.sections import read_sections
from t2t_jax.training.metrics_file import read_metrics

_RECORDS = ("record.json", "training.json")  # of a run in a sweep, and of any run


class Calibration(NamedTuple):
    factor: float  # seen / predicted
    chip: str  # where it was seen
    words: str


def calibration(place: Path, settings: Settings) -> Calibration:
    """The calibration by a run's directory or record.

    Raises:
      ValueError: it is not a record of a finished run, or its hardware cannot be planned for.
    """
    path = _record_of(place)
    values = read_json(path)
    try:
        hardware, steps = values["hardware"], values["steps"]
        config = with_later_keys(values.get("config") or read_json(path.with_name("config.json")))
        config["data"]["cache"] = own_cache()  # the run may be anybody's
        seen = _seconds_of_a_step(path, values)
        known = of_device(hardware)
    except (KeyError, FileNotFoundError) as error:
        missing = "config.json beside it" if isinstance(error, OSError) else error
        raise ValueError(f"{path} is not a record of a finished run: it lacks {missing}") from error
    except (ArithmeticError, OSError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} has no usable seconds, steps or hardware ({error})") from error
    if known is None:
        raise ValueError(f"{path} is of {hardware}, for which nothing is predicted: {names_text()}")
    predicted = plan(read_sections(ConfigDict(config)), known, settings).step_seconds.middle
    if not predicted > 0:
        raise ValueError(f"{path}: by prediction its step does not fit {known.name}")
    factor = seen / predicted
    words = (
        f"calibrated by {steps:,} steps on {hardware}: a step took {seen * 1e3:.1f} ms, "
        f"{factor:.2f} times the {predicted * 1e3:.1f} ms predicted"
    )
    return Calibration(factor, known.chip.name, words)


def _record_of(place: Path) -> Path:
    if place.is_file():
        return place
    for name in _RECORDS:
        if (place / name).is_file():
            return place / name
    raise ValueError(f"{place} has no {' and no '.join(_RECORDS)}: it is of no finished run")


def _seconds_of_a_step(path: Path, values: dict[str, Any]) -> float:
    """Without compilation and evaluation, if the run's metrics are beside its record."""
    metrics = path.with_name("metrics.jsonl")
    rates = []
    if metrics.is_file():
        entries = [entry for entry in read_metrics(metrics) if entry.get("split") == "train"]
        rates = [entry["target_tokens_per_second"] for entry in entries]
    if rates:
        return values["target_tokens"] / values["steps"] / statistics.median(rates)
    seconds = values["seconds"]
    return (seconds["train"] if isinstance(seconds, dict) else seconds) / values["steps"]
