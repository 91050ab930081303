"""Batch i as a pure function of (prepared corpus, seed, i), bucketed by length.

Where a task has sentences and not pairs of them, one side of a pair is nothing or a number.

Every epoch holds every pair exactly once, in batches of a few fixed shapes. Each pair belongs to
the cheapest shape it fits; what does not fill a batch there goes into the next larger shape,
and so on up, so that only the largest shape can have a batch with empty rows.

Axes: B batch, S source positions, T target positions.
"""

import threading
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from t2t_jax.data.buckets import (
    LengthHistogram,
    Shape,
    cheapest_shapes,
    choose_shapes,
    length_histogram,
)
from t2t_jax.data.masking import Masking, masked
from t2t_jax.data.prepared import PreparedSplit
from t2t_jax.data.vocabulary import PAD_ID

# Tells this use of the seed from others.
_PURPOSE = 1
# Threads that assemble ahead work on two epochs at once near the end of one.
_CACHED_EPOCHS = 2

# A batch may be so much smaller than its token budget if that saves padding elsewhere.
_LEAST_SHARE_OF_ROWS = 0.9


class Batch(NamedTuple):
    """What is read, and what is to be predicted of it; every task has both.

    translation                two sentences with end tokens, without start tokens
    language_modelling         no source, S = 0; the target as in a translation
    masked_language_modelling  a sentence with start and end tokens, some hidden; what was hidden,
                               PAD_ID where nothing was
    classification             a sentence with start and end tokens; 1 + its class, T = 1

    Padded at the end; rows of nothing but PAD_ID fill a batch that has too few pairs.
    """

    source_ids: np.ndarray  # int32, B S
    target_ids: np.ndarray  # int32, B T
    # Several pairs in a row: which of them a token is of, 1, 2, ...; 0 at padding. None: one pair.
    source_segments: np.ndarray | None = None  # int32, B S
    target_segments: np.ndarray | None = None  # int32, B T


class BucketShape(NamedTuple):
    """The shape of the batches of one bucket."""

    rows: int
    source_length: int
    target_length: int


class _Bucket(NamedTuple):
    shape: BucketShape
    num_own: int  # pairs this is the cheapest shape for
    num_kept: int  # pairs in its batches, own and from smaller buckets
    num_batches: int
    hands_on_to: int  # the bucket that gets the pairs over; the largest has none and names itself


class _EpochPlan(NamedTuple):
    order: np.ndarray  # pairs, bucket by bucket, batch by batch
    batch_order: np.ndarray  # which batch comes when


class BucketedBatches:
    """Batches of at most `num_buckets` shapes, the same on every host and after every restart.

    Args:
      split: the pairs.
      source_tokens_per_batch: rows times source length, padding included, is at most this.
      target_tokens_per_batch: likewise for the target.
      num_buckets: at most so many shapes; fewer if more would not save cells.
      row_multiple: every batch has a multiple of so many rows (devices times microbatches).
      seed: with the epoch it gives the order.
      shuffle: False keeps the order of the corpus within each shape, small shapes first.
      masking: hides tokens of the source and leaves in the target what was hidden.

    Raises:
      ValueError: the split is empty, a number is too small, or `row_multiple` rows of the
        longest sentences do not fit in a batch.
    """

    def __init__(
        self,
        split: PreparedSplit,
        *,
        source_tokens_per_batch: int,
        target_tokens_per_batch: int,
        num_buckets: int,
        row_multiple: int,
        seed: int,
        shuffle: bool = True,
        masking: Masking | None = None,
    ) -> None:
        if split.num_pairs == 0:
            raise ValueError("a split without pairs gives no batches")
        for name, value, least in (
            ("num_buckets", num_buckets, 1),
            ("row_multiple", row_multiple, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")
        lengths = split.source_lengths, split.target_lengths
        budgets = source_tokens_per_batch, target_tokens_per_batch
        for side, side_lengths, budget in zip(("source", "target"), lengths, budgets, strict=True):
            _check_budget(side, int(side_lengths.max()), budget, row_multiple)

        self._split = split
        self._seed = seed
        self._shuffle = shuffle
        self._masking = masking
        self._buckets, self._bucket_of_pair = _cheapest_buckets(
            *lengths, num_buckets, budgets, row_multiple
        )
        self._batches = _batch_table(self._buckets)
        self._plans: dict[int, _EpochPlan] = {}
        self._lock = threading.Lock()

    @property
    def shapes(self) -> tuple[BucketShape, ...]:
        """All shapes a batch can have, the cheapest first; the last one holds every pair."""
        return tuple(bucket.shape for bucket in self._buckets)

    @property
    def batches_per_epoch(self) -> int:
        """The same for every epoch."""
        return len(self._batches)

    @property
    def non_padding_share(self) -> float:
        """Real tokens / cells of source and target together, the same for every epoch."""
        num_tokens = len(self._split.source_ids) + len(self._split.target_ids)
        return num_tokens / sum(_side_cells(self._buckets))

    @property
    def non_padding_share_by_side(self) -> tuple[float, float]:
        """`non_padding_share` of the source and of the target alone; 1 for a side of no cells."""
        source_cells, target_cells = _side_cells(self._buckets)
        return (
            len(self._split.source_ids) / source_cells if source_cells else 1.0,
            len(self._split.target_ids) / target_cells if target_cells else 1.0,
        )

    def __getitem__(self, i: int) -> Batch:
        """Batch i >= 0, without end: i // batches_per_epoch is its epoch."""
        if i < 0:
            raise ValueError(f"batch {i} does not exist: batches are numbered from 0")
        epoch, position = divmod(i, self.batches_per_epoch)
        plan = self._plan(epoch)
        bucket, start, stop = self._batches[plan.batch_order[position]]
        pairs = plan.order[start:stop]
        rows, source_length, target_length = self._buckets[bucket].shape
        split = self._split
        source_ids = _padded(split.source_ids, split.source_offsets, pairs, rows, source_length)
        if self._masking is not None:
            sentences = np.pad(pairs, (0, rows - len(pairs)))
            return Batch(*masked(source_ids, sentences, epoch, self._masking))
        target_ids = _padded(split.target_ids, split.target_offsets, pairs, rows, target_length)
        return Batch(source_ids, target_ids)

    def _plan(self, epoch: int) -> _EpochPlan:
        with self._lock:
            if epoch not in self._plans:
                while len(self._plans) >= _CACHED_EPOCHS:
                    del self._plans[next(iter(self._plans))]
                self._plans[epoch] = self._make_plan(epoch)
            return self._plans[epoch]

    def _make_plan(self, epoch: int) -> _EpochPlan:
        num_pairs, num_batches = self._split.num_pairs, self.batches_per_epoch
        if self._shuffle:
            pairs, batch_order = _permutations(self._seed, epoch, num_pairs, num_batches)
        else:
            pairs, batch_order = np.arange(num_pairs), np.arange(num_batches)
        return _EpochPlan(_order(self._buckets, self._bucket_of_pair, pairs), batch_order)


def _check_budget(side: str, longest: int, tokens_per_batch: int, row_multiple: int) -> None:
    if longest * row_multiple > tokens_per_batch:
        raise ValueError(
            f"{side}_tokens_per_batch={tokens_per_batch} is too small: {row_multiple} row(s) of "
            f"the longest {side} sentence, {longest} tokens, need {longest * row_multiple}"
        )


def _cheapest_buckets(
    source_lengths: Int[np.ndarray, " pairs"],
    target_lengths: Int[np.ndarray, " pairs"],
    num_buckets: int,
    budgets: tuple[int, int],
    row_multiple: int,
) -> tuple[list[_Bucket], Int[np.ndarray, " pairs"]]:
    """The buckets whose batches have the fewest cells, and the bucket of each pair.

    With few pairs, fewer shapes than allowed leave less over that fills no batch.
    """
    histogram = length_histogram(source_lengths, target_lengths)
    best_shapes, best_buckets = [], []
    for shapes in choose_shapes(histogram, num_buckets):
        shapes, buckets = _used_buckets(histogram, shapes, budgets, row_multiple)
        if not best_buckets or sum(_side_cells(buckets)) < sum(_side_cells(best_buckets)):
            best_shapes, best_buckets = shapes, buckets
    bucket_of_cell = cheapest_shapes(histogram, best_shapes)
    bucket_of_pair = bucket_of_cell[
        np.searchsorted(histogram.source_edges, source_lengths),
        np.searchsorted(histogram.target_edges, target_lengths),
    ]
    if best_buckets[-1].num_batches == 0:
        # No pair of its own and none handed on: its shape would never occur.
        best_buckets = best_buckets[:-1]
    return best_buckets, bucket_of_pair


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
            [_bucket_shape(histogram, shape, budgets, row_multiple) for shape in shapes],
            num_own.astype(int).tolist(),
            row_multiple,
        )
        unused = [k for k, bucket in enumerate(buckets[:-1]) if bucket.num_batches == 0]
        if not unused:
            return shapes, buckets
        shapes = shapes[: unused[0]] + shapes[unused[0] + 1 :]


def _bucket_shape(
    histogram: LengthHistogram, shape: Shape, budgets: tuple[int, int], row_multiple: int
) -> BucketShape:
    source_length = int(histogram.source_edges[shape[0]])
    target_length = int(histogram.target_edges[shape[1]])
    lengths = source_length, target_length
    rows = min(budget // length for budget, length in zip(budgets, lengths, strict=True) if length)
    return BucketShape(rows // row_multiple * row_multiple, source_length, target_length)


def _filled_buckets(
    shapes: list[BucketShape], num_own: list[int], row_multiple: int
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
    num_batches = -(-num_pairs[last] // shape.rows)
    if num_batches:
        # As many rows as share the pairs out evenly, so that the last batch is nearly full.
        even_rows = -(-num_pairs[last] // num_batches)
        shape = shape._replace(rows=-(-even_rows // row_multiple) * row_multiple)
    buckets.append(_Bucket(shape, num_own[last], num_pairs[last], num_batches, last))
    return buckets


def _rows_with_least_over(num_pairs: int, max_rows: int, row_multiple: int) -> int:
    """The number of rows, little below `max_rows`, that leaves fewest pairs for a larger shape."""
    least = max(row_multiple, int(_LEAST_SHARE_OF_ROWS * max_rows))
    candidates = range(max_rows, least - 1, -row_multiple)
    return min(candidates, key=lambda rows: num_pairs % rows)


def _holds(shape: BucketShape, other: BucketShape) -> bool:
    return shape.source_length >= other.source_length and shape.target_length >= other.target_length


def _side_cells(buckets: list[_Bucket]) -> tuple[int, int]:
    """Cells of all source arrays of an epoch, and of all target arrays."""
    source_cells = target_cells = 0
    for bucket in buckets:
        rows, source_length, target_length = bucket.shape
        source_cells += bucket.num_batches * rows * source_length
        target_cells += bucket.num_batches * rows * target_length
    return source_cells, target_cells


def _batch_table(buckets: list[_Bucket]) -> list[tuple[int, int, int]]:
    """Of each batch its bucket and where in the epoch's order its pairs start and stop."""
    table = []
    start = 0
    for k, bucket in enumerate(buckets):
        stop = start + bucket.num_kept
        for batch_start in range(start, stop, bucket.shape.rows):
            table.append((k, batch_start, min(batch_start + bucket.shape.rows, stop)))
        start = stop
    return table


def _permutations(
    seed: int, epoch: int, num_pairs: int, num_batches: int
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " batches"]]:
    """A random order of the pairs and one of the batches.

    Sorted raw bits of a counter-based generator: numpy keeps these the same from version to
    version, which it does not promise of its own `permutation`.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, _PURPOSE, epoch]))
    pairs = np.argsort(bits.random_raw(num_pairs), kind="stable")
    return pairs, np.argsort(bits.random_raw(num_batches), kind="stable")


def _order(
    buckets: list[_Bucket],
    bucket_of_pair: Int[np.ndarray, " pairs"],
    pairs: Int[np.ndarray, " pairs"],
) -> Int[np.ndarray, " pairs"]:
    """`pairs` sorted by the bucket that keeps them, in their given order within each."""
    place = np.empty_like(pairs)
    place[pairs] = np.arange(len(pairs))
    grouped = pairs[np.argsort(bucket_of_pair[pairs], kind="stable")]
    own = np.split(grouped, np.cumsum([bucket.num_own for bucket in buckets])[:-1])
    handed_on: list[list[np.ndarray]] = [[] for _ in buckets]
    order = []
    for k, bucket in enumerate(buckets):
        # Handed-on pairs come first, so that they are kept: handed on again and again, the
        # shortest pairs would end in the largest shape.
        candidates = np.concatenate([*handed_on[k], own[k]])
        kept, over = np.split(candidates, [bucket.num_kept])
        handed_on[bucket.hands_on_to].append(over)
        order.append(kept[np.argsort(place[kept])])
    return np.concatenate(order)


def _padded(
    ids: np.ndarray,
    offsets: Int[np.ndarray, " offsets"],
    sentences: Int[np.ndarray, " sentences"],
    rows: int,
    length: int,
) -> Int[np.ndarray, "rows length"]:
    """The ids of the sentences, one a row, padded at the end of each row and with rows below."""
    starts = offsets[sentences]
    positions = np.arange(length)
    is_token = positions < (offsets[sentences + 1] - starts)[:, None]
    padded = np.full((rows, length), PAD_ID, np.int32)
    padded[: len(sentences)][is_token] = ids[(starts[:, None] + positions)[is_token]]
    return padded
