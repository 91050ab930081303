"""What happens to checkpoints with a damaged file.

Flips single bits, each at a random place of a random file, and cuts every file at its middle, at
its start and before its last byte. Counts how many checkpoints were loaded as saved, how many were
refused, and how many were loaded as something else.
"""

import collections
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np

from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.step import TrainState
from tests.faults.count import Count
from tests.training.runs import IDENTITY, Run

Load = Callable[[], TrainState | None]
Outcomes = collections.Counter[str]
AS_SAVED, REFUSED, WRONG = "as it was saved", "refused", "WRONG"


def files_of(directory: Path) -> list[Path]:
    """The files in a directory and below that hold something."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)


def flips(directory: Path, number: int, seed: int) -> Iterator[tuple[Path, bytes]]:
    """Files, and what they are with one bit flipped."""
    draws, files = random.Random(seed), files_of(directory)
    for _ in range(number):
        path = draws.choice(files)
        yield path, flipped(path.read_bytes(), draws.randrange(8 * path.stat().st_size))


def flipped(content: bytes, bit: int) -> bytes:
    """The same with one bit flipped, counted from the start."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def cuts(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file, and what is left where it was not written to its end."""
    for path in files_of(directory):
        content = path.read_bytes()
        for length in sorted({0, len(content) // 2, len(content) - 1}):
            yield path, content[:length]


def outcomes(
    damages: Iterator[tuple[Path, bytes]], load: Load, expected: TrainState
) -> tuple[Outcomes, list[str]]:
    """What `load` makes of each damage, and which it did not see; each is mended afterwards."""
    counts, unseen = Outcomes(), []
    for path, content in damages:
        before = path.read_bytes()
        path.write_bytes(content)
        try:
            loaded = load()
            is_same = loaded is not None and all(
                jax.tree.leaves(jax.tree.map(same_bits, loaded, expected))
            )
            outcome = AS_SAVED if is_same else WRONG
        except ValueError:
            outcome = REFUSED
        finally:
            path.write_bytes(before)
        counts[outcome] += 1
        if outcome == WRONG:
            unseen.append(str(path))
    return counts, unseen


def same_bits(a: jax.Array, b: jax.Array) -> bool:
    """Whether two arrays are the same, numbers that are none included."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Saved:
    """A checkpoint of a small model in `directory`."""

    def __init__(self, run: Run, directory: Path) -> None:
        self.expected, self._parent = run.initial, directory
        with Checkpoints(directory, identity=IDENTITY) as checkpoints:
            checkpoints.save(run.initial)
        self.directory = directory / "0"

    def load(self) -> TrainState | None:
        """As a run does that goes on."""
        with Checkpoints(self._parent, identity=IDENTITY) as checkpoints:
            return checkpoints.restore_last(self.expected)


def bits(directory: Path, num: int, seed: int) -> Count:
    """Flips so many bits of a checkpoint, one at a time."""
    saved = Saved(Run(), directory / "checkpoints")
    what = f"flipped bit in one of {len(files_of(saved.directory))} files of a checkpoint"
    return _counted(what, saved, flips(saved.directory, num, seed))


def lengths(directory: Path) -> Count:
    """Cuts every file of a checkpoint at three lengths."""
    saved = Saved(Run(), directory / "checkpoints")
    return _counted("file of a checkpoint cut", saved, cuts(saved.directory))


def _counted(what: str, saved: Saved, damages: Iterator[tuple[Path, bytes]]) -> Count:
    counts, unseen = outcomes(damages, saved.load, saved.expected)
    remark = ", ".join(f"{counts[each]} {each}" for each in (REFUSED, AS_SAVED))
    return Count(what, counts.total(), tuple(f"loaded wrongly: {path}" for path in unseen), remark)
