"""Runs -> tools people already use: a CSV file, TensorBoard, MLflow, Weights & Biases.

    python -m experiments.report.export --workdir=W --to=csv --output=DIR
    python -m experiments.report.export --workdir=W --to=tensorboard --output=DIR
    python -m experiments.report.export --workdir=W --to=mlflow --output=DIR
    python -m experiments.report.export --workdir=W --to=wandb --output=DIR

Exports every finished run below W with its settings, scores, costs, commit and, except for CSV,
curves; says why damaged or unfinished runs are left out. A second export replaces what has changed
and duplicates nothing: use one DIR per W. Nothing is sent anywhere.

    csv          DIR/runs.csv, one line per run, with the keys in which runs differ
    tensorboard  tensorboard --logdir=DIR: curves, and HPARAMS with those keys and the scores
    mlflow       mlflow ui --backend-store-uri=sqlite:///DIR/mlflow.db; needs the extra `mlflow`
    wandb        wandb sync DIR/wandb/offline-run-*, if you like; needs the extra `wandb`
"""

import functools
import importlib
import sys

from absl import app, flags

from experiments.run.plain_text import plain_text
from t2t_jax.buckets import local_path
from t2t_jax.cli.command import parse_flags

_DESTINATIONS = {
    "csv": "csv_file",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow_database",
    "wandb": "wandb_offline",
}


def main(argv: list[str]) -> None:
    """Reads the flags, exports, says what was left out."""
    values = flags.FLAGS
    if len(argv) != 1:
        sys.exit(f"export: {argv[1]!r} is not a flag; flags look like --name=value")
    from experiments.report.export.exported_runs import read_runs

    # Each imports the library it writes with.
    module = importlib.import_module(f"experiments.report.export.{_DESTINATIONS[values.to]}")
    try:
        output = local_path(values.output, "--output").absolute()
        runs, told = read_runs(local_path(values.workdir, "--workdir"))
        output.mkdir(parents=True, exist_ok=True)
        written = module.export(runs, output)
    except (OSError, ValueError) as error:
        sys.exit(f"export: {plain_text(error)}")
    for sentence in told:
        print(f"export: {sentence}", file=sys.stderr)
    print(f"written: {plain_text(written)}, {len(runs)} run{'' if len(runs) == 1 else 's'}")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "where one or more sweeps kept their runs")
    flags.DEFINE_enum("to", None, list(_DESTINATIONS), "what to write")
    flags.DEFINE_string("output", None, "the directory it goes to")
    flags.mark_flags_as_required(["workdir", "to", "output"])
    app.run(main, flags_parser=functools.partial(parse_flags, "export"))
