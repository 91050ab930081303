"""The description of a checkpoint, stored beside its arrays."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from t2t_jax.json_files import AnyPath, error_text, read_json


class DamagedError(ValueError):
    """A checkpoint differs from what was saved."""

    def __init__(self, directory: AnyPath, what: str) -> None:
        super().__init__(f"the checkpoint {directory} is damaged: {what}")
        self.directory = directory


class About(NamedTuple):
    """What a checkpoint says about itself; little if it was written before checksums."""

    facts: dict[str, str]  # fingerprints of the vocabulary and the data
    config: dict[str, Any]  # of the run, dotted keys
    step: int
    target_tokens: int | None  # seen so far
    seconds: float | None  # in the loop so far
    out_of_turn: bool  # saved when the run was stopped, or at an end since extended
    shapes: dict[str, list[int]]  # of each array, by its path in the state
    checksums: dict[str, str]  # likewise

    def values(self) -> dict[str, Any]:
        """As JSON, with a checksum of the whole."""
        values = self._asdict()
        return values | {"sha256": _digest(values)}


def steps_in(directory: AnyPath) -> list[int]:
    """The steps that have a checkpoint in this directory, in order."""
    there = list(directory.iterdir()) if directory.is_dir() else []
    return sorted(int(path.name) for path in there if path.name.isdecimal() and _is_whole(path))


def _is_whole(directory: AnyPath) -> bool:
    """Whether a checkpoint is complete: Orbax then names it; in a bucket, a file says so."""
    return isinstance(directory, Path) or (directory / "commit_success.txt").exists()


def read_about(directory: AnyPath) -> About | None:
    """The description of the checkpoint in `directory`; None if written before checksums.

    Raises:
      DamagedError: the file is missing, or not as it was written.
    """
    path = directory / "about" / "metadata"
    if not path.parent.exists() and (directory / "identity").exists():
        return None
    try:
        values = read_json(path)
    except (ValueError, FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(directory, error_text(error)) from error
    if values.pop("sha256", None) != _digest(values):
        raise DamagedError(directory, f"{path} is not what was written")
    try:
        return About(**values)
    except TypeError as error:
        raise ValueError(f"{path} was written by another version") from error


def facts_of_before(directory: AnyPath) -> dict[str, str]:
    """The fingerprints in a checkpoint written before checksums.

    Raises:
      DamagedError: they cannot be read.
    """
    try:
        return read_json(directory / "identity" / "metadata")
    except (ValueError, OSError) as error:
        raise DamagedError(directory, error_text(error)) from error


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
