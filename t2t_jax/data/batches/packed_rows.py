"""Packs pairs into rows. In: how many pairs have which lengths. Out: rows of pairs.

Pairs of the same two lengths are interchangeable, so rows are made from lengths alone, once for all
epochs (as in Krell et al. 2021, whose sequences have one length each); the seed later decides which
pair takes which place.

The largest pairs are dealt first, each to the emptiest row (Graham 1969). Among the emptiest, a
pair with a long source for its target goes where more source room is left, so that both sides of a
row fill up together. The smallest pairs are kept back to close the remaining gaps, each where it
fits tightest. Pairs that fit nowhere start again in rows of their own.
"""

import bisect
import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer

from t2t_jax.data.batches.order import int_type

# A larger corpus is packed in miniature, with about so many pairs, and its rows are repeated ...
_MINIATURE_PAIRS = 200_000
# ... except one pair in so many, which fill rows together with the rare lengths left over.
_ONE_LEFT_OVER_IN = 10
# How many of ten pairs are dealt, not kept back for gaps: few if rows have room for few pairs.
# Tried in turn until rows are this full; else the best of them is used.
_DEALT_OF_TEN, _FULL = (8, 9, 7, 4, 0), 0.99
# Pairs are dealt to the emptiest quarter of the rows at a time: few rows, so that all fill up
# evenly, but enough for each pair to find one that suits it.
_NUM_PARTS = 4
# The weight of a source token; a target token weighs more or less, in whole numbers.
_SOURCE_WEIGHT = 1_000


class Cells(NamedTuple):
    """The distinct pairs of lengths, the largest first, and how many pairs have them."""

    source_lengths: np.ndarray
    target_lengths: np.ndarray
    counts: np.ndarray


class Rows(NamedTuple):
    """Rows full of pairs. Pairs are numbered by cell: those of the first cell, of the second ...

    Rows come in kinds: all rows of a kind have pairs of the same cells, each row the next ones.
    """

    kind_starts: np.ndarray  # the first row of each kind; at the end the number of rows
    place_starts: np.ndarray  # the first place of each kind; at the end the number of places, twice
    first_pairs: np.ndarray  # for each place, its pair in the first row of its kind

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.kind_starts[-1])

    def pairs_of(
        self, rows: Int[np.ndarray, " rows"]
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """The pairs in `rows`, and the index in `rows` of each pair's row: 0, 0, 1, ...

        Rows from `num_rows` on are empty.
        """
        kinds = np.searchsorted(self.kind_starts, rows, side="right") - 1
        starts = self.place_starts[kinds]
        sizes = self.place_starts[kinds + 1] - starts
        row_of_pair = np.repeat(np.arange(len(rows)), sizes)
        pairs_before = np.cumsum(sizes) - sizes
        places = np.arange(len(row_of_pair)) + (starts - pairs_before)[row_of_pair]
        nth_of_kind = rows - self.kind_starts[kinds]
        return self.first_pairs[places] + nth_of_kind[row_of_pair], row_of_pair


def largest_first(
    source_lengths: Int[np.ndarray, " pairs"],
    target_lengths: Int[np.ndarray, " pairs"],
    times: Int[np.ndarray, " pairs"] | None = None,
) -> tuple[Cells, Integer[np.ndarray, " pairs"]]:
    """The cells of the pairs, and the number of each pair's cell.

    A pair counts as often as `times` says, or once.
    """
    width = int(target_lengths.max()) + 1
    keys = source_lengths.astype(int_type((int(source_lengths.max()) + 1) * width)) * width
    keys += target_lengths
    used = np.unique(keys)
    cell_of_pair = np.searchsorted(used, keys).astype(np.min_scalar_type(len(used)))
    counts = np.bincount(cell_of_pair, times).astype(np.int64)
    source, target = np.divmod(used.astype(np.int64), width)
    sizes, _ = _sizes_and_excesses(source, target, _target_weight(Cells(source, target, counts)))
    order = np.argsort(-sizes, kind="stable")
    place = np.empty_like(cell_of_pair, shape=len(used))
    place[order] = np.arange(len(used))
    return Cells(source[order], target[order], counts[order]), place[cell_of_pair]


def pack(cells: Cells, source_room: int, target_room: int) -> Rows:
    """Rows that hold each pair once, with room for so many tokens on each side, enough for any."""
    if source_room == 0:
        cells, source_room = cells._replace(source_lengths=cells.target_lengths), target_room
    num_copies = max(1, int(cells.counts.sum()) // _MINIATURE_PAIRS)
    of_miniature = cells.counts
    if num_copies > 1:
        of_miniature = (cells.counts - cells.counts // _ONE_LEFT_OVER_IN) // num_copies
    in_copies = of_miniature * num_copies
    first_of_cell = np.cumsum(cells.counts) - cells.counts

    copies, sizes, first_pairs = [], [], []
    for counts, num_rows_alike, first in (
        (of_miniature, num_copies, first_of_cell),
        (cells.counts - in_copies, 1, first_of_cell + in_copies),
    ):
        if not counts.any():
            continue
        row_of_pair = _fewest_rows(cells._replace(counts=counts), (source_room, target_room))
        nth_of_cell = np.arange(len(row_of_pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = np.repeat(first, counts) + nth_of_cell * num_rows_alike
        first_pairs.append(pairs[row_of_pair.argsort(kind="stable")])
        sizes.append(np.bincount(row_of_pair))
        copies.append(np.full(len(sizes[-1]), num_rows_alike))
    return Rows(
        kind_starts=_starts(np.concatenate(copies)),
        place_starts=_starts(np.concatenate([*sizes, [0]])),
        first_pairs=np.concatenate(first_pairs).astype(int_type(int(cells.counts.sum()))),
    )


def _starts(sizes: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n_and_1"]:
    return np.concatenate([[0], np.cumsum(sizes)])


def _fewest_rows(cells: Cells, room: tuple[int, int]) -> Int[np.ndarray, " pairs"]:
    """The row of each pair, by the best of a few ways to fill rows."""
    least = _least_rows(*_num_tokens(cells), room)
    best = np.arange(int(cells.counts.sum()))
    for dealt_of_ten in _DEALT_OF_TEN:
        best = min(best, _filled_rows(cells, room, dealt_of_ten), key=np.max)
        if least >= _FULL * (best.max() + 1):
            break
    return best


def _least_rows(num_source_tokens: int, num_target_tokens: int, room: tuple[int, int]) -> int:
    """How many rows would hold so many tokens without any gap."""
    return max(-(-num_source_tokens // room[0]), -(-num_target_tokens // room[1]))


def _filled_rows(
    cells: Cells, room: tuple[int, int], dealt_of_ten: int
) -> Int[np.ndarray, " pairs"]:
    """The row of each pair; rows count from 0, and none is empty."""
    target_weight = _target_weight(cells)
    source = np.repeat(cells.source_lengths, cells.counts)
    target = np.repeat(cells.target_lengths, cells.counts)
    row_of_pair = np.empty(len(source), np.int64)
    waiting = np.arange(len(source))
    num_rows = 0
    while len(waiting):
        filling = _Filling(source[waiting], target[waiting], room, target_weight)
        filling.deal(len(waiting) * dealt_of_ten // 10)
        filling.close_gaps()
        is_placed = filling.row_of_pair >= 0
        used, rows = np.unique(filling.row_of_pair[is_placed], return_inverse=True)
        row_of_pair[waiting[is_placed]] = num_rows + rows
        waiting = waiting[~is_placed]
        num_rows += len(used)
    return row_of_pair


class _Filling:
    """Rows being filled with pairs, the largest first: as few rows as could hold all."""

    def __init__(
        self,
        source_lengths: Int[np.ndarray, " pairs"],
        target_lengths: Int[np.ndarray, " pairs"],
        room: tuple[int, int],
        target_weight: int,
    ) -> None:
        self._lengths = source_lengths, target_lengths
        num_rows = _least_rows(int(source_lengths.sum()), int(target_lengths.sum()), room)
        self._left = np.full(num_rows, room[0]), np.full(num_rows, room[1])
        self._target_weight = target_weight
        self.row_of_pair = np.full(len(source_lengths), -1)  # -1: no row

    def deal(self, num_dealt: int) -> None:
        """Deals pairs to the emptiest rows: one to each of a part of the rows at a time."""
        num_rows = len(self._left[0])
        source, target = self._lengths
        source_left, target_left = self._left
        _, excess = _sizes_and_excesses(source, target, self._target_weight)
        part = -(-num_rows // _NUM_PARTS)
        for start in range(0, num_dealt, part):
            pairs = np.arange(start, min(start + part, num_dealt))
            pairs = _sorted_by(excess[pairs], pairs)
            # The side with less room decides how empty a row is: every pair needs both sides.
            tightest = np.minimum(source_left * _SOURCE_WEIGHT, target_left * self._target_weight)
            rows = _sorted_by(tightest, np.arange(num_rows))[num_rows - len(pairs) :]
            _, room = _sizes_and_excesses(source_left[rows], target_left[rows], self._target_weight)
            rows = _sorted_by(room, rows)
            fits = (source[pairs] <= source_left[rows]) & (target[pairs] <= target_left[rows])
            pairs, rows = pairs[fits], rows[fits]
            self.row_of_pair[pairs] = rows
            source_left[rows] -= source[pairs]
            target_left[rows] -= target[pairs]

    def close_gaps(self) -> None:
        """Puts each pair without a row where it leaves the least room, if it fits anywhere."""
        weight = self._target_weight
        rows_with: dict[tuple[int, int], list[int]] = {}
        for row, room in enumerate(zip(*(side.tolist() for side in self._left), strict=True)):
            rows_with.setdefault(room, []).append(row)
        gaps = sorted((s * _SOURCE_WEIGHT + t * weight, s, t) for s, t in rows_with)
        pairs = np.flatnonzero(self.row_of_pair < 0)
        lengths = zip(*(side[pairs].tolist() for side in self._lengths), strict=True)
        start = 0
        for (s, t), alike in itertools.groupby(lengths):
            stop = start + len(list(alike))
            size = s * _SOURCE_WEIGHT + t * weight
            while start < stop:
                larger = itertools.islice(gaps, bisect.bisect_left(gaps, (size,)), None)
                gap = next((gap for gap in larger if gap[1] >= s and gap[2] >= t), None)
                if gap is None:
                    break
                rows = rows_with[gap[1:]]
                taken = rows[start - stop :]
                del rows[start - stop :]
                if not rows:
                    del gaps[bisect.bisect_left(gaps, gap)], rows_with[gap[1:]]
                left = gap[1] - s, gap[2] - t
                if left not in rows_with:
                    bisect.insort(gaps, (gap[0] - size, *left))
                rows_with.setdefault(left, []).extend(taken)
                self.row_of_pair[pairs[start : start + len(taken)]] = taken
                start += len(taken)
            start = stop


def _num_tokens(cells: Cells) -> tuple[int, int]:
    """Tokens of all sources, and of all targets."""
    return int(cells.counts @ cells.source_lengths), int(cells.counts @ cells.target_lengths)


def _target_weight(cells: Cells) -> int:
    """The weight of a target token: it makes both sides weigh the same in total."""
    num_source, num_target = _num_tokens(cells)
    return max(1, _SOURCE_WEIGHT * num_source // num_target)


def _sizes_and_excesses(
    source: Int[np.ndarray, " n"], target: Int[np.ndarray, " n"], target_weight: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The weight of both sides together, and how much heavier the source is."""
    source, target = source * _SOURCE_WEIGHT, target * target_weight
    return source + target, source - target


def _sorted_by(
    keys: Int[np.ndarray, " n"], numbers: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """The numbers in the order of their keys, equal keys in the order of the numbers."""
    # Sorting both packed in one number is several times faster than argsort.
    bound = int(numbers.max()) + 1
    return np.sort(keys * bound + numbers) % bound
