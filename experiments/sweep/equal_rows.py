"""The rows of a sweep, each with as many updates as match base's total: `--equal`.

Tokens and operations are counted on the prepared corpus. Seconds are measured, each row alone on
this machine, and kept below the workdir, so that a continued sweep has the same updates.
"""

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from experiments.launchers.event import last_line
from experiments.launchers.process import FASTER_ALLOCATION, TETHERED
from experiments.run.record import SECONDS_FILE, settings
from experiments.tables.ablation import Row, Rows, as_dict
from experiments.tables.equal import Equal, stretched
from t2t_jax.data.batches.batches import Batches
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.devices import make_devices
from t2t_jax.json_files import json_text, read_json, write_json
from t2t_jax.runs.batches import train_batches
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.step_cost import step_cost, target_tokens
from t2t_jax.training.metrics_file import read_metrics

# Of a measurement: log windows, the first of which compile; those used; updates per window.
_WINDOWS, _RATED_WINDOWS, _UPDATES = 7, 4, 10


def equal_rows(
    rows: Rows, base: ConfigDict, equal: Equal, directory: Path | None, *, may_measure: bool
) -> Rows:
    """The rows, with their numbers of updates changed.

    Args:
      directory: of the table, where seconds are kept.
      may_measure: if not, seconds that are not kept yet are an error.

    Raises:
      ValueError: the corpus is wrong, a row would have no update, or seconds are not known.
    """
    if equal == "steps":
        return rows
    seconds = _Seconds(directory, may_measure)
    corpora: dict[str, Prepared] = {}

    def of_an_update(row: Row) -> float:
        config = row.config(base)
        match equal:
            case "tokens":
                return target_tokens(_batches(config, corpora))
            case "flops":
                model = read_sections(config).model
                return step_cost(_batches(config, corpora), model).padded_operations
            case "seconds":
                return seconds.of_an_update(
                    row.name, config, lambda: target_tokens(_batches(config, corpora))
                )

    base_row = next((row for row in rows.rows if row.name == "base"), Row("base", {}))
    budget = as_dict(base_row.config(base))["training"]["steps"] * of_an_update(base_row)
    made = [
        # Base keeps its updates, whatever was measured.
        row if row is base_row else stretched(row, base, round(budget / of_an_update(row)))
        for row in rows.rows
    ]
    return Rows(made, rows.left_out)


def _batches(config: ConfigDict, corpora: dict[str, Prepared]) -> Batches:
    """Batches of the prepared corpus, on one device; `corpora` caches those already read."""
    import jax

    sections = read_sections(config)
    corpus = json_text(as_dict(config)["data"])
    if corpus not in corpora:
        corpora[corpus] = prepare(sections)
    return train_batches(corpora[corpus], sections, make_devices(1, devices=jax.devices()[:1]))


class _Seconds:
    """Seconds per update of each row, measured once and kept."""

    def __init__(self, directory: Path | None, may_measure: bool):
        self._file = None if directory is None else directory / SECONDS_FILE
        self._may_measure = may_measure

    def of_an_update(self, name: str, config: ConfigDict, tokens: Callable[[], float]) -> float:
        """Seconds per update, known or else measured now; an update has `tokens` target tokens.

        Raises:
          ValueError: they are not known and may not be measured.
        """
        if (found := self._known(config)) is not None:
            return found
        if self._file is None or not self._may_measure:
            raise ValueError(
                f"--equal=seconds: those of row {name} are not known; a sweep with "
                f"--launcher=local measures them, and keeps them in {SECONDS_FILE} of its "
                "table below the workdir"
            )
        print(f"row {name}: measured ... ", end="", flush=True)
        found = tokens() / _tokens_per_second(config)
        print(f"{found:.3g} s an update")
        write_json(self._file, self._kept() | {_key(config): {"row": name, "seconds": found}})
        return found

    def _known(self, config: ConfigDict) -> float | None:
        found = self._kept().get(_key(config))
        seconds = found.get("seconds") if isinstance(found, dict) else None
        return seconds if isinstance(seconds, int | float) and seconds > 0 else None

    def _kept(self) -> dict[str, Any]:
        return read_json(self._file) if self._file is not None and self._file.exists() else {}


def _key(config: ConfigDict) -> str:
    """Identifies what a row does, whatever its name: other settings take other seconds."""
    return hashlib.sha256(json_text(settings(as_dict(config))).encode()).hexdigest()[:16]


def _tokens_per_second(config: ConfigDict) -> float:
    """Target tokens/s of a short training run, alone on the machine, without compilation."""
    values: Any = as_dict(config)
    intervals = ("steps", "evaluate_every_steps", "checkpoint_every_steps")
    values["training"] |= dict.fromkeys(intervals, _UPDATES * _WINDOWS)
    values["decoding"]["average_checkpoints"] = 1
    values["training"] |= {"warmup_steps": 1, "log_every_steps": _UPDATES, "patience": 0}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_json(place / "run" / "config.json", values)
        training = [sys.executable, "-m", "t2t_jax.cli.main", "train", f"--workdir={place}/run"]
        with (place / "log").open("w") as log:
            environment = {**FASTER_ALLOCATION, **os.environ}
            done = subprocess.run([*TETHERED, *training], stdout=log, stderr=log, env=environment)
        if done.returncode:
            raise ValueError(f"--equal=seconds: {last_line(place / 'log')}")
        entries = read_metrics(place / "run" / "metrics.jsonl")
    rates = [entry["target_tokens_per_second"] for entry in entries if entry["split"] == "train"]
    return statistics.median(rates[-_RATED_WINDOWS:])
