"""What a run is and what it leaves behind: small JSON files in the run's own directory.

W/TABLE/ROW/seed-N/run.json      what is to be done, written before it starts
                   record.json   what came out, written at the very end
                   failure.json  why it did not come out
"""

from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.tables.ablation import Row, Table, as_dict
from t2t_jax.json_files import flat_dict, read_json, write_json
from t2t_jax.runs.keys import WHERE

FORMAT = 1

RUN_FILE = "run.json"
RECORD_FILE = "record.json"
FAILURE_FILE = "failure.json"
LOG_FILE = "log.txt"


class Run(NamedTuple):
    """One row of a table with one seed."""

    table: str
    row: str
    changes: dict[str, Any]  # dotted config key -> value
    seed: int
    config: dict[str, Any]  # with the changes and the seed
    base: dict[str, Any]  # without the changes, with the seed

    @property
    def directory(self) -> Path:
        """Where it goes below the workdir of a sweep."""
        return Path(self.table) / self.row / f"seed-{self.seed}"


def make_run(table: Table, row: Row, base: ConfigDict, seed: int) -> Run:
    """The run of this row with this seed."""
    config = row.config(base)
    config.seed = seed
    return Run(
        table=table.name,
        row=row.name,
        changes=dict(row.changes),
        seed=seed,
        config=as_dict(config),
        base=as_dict(base) | {"seed": seed},
    )


def write_run(directory: Path, run: Run) -> None:
    """Writes `run.json`; a run that is already there must be the same one.

    It may go on elsewhere and in other pieces; of one that is finished `run.json` stays as it is.

    Raises:
      ValueError: the directory holds a run with another config; says what differs.
    """
    check_same_run(directory, run)
    if not (directory / RECORD_FILE).exists() or not (directory / RUN_FILE).exists():
        write_json(directory / RUN_FILE, {"format": FORMAT} | run._asdict())


def check_same_run(directory: Path, run: Run) -> None:
    """Raises ValueError if `directory` holds a run with another config than `run`."""
    there = run.config
    if (directory / RUN_FILE).exists():
        there = read_run(directory).config
    elif (directory / RECORD_FILE).exists():
        there = read_json(directory / RECORD_FILE).get("config", there)
    differences = config_differences(there, run.config)
    if differences:
        shown = "; ".join(f"{key} is {old!r} there, {new!r} now" for key, old, new in differences)
        raise ValueError(
            f"{directory} holds a run with another config: {shown}. "
            "Choose another --workdir, or remove that directory to run it anew"
        )


def read_run(directory: Path) -> Run:
    """The run of a directory.

    Raises:
      ValueError: there is none, or its file does not say all that a run needs.
    """
    path = directory / RUN_FILE
    if not path.exists():
        raise ValueError(f"{directory} holds no {RUN_FILE}; experiments.sweep writes it")
    values = read_json(path)
    missing = [field for field in Run._fields if field not in values]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return Run(**{field: values[field] for field in Run._fields})


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of all that is the same in runs which differ in their seed alone."""
    return {
        key: value for key, value in flat_dict(config).items() if key != "seed" and key not in WHERE
    }


def config_differences(old: dict, new: dict) -> list[tuple[str, Any, Any]]:
    """(dotted key, old value, new value) wherever two configs do not do the same."""
    old_flat, new_flat = flat_dict(old), flat_dict(new)
    keys = dict.fromkeys([*old_flat, *new_flat])
    return [
        (key, old_flat.get(key), new_flat.get(key))
        for key in keys
        if old_flat.get(key) != new_flat.get(key) and key not in WHERE
    ]


def score_text(values: dict[str, Any]) -> str:
    """The scores of a record in a few words: "PPL 1.23  BLEU 91.2", without BLEU accuracy."""
    scores = values.get("scores", {})
    perplexity = scores.get("dev", {}).get("perplexity")
    test = scores.get("test", {})
    words = [] if perplexity is None else [f"PPL {perplexity:.2f}"]
    if "bleu" in test:
        words.append(f"BLEU {test['bleu']:.1f}")
    elif "accuracy" in test:
        words.append(f"accuracy {test['accuracy']:.1%}")
    return "  ".join(words) or "no scores"
