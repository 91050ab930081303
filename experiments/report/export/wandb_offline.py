"""All runs as offline runs of Weights & Biases; `wandb sync` uploads them, if you like."""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.report.export.exported_runs import ExportedRun
from t2t_jax.interop.libraries import library

_FINGERPRINT_FILE = "t2t_jax.fingerprint"


class _Exported(NamedTuple):
    """What a directory of W&B was made from."""

    fingerprint: str
    name: str


def export(runs: Sequence[ExportedRun], output: Path) -> Path:
    """Adds the runs to `wandb/`; an existing run is left alone, or replaced if it has changed.

    Raises:
      ValueError: Weights & Biases is not installed.
    """
    os.environ["WANDB_ERROR_REPORTING"] = "false"  # nothing is sent anywhere
    wandb = library("wandb", extra="wandb")
    settings = wandb.Settings(
        mode="offline",
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        # These describe this machine, not necessarily the run's.
        x_save_requirements=False,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
    )
    made: dict[Path, _Exported] = {}
    for run in runs:
        # W&B takes two runs with the same id for one, even if they are from different sweeps.
        values = json.dumps([run.name, run.config, run.facts["commit"]], sort_keys=True)
        number = hashlib.sha256(values.encode()).hexdigest()[:16]
        exported = (output / "wandb").glob("offline-run-*")
        before = [
            each
            for each in exported
            if each.name.endswith(f"-{number}") or _exported(each).name == run.name
        ]
        if any(_exported(each).fingerprint == run.fingerprint for each in before):
            continue
        for each in before:
            shutil.rmtree(each)
        with wandb.init(
            project=run.table,
            name=run.title,
            group=run.row,
            id=number,
            dir=str(output),
            config={"row": run.row, **run.config, **run.facts},
            settings=settings,
        ) as its:
            by_step: dict[int, dict[str, float]] = {}
            for point in run.points:
                by_step.setdefault(point.step, {}).update(point.numbers)
            for step in sorted(by_step):
                its.log(by_step[step], step)
            its.summary.update(run.numbers)
            its.summary.update({f"scores/{name}": value for name, value in run.scores.items()})
            made[Path(its.dir).parent] = _Exported(run.fingerprint, run.name)
    wandb.teardown()  # waits until everything is on disk
    for directory, exported in made.items():
        (directory / _FINGERPRINT_FILE).write_text("\n".join(exported), "utf-8")
    return output / "wandb"


def _exported(directory: Path) -> _Exported:
    """What was exported to a directory; "" if that was not finished, or by earlier code."""
    path = directory / _FINGERPRINT_FILE
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    fingerprint, name, *_ = [*lines, "", ""]
    return _Exported(fingerprint, name)
