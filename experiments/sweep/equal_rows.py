"""The rows of a sweep, each with as many updates as match base's total: `--equal`.

Tokens and operations are counted on the prepared corpus. Seconds are measured, one row after the
other on a run's share of this machine, and kept below the workdir, so that a continued sweep has
the same updates.
"""

import hashlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ml_collections import ConfigDict

from experiments.launchers.event import last_line
from experiments.launchers.local import Share
from experiments.launchers.process import FASTER_ALLOCATION, TETHERED, wait
from experiments.run.record import SECONDS_FILE, settings_since_then
from experiments.tables.ablation import Row, Rows, as_dict
from experiments.tables.equal import stretched
from t2t_jax.data.batches.batches import Batches
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.devices import make_devices
from t2t_jax.json_files import json_text, read_json, write_json
from t2t_jax.runs.batches import train_batches
from t2t_jax.runs.keys import WHERE
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.step_cost import step_cost, target_tokens
from t2t_jax.training.metrics_file import read_metrics

# Of a measurement: log windows, the first of which compile; those used; updates per window.
_WINDOWS, _RATED_WINDOWS, _UPDATES = 7, 4, 10
_MOST_COMPILING = 0.2  # of the time of a window that is used: what is compiled takes seconds


def equal_rows(
    rows: Rows,
    base: ConfigDict,
    equal: Literal["tokens", "flops", "seconds"],
    directory: Path | None,
    share: Share | None = None,
) -> Rows:
    """The rows, with their numbers of updates changed.

    Args:
      directory: of the table, where seconds are kept.
      share: what a run has of this machine; None: seconds that are not kept yet are an error.

    Raises:
      ValueError: the corpus is wrong, a row would have no update, or seconds are not known.
    """
    seconds = _Seconds(directory, share)
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
                    row, config, lambda: target_tokens(_batches(config, corpora))
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

    def __init__(self, directory: Path | None, share: Share | None):
        self._file = None if directory is None else directory / SECONDS_FILE
        self._share = share

    def of_an_update(self, row: Row, config: ConfigDict, tokens: Callable[[], float]) -> float:
        """Seconds per update, known or else measured now; an update has `tokens` target tokens.

        Raises:
          ValueError: they are not known and may not be measured.
        """
        key = _key(row, config)
        if (found := self._known(key)) is not None:
            return found
        if self._file is None or self._share is None:
            raise ValueError(
                f"--equal=seconds: those of row {row.name} are not known; a sweep with "
                f"--launcher=local measures them, and keeps them in {SECONDS_FILE} of its "
                "table below the workdir"
            )
        print(f"row {row.name}: measured ... ", end="", flush=True)
        found = tokens() / _tokens_per_second(config, self._share)
        print(f"{found:.3g} s an update")
        write_json(self._file, self._kept() | {key: {"row": row.name, "seconds": found}})
        return found

    def _known(self, key: str) -> float | None:
        found = self._kept().get(key)
        seconds = found.get("seconds") if isinstance(found, dict) else None
        return seconds if isinstance(seconds, int | float) and seconds > 0 else None

    def _kept(self) -> dict[str, Any]:
        return read_json(self._file) if self._file is not None and self._file.exists() else {}


def _key(row: Row, config: ConfigDict) -> str:
    """Identifies what a row does, whatever its name: other settings take other seconds.

    How a step is computed counts only where the row changes it: a sweep may go on elsewhere.
    """
    values = settings_since_then(as_dict(config))
    values |= {key: value for key, value in row.changes.items() if key in WHERE}
    return hashlib.sha256(json_text(values).encode()).hexdigest()[:16]


def _tokens_per_second(config: ConfigDict, share: Share) -> float:
    """Target tokens/s of a short training run that has `share`, without compilation."""
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
            environment = {**FASTER_ALLOCATION, **os.environ, **share.environment}
            process = subprocess.Popen(
                [*TETHERED, *training], stdout=log, stderr=log, env=environment
            )
            share.limit(process)
        if wait(process):
            raise ValueError(f"--equal=seconds: {last_line(place / 'log')}")
        entries = read_metrics(place / "run" / "metrics.jsonl")
    return _rate([entry for entry in entries if entry["split"] == "train"])


def _rate(windows: Sequence[Mapping[str, Any]]) -> float:
    """The rate of the last of them in which nothing was compiled, if there are such."""
    rates = []
    for before, now in itertools.pairwise(windows):
        begin, end = (each.get("share_compile", 0.0) * each["seconds"] for each in (before, now))
        if end - begin < _MOST_COMPILING * (now["seconds"] - before["seconds"]):
            rates.append(now["target_tokens_per_second"])
    if not rates:
        rates = [entry["target_tokens_per_second"] for entry in windows]
    return statistics.median(rates[-_RATED_WINDOWS:])
