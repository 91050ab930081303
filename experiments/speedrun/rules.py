"""What a record is and when it counts. In: results of seeds. Out: a record, or why it is none.

docs/SPEEDRUN.md has the rules in words.
"""

import re
import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.run.plain_text import plain_text, plain_values
from t2t_jax.evaluation.significance import p_value_above
from t2t_jax.json_files import flat_dict, read_json, write_json
from t2t_jax.runs.keys import completed

CONFIG = "configs/multi30k.py"
TARGETS = (35.0, 41.0)  # BLEU on test2016
_FORMAT = 1
_SEEDS_AT_LEAST = 5
_P_BELOW = 0.01
# sha256 of Multi30k's files, of which test is test2016.
TEXT = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "dev.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "dev.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "test.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
}
# Where a run is done, and its seed; any other key may be what makes it fast.
_NO_TRICKS = ("seed", "data.cache", "data.directory")
_KEY = "--config."


class Seed(NamedTuple):
    """The results of one seed."""

    seed: int
    bleu: float  # on test, lowercased, on Moses' tokens
    step: int  # of the checkpoint that dev chose
    seconds: dict[str, float]  # by stage; "total" from the start of the process to its end


class Record(NamedTuple):
    """Seeds of one config, one commit, one machine and one text."""

    when: str  # UTC, ISO 8601
    target: float  # BLEU
    command: str
    commit: str
    hardware: str  # only records with the same are compared
    machine: dict[str, Any]
    versions: dict[str, str]
    text: dict[str, str]  # sha256 of each file of the corpus
    pairs: dict[str, int]  # of each split
    config: dict[str, Any]  # `tricks`
    seeds: list[Seed]

    @property
    def seconds(self) -> float:
        """Seconds from command to score, the mean over seeds."""
        return statistics.fmean(seed.seconds["total"] for seed in self.seeds)

    @property
    def bleu(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(seed.bleu for seed in self.seeds)

    @property
    def as_it_is(self) -> bool:
        """Whether it is of `CONFIG` without changes, which competes with nothing."""
        words = shlex.split(self.command)
        keys = [word[len(_KEY) :].partition("=")[0] for word in words if word.startswith(_KEY)]
        return f"--config={CONFIG}" in words and set(keys) <= set(_NO_TRICKS)

    @property
    def p_value(self) -> float | None:
        """One-sided, that the mean is not above the target; None if it cannot be tested."""
        return p_value_above([seed.bleu for seed in self.seeds], self.target)

    def write(self, path: Path, before: "Record | None") -> None:
        """Writes it, with what follows from it and the record `before` it."""
        why = why_not(self, before)
        derived = {"counts": not why, "why_not": why, "changes": changes(self, before)}
        derived |= {"seconds": self.seconds, "bleu": self.bleu, "p_value": self.p_value}
        seeds = [seed._asdict() for seed in self.seeds]
        write_json(path, {"format": _FORMAT, **self._asdict(), "seeds": seeds, "derived": derived})


def tricks(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of everything that is the same for every seed, wherever it runs."""
    return {key: value for key, value in flat_dict(config).items() if key not in _NO_TRICKS}


def changes(record: Record, before: Record | None) -> dict[str, list[Any]]:
    """Key -> the values before and now, keys added since filled in; empty for a first record."""
    if before is None:
        return {}
    old, new = completed(before.config), completed(record.config)
    keys = dict.fromkeys([*old, *new])
    return {key: [old.get(key), new.get(key)] for key in keys if old.get(key) != new.get(key)}


def why_never(config: dict[str, Any], text: dict[str, str], commit: str, num_seeds: int) -> str:
    """Why no seeds of these facts of a record can count, in a sentence; empty if they may."""
    direction = "-".join(str(config.get(f"data.{x}_language")) for x in ("source", "target"))
    if direction != "en-de":
        return f"its corpus is {direction}, not en-de"
    if others := [name for name in {**TEXT, **text} if TEXT.get(name) != text.get(name)]:
        return f"its {others[0]} is not that of Multi30k with test2016, unpacked"
    if not re.fullmatch("[0-9a-f]{40}", commit):
        return f"its code is of no commit alone: {commit}"
    if num_seeds < _SEEDS_AT_LEAST:
        return f"it has {num_seeds} of at least {_SEEDS_AT_LEAST} seeds"
    return ""


def why_not(record: Record, before: Record | None) -> str:
    """Why a record does not count, in a sentence; empty if it does.

    Args:
      before: the current record for this target on this hardware, if there is one.
    """
    if why := why_never(record.config, record.text, record.commit, len(record.seeds)):
        return why
    p_value = record.p_value
    if p_value is None or p_value >= _P_BELOW:
        p_text = "no test can be made" if p_value is None else f"p = {p_value:.2g}"
        mean = f"its mean of {record.bleu:.2f} BLEU"
        return f"{mean} is not above {record.target} with p < {_P_BELOW}: {p_text}"
    competes = before is not None and not (record.as_it_is or before.as_it_is)
    if before is not None and competes and record.seconds >= before.seconds:
        stands = f"the record of {before.when} stands at {before.seconds:,.1f} s"
        return f"it took {record.seconds:,.1f} s, and {stands}"
    return ""


def standing(records: Sequence[Record], record: Record) -> Record | None:
    """The last of `records` with the target and hardware of `record`."""
    line = record.target, record.hardware
    return next((each for each in records[::-1] if (each.target, each.hardware) == line), None)


def read_records(directory: Path) -> list[Record]:
    """The records of a directory, which need not exist: those of configs as they are come first.

    Raises:
      ValueError: one is damaged, or does not count; the message says which and why.
    """
    by_path = {path: read_record(path) for path in sorted(directory.glob("*.json"))}
    records: list[Record] = []
    for path, record in sorted(by_path.items(), key=_place):
        if why := why_not(record, standing(records, record)):
            raise ValueError(f"{path} does not count: {why}")
        records.append(record)
    return records


def _place(item: tuple[Path, Record]) -> tuple[bool, str]:
    _, record = item
    return not record.as_it_is, record.when


def read_record(path: Path) -> Record:
    """A record written by `Record.write`.

    Raises:
      ValueError: it is damaged or has another format.
    """
    values = plain_values(read_json(path))
    if values.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a record of a speedrun of format {_FORMAT}")
    try:
        values["seeds"] = [Seed(**seed) for seed in values["seeds"]]
        record = Record(**{name: values[name] for name in Record._fields})
        for name in ("seconds", "bleu"):
            if getattr(record, name) != values["derived"][name]:
                raise ValueError(f"{name} is not the mean of the seeds")
        if len({seed.seed for seed in record.seeds}) < len(record.seeds):
            raise ValueError("a seed is there twice")
        if record.target not in TARGETS:
            raise ValueError(f"target={record.target!r} is none of {TARGETS}")
        texts = record.when, record.command, record.commit, record.hardware
        objects = record.config, record.text
        if {str} != set(map(type, texts)) or {dict} != set(map(type, objects)):
            raise ValueError("when, command, commit, hardware must be texts, config, text objects")
        shlex.split(record.command)  # raises if it is none
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        raise ValueError(f"{path} is damaged: {lacks}{plain_text(error)}") from None
    return record
