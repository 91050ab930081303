"""Batches of a few shapes, each of pairs of similar lengths, one in a row.

Each pair belongs to the cheapest shape it fits. What does not fill a batch there goes into the
next larger shape, and so on up, so that only the largest shape can have a batch with empty rows.
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

# A batch may be so much smaller than its token budget if that saves padding elsewhere.
_LEAST_SHARE_OF_ROWS = 0.9


class _Bucket(NamedTuple):
    """The pairs of one shape."""

    shape: BatchShape
    num_own: int  # pairs this is the cheapest shape for
    num_kept: int  # pairs in its batches, own and from smaller buckets
    num_batches: int
    hands_on_to: int  # the bucket that gets the pairs over; the largest has none and names itself


class BucketedBatches(Batches):
    """Batches of at most `num_buckets` shapes, each of pairs of similar lengths, one in a row.

    Each pair belongs to the cheapest shape it fits.

    Args:
      num_buckets: at most so many shapes; fewer if more would not save cells.

    The others are those of `Batches`. Without `shuffle` small shapes come first.

    Raises:
      ValueError: see `Batches`; or `row_multiple` rows of the longest sentences do not fit in a
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

    A pair counts as often as `times` says, or once. With few pairs, fewer shapes than allowed
    leave less over that fills no batch.
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
        # No pair of its own and none handed on: its shape would never occur.
        best_buckets = best_buckets[:-1]
    return best_buckets, bucket_of_cell[histogram.cell_of(source_lengths, target_lengths)]


def _side_cells(buckets: Sequence[_Bucket]) -> tuple[int, int]:
    """Cells of all source arrays of an epoch, and of all target arrays."""
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
        # Handed-on pairs come first, so that they are kept: handed on again and again, the
        # shortest pairs would end in the largest shape.
        candidates = np.concatenate([*handed_on[k], places_by_bucket[k]])
        kept, over = np.split(candidates, [bucket.num_kept])
        if len(over):  # else it may be the last bucket, cut off as unused
            handed_on[bucket.hands_on_to].append(over)
        order.append(np.sort(kept))
    return pairs[np.concatenate(order)]


def _batch_table(buckets: Sequence[_Bucket]) -> Int[np.ndarray, "batches 3"]:
    """Of each batch its bucket and where in the epoch's order its pairs start and stop."""
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

    The largest shape stays in any case: the pairs over need a place to go.
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
    """How many pairs each shape keeps and to which larger one it hands the others on."""
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
    """The number of rows, little below `max_rows`, that leaves fewest pairs for a larger shape."""
    least = max(row_multiple, int(_LEAST_SHARE_OF_ROWS * max_rows))
    candidates = range(max_rows, least - 1, -row_multiple)
    return min(candidates, key=lambda rows: num_pairs % rows)


def _holds(shape: BatchShape, other: BatchShape) -> bool:
    return shape.source_length >= other.source_length and shape.target_length >= other.target_length
