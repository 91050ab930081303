"""A run and its results: small JSON files in the run's own directory.

W/TABLE/ROW/seed-N/run.json      what to do, written before the start
                   record.json   the results, written at the very end
                   failure.json  why there are none
                   uncommitted.diff  changes of the code since the commit named by the record
                   commits.txt   the commits at which it was begun and continued

A tuned table also has W/TABLE/ROW/trial-N, which tries a point, and tuned-seed-N, which has the
point chosen by the trials.
"""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from ml_collections import ConfigDict

from experiments.run.plain_text import plain_text
from experiments.tables.ablation import Row, Table, as_dict, check_name
from experiments.tables.equal import EQUALS, Equal
from experiments.tables.tuning import at
from t2t_jax.json_files import flat_dict, read_json, write_json
from t2t_jax.runs.keys import WHERE, completed

FORMAT = 1

RUN_FILE = "run.json"
RECORD_FILE = "record.json"
TRAINING_FILE = "training.json"  # of a training that has ended
FAILURE_FILE = "failure.json"
DIFF_FILE = "uncommitted.diff"
COMMITS_FILE = "commits.txt"
LOG_FILE = "log.txt"
SECONDS_FILE = "seconds_per_step.json"  # of a table: what --equal=seconds has measured

# Optional facts of a record, by type.
_TEXTS = (
    *("commit", "earlier_commits", "direction", "data_fingerprint", "vocabulary_fingerprint"),
    *("hardware", "diverged"),
)
_NUMBERS = ("params", "steps", "target_tokens", "overhead_seconds")
_SCORES = ("perplexity", "accuracy", "bleu")
# Above every measured number; sums of larger numbers could overflow.
_LARGEST = 1e100
_VALUES = (str, int, float, type(None))  # of a key


class Run(NamedTuple):
    """One row of a table with one seed: at its own values, or at a point of a tuned table."""

    table: str
    row: str
    changes: dict[str, Any]  # dotted config key -> value
    seed: int
    config: dict[str, Any]  # with the changes and the seed
    base: dict[str, Any]  # without the changes, with the seed
    equal: Equal = "steps"  # what is held equal to the base row's
    # None for a run at its own values; else "space", the words of --tune; "trials", their number;
    # "trial", the number of this one, if it is one; and "point", None until it is chosen.
    tuning: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """Its purpose: "fixed", "trial" or "tuned"."""
        if self.tuning is None:
            return "fixed"
        return "tuned" if self.tuning["trial"] is None else "trial"

    @property
    def point(self) -> dict[str, Any]:
        """The tuned keys and their values; empty for a fixed run, or one that awaits trials."""
        return (self.tuning or {}).get("point") or {}

    @property
    def awaits_trials(self) -> bool:
        """Whether its values are still to be chosen."""
        return self.kind == "tuned" and not self.point

    @property
    def name(self) -> str:
        """Its directory's name, and its name among the runs of its row."""
        if self.tuning is not None and self.kind == "trial":
            return f"trial-{self.tuning['trial']}"
        return f"tuned-seed-{self.seed}" if self.kind == "tuned" else f"seed-{self.seed}"

    @property
    def directory(self) -> Path:
        """Where it goes below the workdir of a sweep."""
        return Path(self.table) / self.row / self.name


def make_run(
    table: Table,
    row: Row,
    base: ConfigDict,
    seed: int,
    equal: Equal = "steps",
    tuning: dict[str, Any] | None = None,
) -> Run:
    """The run of this row with this seed, at the point of `tuning` if there is one.

    Raises:
      ValueError: the seed is out of range.
    """
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed={seed} must be a whole number, 0 to 2^31 - 1")
    config = at(row, (tuning or {}).get("point") or {}).config(base)
    config.seed = seed
    return Run(
        table=table.name,
        row=row.name,
        changes=dict(row.changes),
        seed=seed,
        config=as_dict(config),
        base=as_dict(base) | {"seed": seed},
        equal=equal,
        tuning=tuning,
    )


def write_run(directory: Path, run: Run) -> None:
    """Writes `run.json`; an existing run must be the same one.

    It may resume elsewhere and in other pieces. If it is finished, `run.json` stays as it is.

    Raises:
      ValueError: the directory holds a run with another config; says what differs.
    """
    check_same_run(directory, run)
    if not is_finished(directory) or not (directory / RUN_FILE).exists():
        write_json(directory / RUN_FILE, {"format": FORMAT} | run._asdict())


def check_same_run(directory: Path, run: Run) -> None:
    """Raises ValueError if `directory` holds a run with another config than `run`."""
    there = run.config
    if (directory / RUN_FILE).exists():
        before = read_run(directory)
        there = before.config
        if before.awaits_trials:  # and so still has the row's own values
            own = {key: value for key, value in flat_dict(there).items() if key not in run.point}
            there = own | run.point
    elif is_finished(directory):
        there = read_json(directory / RECORD_FILE).get("config", there)
    differences = config_differences(there, run.config)
    if differences:
        shown = "; ".join(f"{key} is {old!r} there, {new!r} now" for key, old, new in differences)
        raise ValueError(
            f"{directory} holds a run with another config: {shown}; "
            "choose another --workdir, or remove that directory to run it anew"
        )


def find_runs(workdir: Path) -> tuple[list[Path], dict[Path, str]]:
    """The directories of the runs below `workdir`, and those that cannot be read, with why."""
    unreadable: dict[Path, str] = {}

    def note(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            why = f"{error.filename} cannot be read ({error.strerror}): any run in it is missing"
            unreadable[Path(error.filename)] = why

    # A record without its run is damaged, not absent.
    files_of_runs = {RUN_FILE, RECORD_FILE}
    found = [
        Path(at)
        for at, others, files in os.walk(workdir, onerror=note)
        if files_of_runs.intersection(files) or RUN_FILE in others
    ]
    return sorted(found), unreadable


def read_run(directory: Path) -> Run:
    """The run of a directory.

    Raises:
      ValueError: there is none, or its file is damaged or incomplete.
    """
    path = directory / RUN_FILE
    if not path.exists():
        raise ValueError(f"{directory} holds no {RUN_FILE}; experiments.sweep writes it")
    values = read_json(path)
    _check_run(path, values)
    return Run(**{field: values[field] for field in Run._fields if field in values})


def _check_run(path: Path, values: dict[str, Any]) -> None:
    defaults = Run._field_defaults  # for runs of older versions
    missing = [field for field in Run._fields if field not in (*values, *defaults)]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    try:
        check_name(values["table"], "table")
        check_name(values["row"], "row")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if type(values["seed"]) is not int or not 0 <= values["seed"] < 2**31:
        raise ValueError(f"{path}: seed={values['seed']!r} must be a whole number, 0 to 2^31 - 1")
    if (equal := values.get("equal", "steps")) not in EQUALS:
        raise ValueError(f"{path}: equal={equal!r} must be one of {', '.join(EQUALS)}")
    for field in ("changes", "config", "base"):
        if not _is_config(values[field]):
            raise ValueError(f"{path}: {field} must be sections of keys, each with one value")
    if not _is_tuning(values.get("tuning")):
        raise ValueError(f"{path}: tuning must be none, or its space, trials, trial and point")


def _is_tuning(values: Any) -> bool:
    if values is None:
        return True
    if not isinstance(values, dict) or values.keys() != {"space", "trials", "trial", "point"}:
        return False
    words, number, trial, point = (values[key] for key in ("space", "trials", "trial", "point"))
    if type(number) is not int or not 1 < number < _LARGEST:
        return False
    is_one = trial is None or (type(trial) is int and 0 <= trial < number and point)
    has_words = isinstance(words, list) and all(isinstance(each, str) for each in words)
    has_point = point is None or (bool(point) and _is_config(point, depth=1))
    return bool(has_words and has_point and is_one)


def _is_config(values: Any, depth: int = 2) -> bool:
    """Whether they are keys with one value each, in up to `depth` levels of sections."""
    return isinstance(values, dict) and all(
        isinstance(value, _VALUES) or (depth > 1 and _is_config(value, depth - 1))
        for value in values.values()
    )


def read_record(directory: Path) -> dict[str, Any]:
    """The record in a directory, checked against the run there.

    Raises:
      ValueError: it is damaged, or belongs to another run.
    """
    path = directory / RECORD_FILE
    values = read_json(path)
    try:
        _check_run(path, values)
        _check_facts(values)
    except ValueError as error:
        sentence = str(error).removeprefix(f"{path}: ").removeprefix(f"{path} ")
        raise ValueError(f"{path} is not a record: {sentence}") from None
    run = read_run(directory)
    if contradiction := differences_text(values, run._asdict()):
        raise ValueError(f"{path} is of another run, remove it: {contradiction}")
    return values


def differences_text(of_record: dict[str, Any], of_run: dict[str, Any]) -> str:
    """How a record contradicts `run.json`; empty if they agree.

    A missing field is no contradiction. Nor is another base, since the config says what was done
    and two bases may lead to the same one; nor a longer list of trials, of which this is one.
    """
    of_record, of_run = (
        values | {"tuning": _place_of(values["tuning"])} if values.get("tuning") else values
        for values in (of_record, of_run)
    )
    for field in ("table", "row", "seed", "changes", "config", "tuning"):
        if field not in of_record or field not in of_run:
            continue
        there, here = (
            values[field] if isinstance(values[field], dict) else {field: values[field]}
            for values in (of_record, of_run)
        )
        if differences := config_differences(there, here):
            return "; ".join(
                f"{key} is {old!r} there, {new!r} in {RUN_FILE}" for key, old, new in differences
            )
    return ""


def _place_of(tuning: dict[str, Any]) -> dict[str, Any]:
    return {key: tuning.get(key) for key in ("trial", "point")}


def _check_facts(values: dict[str, Any]) -> None:
    """Raises ValueError if a fact has a type that a report cannot handle."""
    for name in _TEXTS:
        if not isinstance(values.get(name, ""), str | None):
            raise ValueError(f"{name} must be text")
    _check_numbers(values, _NUMBERS, "")
    for name in ("seconds", "examples", "operations"):
        _check_numbers(_object(values, name), None, f"{name}.")
    for name, version in _object(values, "versions").items():
        if not isinstance(version, str | None):
            raise ValueError(f"versions.{name} must be text")
    scores = _object(values, "scores")
    for split in scores:
        of_split = _object(scores, split)
        _check_numbers(of_split, _SCORES, f"scores.{split}.")
        _check_numbers(_object(of_split, "probes"), None, f"scores.{split}.probes.")
        metrics = _object(of_split, "metrics")
        for name in metrics:
            _check_numbers(_object(metrics, name), ("score",), f"scores.{split}.metrics.{name}.")
        if not isinstance(of_split.get("bleu_signature", ""), str):
            raise ValueError(f"scores.{split}.bleu_signature must be text")
        bins = of_split.get("bleu_by_length", [])
        if not isinstance(bins, list) or not all(map(_is_bin, bins)):
            raise ValueError(f"scores.{split}.bleu_by_length must be words, sentences and BLEU")


def _object(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"{name} must be an object")
    return found


def _check_numbers(values: dict[str, Any], names: Iterable[str] | None, before: str) -> None:
    for name in values if names is None else names:
        value = values.get(name)  # None if it was not a number
        if value is not None and not is_number(value):
            raise ValueError(f"{before}{name}={values[name]!r:.60} must be a number below 10^100")


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a usable number, NaN or infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST or abs(value) == math.inf or value != value


def _is_bin(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    words = entry.get("words")
    if not isinstance(words, list) or len(words) != 2:
        return False
    has_ends = type(words[0]) is int and type(words[1]) in (int, type(None))
    return has_ends and type(entry.get("sentences")) is int and is_number(entry.get("bleu"))


def read_failure(directory: Path) -> str | None:
    """Why the run of a directory failed; None if it did not. A damaged file says so."""
    path = directory / FAILURE_FILE
    if not path.exists():
        return None
    try:
        return plain_text(read_json(path).get("error"))
    except (OSError, ValueError) as error:
        return plain_text(error)


def is_finished(directory: Path) -> bool:
    """Whether the run there has written its record."""
    return (directory / RECORD_FILE).exists()


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of everything shared by runs that differ only in their seed.

    A run from before a key existed did what that key's default says.
    """
    flat = completed(flat_dict(config))
    return {key: value for key, value in flat.items() if key != "seed" and key not in WHERE}


def settings_since_then(config: dict[str, Any]) -> dict[str, Any]:
    """`settings` without keys that came later and have the value of before.

    Hashes of it stay the same when a key is added.
    """
    before = completed({})
    return {key: value for key, value in settings(config).items() if before.get(key) != value}


def config_differences(old: dict, new: dict) -> list[tuple[str, Any, Any]]:
    """(dotted key, old value, new value) wherever two configs differ in effect."""
    old_flat, new_flat = (completed(flat_dict(config)) for config in (old, new))
    keys = dict.fromkeys([*old_flat, *new_flat])
    return [
        (key, old_flat.get(key), new_flat.get(key))
        for key in keys
        if old_flat.get(key) != new_flat.get(key) and key not in WHERE
    ]


def score_text(values: dict[str, Any]) -> str:
    """The scores of a record in short: "PPL 1.23  BLEU 91.2"; accuracy if there is no BLEU."""
    scores = values.get("scores", {})
    perplexity = scores.get("dev", {}).get("perplexity")
    test = scores.get("test", {})
    words = [] if perplexity is None else [f"PPL {perplexity:.2f}"]
    if test.get("bleu") is not None:
        words.append(f"BLEU {test['bleu']:.1f}")
    elif test.get("accuracy") is not None:
        words.append(f"accuracy {test['accuracy']:.1%}")
    return "  ".join(words) or "no scores"
