"""What all batches have in common: batch i is a pure function of (prepared corpus, seed, i).

Every epoch holds every pair once, or as often as the weight of its corpus says. A host assembles
only its own rows of each batch.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from t2t_jax.data.batches.assembling import Batch, BatchShape
from t2t_jax.data.batches.masking import Masking, num_hidden
from t2t_jax.data.batches.order import occurrences, shuffled
from t2t_jax.data.prepare.prepared import PreparedSplit

# Rows of a bucketed batch are a multiple of it if there is room, so that eight devices have no
# empty rows. Independent of the actual devices: otherwise the result of training would depend on
# them.
_ROWS = 8
_START_AND_END = 2  # of a sentence that is to be masked: never hidden


class EpochPlan(NamedTuple):
    order: np.ndarray  # occurrences of pairs, by batch (bucketed) or by cell (packed)
    sequence: np.ndarray  # the order of the batches (bucketed) or rows (packed)


class Batches(ABC):
    """The base of bucketed and packed batches: the same on every host and after every restart.

    Args:
      split: the pairs.
      source_tokens_per_batch: rows times source length, padding included, is at most this.
      target_tokens_per_batch: likewise for the target.
      row_multiple: the number of rows of every batch is a multiple of this.
      seed: gives the order, together with the epoch.
      shuffle: False keeps the order of the corpus as far as the lengths allow.
      masking: hides tokens of the source; the target then holds the hidden tokens.
      weights: for each corpus of the split, how often an epoch holds each of its pairs.
      part: number of this host, which assembles only its own rows of each batch.
      num_parts: number of hosts.
      length_multiples: of source and target; the lengths of every shape are multiples of them.
      padded_to: empty rows fill every batch up to a multiple of this (devices times
        microbatches); the pairs in a batch do not depend on it.

    Raises:
      ValueError: the split is empty; a number is too small or does not fit the others.
    """

    def __init__(
        self,
        split: PreparedSplit,
        *,
        source_tokens_per_batch: int,
        target_tokens_per_batch: int,
        row_multiple: int,
        seed: int,
        shuffle: bool = True,
        masking: Masking | None = None,
        weights: Sequence[int] = (1,),
        part: int = 0,
        num_parts: int = 1,
        length_multiples: tuple[int, int] = (1, 1),
        padded_to: int = 1,
    ) -> None:
        if split.num_pairs == 0:
            raise ValueError("a split without pairs gives no batches")
        for name, value, least in (
            ("row_multiple", row_multiple, 1),
            ("seed", seed, 0),
            ("num_parts", num_parts, 1),
            ("padded_to", padded_to, 1),
            ("length_multiples", min(length_multiples), 1),
        ):
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")
        if padded_to % num_parts:
            raise ValueError(f"padded_to={padded_to} must be a multiple of num_parts={num_parts}")
        if not 0 <= part < num_parts:
            raise ValueError(f"part={part} must lie between 0 and num_parts - 1 = {num_parts - 1}")
        if len(weights) != len(split.ends) or min(weights) < 1:
            raise ValueError(
                f"weights={tuple(weights)} must hold a whole number of at least 1 for each of the "
                f"{len(split.ends)} corpora"
            )
        self._split = split
        self._budgets = source_tokens_per_batch, target_tokens_per_batch
        self._row_multiple = row_multiple
        self._seed = seed
        self._shuffle = shuffle
        self._masking = masking
        self._weights = tuple(weights)
        self._part, self._num_parts = part, num_parts
        self._padded_to = padded_to
        self._length_multiples = length_multiples
        self._last_plan: tuple[int, EpochPlan] | None = None
        self._lock = threading.Lock()

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """All shapes a batch can have, all hosts' rows together, short ones first."""
        return tuple(map(self._padded, self._shapes_of_pairs))

    @property
    def num_empty_rows(self) -> tuple[int, ...]:
        """For each of the `shapes`, the rows that fill a batch up to a multiple."""
        pairs = zip(self.shapes, self._shapes_of_pairs, strict=True)
        return tuple(padded.rows - shape.rows for padded, shape in pairs)

    @property
    @abstractmethod
    def batches_per_epoch(self) -> int:
        """Batches in an epoch, equally many in every epoch."""

    @property
    @abstractmethod
    def batches_by_shape(self) -> tuple[int, ...]:
        """For each of the `shapes`, the number of an epoch's batches."""

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each pair: tokens of source and target, and how often an epoch holds it."""
        source, target = self._lengths()
        times = self._times()
        return source, target, np.ones(len(source), np.int64) if times is None else times

    @property
    def num_predicted(self) -> np.ndarray:
        """For each pair, the tokens of its target; with masking, those that are hidden."""
        _, target = self._lengths()
        if self._masking is None:
            return target
        return num_hidden(target - _START_AND_END, self._masking.rate)

    @property
    def non_padding_share(self) -> float:
        """Real tokens / cells, source and target together; the same for every epoch."""
        return sum(self._side_tokens()) / sum(self._side_cells())

    @property
    def non_padding_share_by_side(self) -> tuple[float, float]:
        """`non_padding_share` of source and target alone; 1 for a side without cells."""
        tokens, cells = self._side_tokens(), self._side_cells()
        return (
            tokens[0] / cells[0] if cells[0] else 1.0,
            tokens[1] / cells[1] if cells[1] else 1.0,
        )

    def __getitem__(self, i: int) -> Batch:
        """Batch i, for any i >= 0: its epoch is i // batches_per_epoch."""
        if i < 0:
            raise ValueError(f"batch {i} does not exist: batches are numbered from 0")
        epoch, position = divmod(i, self.batches_per_epoch)
        return self._batch(self._plan(epoch), epoch, position)

    @property
    @abstractmethod
    def _shapes_of_pairs(self) -> tuple[BatchShape, ...]:
        """The `shapes` without empty rows."""

    @abstractmethod
    def _side_cells(self) -> tuple[int, int]:
        """Cells of all source arrays of an epoch, and of all its target arrays."""

    @abstractmethod
    def _make_plan(self, epoch: int) -> EpochPlan: ...

    @abstractmethod
    def _batch(self, plan: EpochPlan, epoch: int, position: int) -> Batch: ...

    def _side_tokens(self) -> tuple[int, int]:
        """Tokens of all sources of an epoch, and of all its targets."""
        ends = np.array([0, *self._split.ends])
        by_corpus = (
            np.diff(self._split.source_offsets[ends]),
            np.diff(self._split.target_offsets[ends]),
        )
        return int(by_corpus[0] @ self._weights), int(by_corpus[1] @ self._weights)

    def _lengths(self) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """The lengths of all sources and targets, in half the memory of their offsets."""
        return (
            self._split.source_lengths.astype(np.int32),
            self._split.target_lengths.astype(np.int32),
        )

    def _rounded_lengths(self) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """The lengths of all sources and targets, rounded up to their multiples."""
        source, target = self._lengths()
        of_source, of_target = self._length_multiples
        return multiple(source, of_source), multiple(target, of_target)

    def _check_budgets(self, of: str, lengths: tuple[int, int]) -> None:
        """Raises ValueError if `row_multiple` rows of these lengths do not fit in a batch."""
        sides = zip(("source", "target"), self._budgets, lengths, strict=True)
        for side, budget, length in sides:
            if length * self._row_multiple > budget:
                raise ValueError(
                    f"data.{side}_tokens_per_batch={budget} is too small: a batch has at least "
                    f"{self._row_multiple} rows of {length} tokens ({of.format(side)}), "
                    f"{length * self._row_multiple} in all"
                )

    def _times(self) -> Int[np.ndarray, " pairs"] | None:
        """How often an epoch holds each pair; None: once."""
        if set(self._weights) == {1}:
            return None
        return np.repeat(self._weights, np.diff([0, *self._split.ends]))

    def _shuffled(
        self, epoch: int, num_others: int
    ) -> tuple[Int[np.ndarray, " occurrences"], Int[np.ndarray, " others"]]:
        """The epoch's pairs in their order, and the order of `num_others` batches or rows."""
        pairs = occurrences(self._split.ends, self._weights)
        if not self._shuffle:
            return pairs, np.arange(num_others)
        return shuffled(pairs, num_others, self._seed, epoch)

    def _plan(self, epoch: int) -> EpochPlan:
        with self._lock:
            if self._last_plan is None or self._last_plan[0] != epoch:
                self._last_plan = None  # two do not need to be there at once
                self._last_plan = epoch, self._make_plan(epoch)
            return self._last_plan[1]

    def _padded(self, shape: BatchShape) -> BatchShape:
        """The shape with its empty rows."""
        return shape._replace(rows=multiple(shape.rows, self._padded_to))

    def _own(self, shape: BatchShape) -> tuple[slice, BatchShape]:
        """This host's rows of a batch of this shape, and the shape of these rows."""
        rows = self._padded(shape).rows // self._num_parts
        return slice(rows * self._part, rows * (self._part + 1)), shape._replace(rows=rows)


def rows_that_fit(budgets: tuple[int, int], lengths: tuple[int, int], row_multiple: int) -> int:
    """The most rows of these lengths that fit in a batch: a multiple of `row_multiple`."""
    rows = min(budget // length for budget, length in zip(budgets, lengths, strict=True) if length)
    return rows // row_multiple * row_multiple


def row_multiple_of(budgets: tuple[int, int], lengths: tuple[int, int]) -> int:
    """What the rows of bucketed batches are a multiple of: one if not even eight of them fit."""
    fit = all(length * _ROWS <= budget for length, budget in zip(lengths, budgets, strict=True))
    return _ROWS if fit else 1


def even_rows(num_rows: int, max_rows: int, row_multiple: int) -> tuple[int, int]:
    """Rows per batch, and batches, that split all rows evenly: the last batch is nearly full."""
    num_batches = -(-num_rows // max_rows)
    if num_batches == 0:
        return max_rows, 0
    rows = -(-num_rows // num_batches)
    return multiple(rows, row_multiple), num_batches


def multiple(number: Any, of: int) -> Any:
    """A number, or each of an array, rounded up to a multiple."""
    return -(-number // of) * of
