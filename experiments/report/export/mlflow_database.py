"""All runs in an MLflow database, to be viewed by `mlflow ui`: an experiment per table."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.report.export.exported_runs import ExportedRun
from t2t_jax.interop.libraries import library

_NAME, _FINGERPRINT = "t2t_jax.run", "t2t_jax.fingerprint"
_MOST_AT_ONCE = {"metrics": 1000, "params": 100, "tags": 100}  # that MLflow takes


def export(runs: Sequence[ExportedRun], output: Path) -> Path:
    """Adds the runs to `mlflow.db`; an existing run is left alone, or replaced if it has changed.

    Raises:
      ValueError: MLflow is not installed.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # nothing is sent anywhere
    mlflow = library("mlflow", extra="mlflow")
    for name in ("alembic", "sqlalchemy"):  # not part of mlflow-skinny
        library(name, extra="mlflow")
    path = output / "mlflow.db"
    client = mlflow.MlflowClient(f"sqlite:///{path}", f"sqlite:///{path}")
    for table in dict.fromkeys(run.table for run in runs):
        experiment = client.get_experiment_by_name(table)
        number = experiment and experiment.experiment_id
        if number is None:
            number = client.create_experiment(table, (output / "artifacts").as_uri())
        there = {each.data.tags.get(_NAME): each for each in _runs_of(client, number)}
        for run in runs:
            if run.table != table:
                continue
            before = there.get(run.name)
            if before is not None and before.data.tags.get(_FINGERPRINT) == run.fingerprint:
                continue
            if before is not None:
                client.delete_run(before.info.run_id)
            _add(mlflow.entities, client, number, run)
    return path


def _runs_of(client: Any, experiment: str) -> Iterator[Any]:
    token = None
    while token != "":
        page = client.search_runs([experiment], page_token=token)
        yield from page
        token = page.token or ""


def _add(entities: Any, client: Any, experiment: str, run: ExportedRun) -> None:
    began, ended = round(1000 * run.began), round(1000 * run.ended)
    numbers = run.numbers | {f"scores/{name}": value for name, value in run.scores.items()}
    metrics = [
        entities.Metric(_name(key), value, ended, run.step) for key, value in numbers.items()
    ]
    for point in run.points:
        when = began + round(1000 * point.seconds)
        for key, value in point.numbers.items():
            metrics.append(entities.Metric(_name(key), value, when, point.step))
    settings = {"row": run.row, **run.config}
    found = {
        "metrics": metrics,
        "params": [entities.Param(_name(key), str(value)) for key, value in settings.items()],
        "tags": [entities.RunTag(key, value) for key, value in run.facts.items()],
    }
    title = run.title
    number = client.create_run(experiment, began, {_NAME: run.name}, title).info.run_id
    for kind, entries in found.items():
        most = _MOST_AT_ONCE[kind]
        for first in range(0, len(entries), most):
            client.log_batch(number, **{kind: entries[first : first + most]})
    client.set_terminated(number, end_time=ended)
    client.set_tag(number, _FINGERPRINT, run.fingerprint)  # last: the run is complete


def _name(key: str) -> str:
    """The key with only the characters that MLflow allows."""
    return re.sub(r"[^\w./ -]", "_", key, flags=re.ASCII)
