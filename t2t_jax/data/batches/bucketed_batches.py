"""Batches of a few shapes, each of pairs of similar lengths, one per row.

Each pair belongs to the cheapest shape it fits. Pairs left over there go into the next larger
shape, and so on, so that only the largest shape can have a batch with empty rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, Integer

from t2t_jax.data.batches.assembling import Batch, BatchShape, assemble
from t2t_jax.data.batches.bucket_shapes import (
    LengthHistogram,
    Shape,
    cheapest_shapes,
    choose_shapes,
    length_histogram,
)
from t2t_jax.data.batches.epochs import Batches, EpochPlan, even_rows, rows_that_fit
from t2t_jax.data.batches.order import grouped
from t2t_jax.data.prepare.prepared import PreparedSplit

# A batch may shrink to this share of its token budget if that saves padding elsewhere.
_LEAST_SHARE_OF_ROWS = 0.9


class _Bucket(NamedTuple):
    """The pairs of one shape."""

    shape: BatchShape
    num_own: int  # pairs whose cheapest shape this is
    num_kept: int  # pairs in its batches, its own and those of smaller buckets
    num_batches: int
    hands_on_to: int  # the bucket that gets the leftover pairs; the largest names itself


class BucketedBatches(Batches):
    """Batches of at most `num_buckets` shapes, each of pairs of similar lengths, one per row.

    Each pair belongs to the cheapest shape it fits.

    Args:
      num_buckets: the most shapes; there are fewer if more would save no cells.

    The others are as in `Batches`. Without `shuffle`, small shapes come first.

    Raises:
      ValueError: as `Batches`; or `row_multiple` rows of the longest sentences do not fit in a
        batch.
    """

    def __init__(self, split: PreparedSplit, *, num_buckets: int, **others: Any) -> None:
        super().__init__(split, **others)
        if num_buckets < 1:
            raise ValueError(f"num_buckets={num_buckets} must be at least 1")
        lengths = self._rounded_lengths()
        longest = int(lengths[0].max()), int(lengths[1].max())
        self._check_budgets("the longest {} sentence", longest)
        self._buckets, self._bucket_of_pair = _cheapest_buckets(
            *lengths, self._times(), num_buckets, self._budgets, self._row_multiple
        )
        self._batches = _batch_table(self._buckets)

    @property
    def batches_per_epoch(self) -> int:
        return len(self._batches)

    @property
    def batches_by_shape(self) -> tuple[int, ...]:
        return tuple(bucket.num_batches for bucket in self._buckets)

    @property
    def _shapes_of_pairs(self) -> tuple[BatchShape, ...]:
        return tuple(bucket.shape for bucket in self._buckets)

    def _side_cells(self) -> tuple[int, int]:
        padded = [bucket._replace(shape=self._padded(bucket.shape)) for bucket in self._buckets]
        return _side_cells(padded)

    def _make_plan(self, epoch: int) -> EpochPlan:
        pairs, sequence = self._shuffled(epoch, self.batches_per_epoch)
        bucket_of_pair = self._bucket_of_pair[pairs % self._split.num_pairs]
        return EpochPlan(_batch_by_batch(self._buckets, pairs, bucket_of_pair), sequence)

    def _batch(self, plan: EpochPlan, epoch: int, position: int) -> Batch:
        bucket, start, stop = self._batches[plan.sequence[position]]
        own, shape = self._own(self._buckets[bucket].shape)
        pairs = plan.order[start:stop][own]
        return assemble(
            self._split,
            pairs,
            np.arange(len(pairs)),
            shape,
            epoch=epoch,
            masking=self._masking,
            is_packed=False,
        )


def _cheapest_buckets(
    source_lengths: Int[np.ndarray, " pairs"],
    target_lengths: Int[np.ndarray, " pairs"],
    times: Int[np.ndarray, " pairs"] | None,
    num_buckets: int,
    budgets: tuple[int, int],
    row_multiple: int,
) -> tuple[list[_Bucket], Integer[np.ndarray, " pairs"]]:
    """The buckets whose batches have the fewest cells, and the bucket of each pair.

    A pair counts as often as `times` says, or once. With few pairs, fewer shapes than allowed may
    be better, because fewer pairs are left over.
    """
    histogram = length_histogram(source_lengths, target_lengths, times)
    best_shapes, best_buckets = [], []
    for shapes in choose_shapes(histogram, num_buckets):
        shapes, buckets = _used_buckets(histogram, shapes, budgets, row_multiple)
        if not best_buckets or sum(_side_cells(buckets)) < sum(_side_cells(best_buckets)):
            best_shapes, best_buckets = shapes, buckets
    bucket_of_cell = cheapest_shapes(histogram, best_shapes)
    bucket_of_cell = bucket_of_cell.astype(np.min_scalar_type(len(best_shapes)))
    if best_buckets[-1].num_batches == 0:
        # It has no pairs, its own or handed on: its shape would never occur.
        best_buckets = best_buckets[:-1]
    return best_buckets, bucket_of_cell[histogram.cell_of(source_lengths, target_lengths)]


def _side_cells(buckets: Sequence[_Bucket]) -> tuple[int, int]:
    """Cells of all source arrays of an epoch, and of all its target arrays."""
    source_cells = target_cells = 0
    for bucket in buckets:
        rows, source_length, target_length = bucket.shape
        source_cells += bucket.num_batches * rows * source_length
        target_cells += bucket.num_batches * rows * target_length
    return source_cells, target_cells


def _batch_by_batch(
    buckets: Sequence[_Bucket],
    pairs: Int[np.ndarray, " pairs"],
    bucket_of_pair: Integer[np.ndarray, " pairs"],
) -> Int[np.ndarray, " pairs"]:
    """The pairs sorted by the bucket that keeps them, in their given order within each."""
    places = np.arange(len(pairs), dtype=pairs.dtype)
    own = np.cumsum([bucket.num_own for bucket in buckets])
    places_by_bucket = np.split(grouped(places, bucket_of_pair), own[:-1])
    handed_on: list[list[np.ndarray]] = [[] for _ in buckets]
    order = []
    for k, bucket in enumerate(buckets):
        # Handed-on pairs come first and are kept: otherwise the shortest pairs could be handed on
        # up to the largest shape.
        candidates = np.concatenate([*handed_on[k], places_by_bucket[k]])
        kept, over = np.split(candidates, [bucket.num_kept])
        if len(over):  # else the larger bucket may be the last, cut off as unused
            handed_on[bucket.hands_on_to].append(over)
        order.append(np.sort(kept))
    return pairs[np.concatenate(order)]


def _batch_table(buckets: Sequence[_Bucket]) -> Int[np.ndarray, "batches 3"]:
    """For each batch its bucket, and where its pairs start and stop in the epoch's order."""
    table = []
    start = 0
    for k, bucket in enumerate(buckets):
        stop = start + bucket.num_kept
        starts = np.arange(start, stop, bucket.shape.rows)
        stops = np.minimum(starts + bucket.shape.rows, stop)
        table.append(np.stack([np.full_like(starts, k), starts, stops], axis=1))
        start = stop
    return np.concatenate(table)


def _used_buckets(
    histogram: LengthHistogram, shapes: list[Shape], budgets: tuple[int, int], row_multiple: int
) -> tuple[list[Shape], list[_Bucket]]:
    """The shapes that fill at least one batch, and their buckets.

    The largest shape always stays: leftover pairs need a place.
    """
    while True:
        cheapest = cheapest_shapes(histogram, shapes)
        num_own = np.bincount(cheapest.ravel(), histogram.counts.ravel(), len(shapes))
        buckets = _filled_buckets(
            [_batch_shape(histogram, shape, budgets, row_multiple) for shape in shapes],
            num_own.astype(int).tolist(),
            row_multiple,
        )
        unused = [k for k, bucket in enumerate(buckets[:-1]) if bucket.num_batches == 0]
        if not unused:
            return shapes, buckets
        shapes = shapes[: unused[0]] + shapes[unused[0] + 1 :]


def _batch_shape(
    histogram: LengthHistogram, shape: Shape, budgets: tuple[int, int], row_multiple: int
) -> BatchShape:
    i, j = shape
    lengths = int(histogram.source_edges[i]), int(histogram.target_edges[j])
    return BatchShape(rows_that_fit(budgets, lengths, row_multiple), *lengths)


def _filled_buckets(
    shapes: list[BatchShape], num_own: list[int], row_multiple: int
) -> list[_Bucket]:
    """Buckets: how many pairs each shape keeps, and which larger shape gets the others."""
    num_pairs = list(num_own)
    buckets = []
    for k, shape in enumerate(shapes[:-1]):
        rows = _rows_with_least_over(num_pairs[k], shape.rows, row_multiple)
        shape = shape._replace(rows=rows)
        num_batches, num_over = divmod(num_pairs[k], rows)
        larger = next(j for j in range(k + 1, len(shapes)) if _holds(shapes[j], shape))
        num_pairs[larger] += num_over
        kept = num_pairs[k] - num_over
        buckets.append(_Bucket(shape, num_own[k], kept, num_batches, larger))
    last, shape = len(shapes) - 1, shapes[-1]
    rows, num_batches = even_rows(num_pairs[last], shape.rows, row_multiple)
    shape = shape._replace(rows=rows)
    buckets.append(_Bucket(shape, num_own[last], num_pairs[last], num_batches, last))
    return buckets


def _rows_with_least_over(num_pairs: int, max_rows: int, row_multiple: int) -> int:
    """The number of rows, at or just below `max_rows`, that leaves the fewest pairs over."""
    least = max(row_multiple, int(_LEAST_SHARE_OF_ROWS * max_rows))
    candidates = range(max_rows, least - 1, -row_multiple)
    return min(candidates, key=lambda rows: num_pairs % rows)


def _holds(shape: BatchShape, other: BatchShape) -> bool:
    return shape.source_length >= other.source_length and shape.target_length >= other.target_length
