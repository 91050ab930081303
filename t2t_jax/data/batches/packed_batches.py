"""Batches whose rows hold several pairs each, with hardly any padding (see packed_rows.py)."""

from typing import Any

from t2t_jax.data.batches.assembling import Batch, BatchShape, assemble
from t2t_jax.data.batches.epochs import Batches, EpochPlan, even_rows, multiple, rows_that_fit
from t2t_jax.data.batches.order import grouped
from t2t_jax.data.batches.packed_rows import largest_first, pack
from t2t_jax.data.prepare.prepared import PreparedSplit


class PackedBatches(Batches):
    """Batches of one shape, several pairs per row, both sides of a pair in the same row.

    Rows have the same lengths in every epoch: pairs of the same two lengths are exchanged, and
    rows come in another order.

    Args:
      packed_length: length of a target row. The length of a source row is chosen so that both
        sides of a row fill up together, but is at least that of the longest source.

    The others are as in `Batches`.

    Raises:
      ValueError: as `Batches`; or a target is longer than `packed_length`, or `row_multiple`
        rows do not fit in a batch.
    """

    def __init__(self, split: PreparedSplit, *, packed_length: int, **others: Any) -> None:
        super().__init__(split, **others)
        source, target = self._lengths()
        if packed_length < target.max():
            raise ValueError(
                f"packed_length={packed_length} is less than the {target.max()} tokens of the "
                "longest target: it must be at least as many"
            )
        num_source_tokens, num_target_tokens = self._side_tokens()
        balanced = -(-packed_length * num_source_tokens // num_target_tokens)
        of_source, of_target = self._length_multiples
        source_length = multiple(max(balanced, int(source.max())), of_source)
        lengths = source_length, multiple(packed_length, of_target)
        self._check_budgets("a packed {}", lengths)
        most = rows_that_fit(self._budgets, lengths, self._row_multiple)

        cells, self._cell_of_pair = largest_first(source, target, self._times())
        self._rows = pack(cells, *lengths)
        rows, self._num_batches = even_rows(self._rows.num_rows, most, self._row_multiple)
        self._shape = BatchShape(rows, *lengths)

    @property
    def batches_per_epoch(self) -> int:
        return self._num_batches

    @property
    def batches_by_shape(self) -> tuple[int, ...]:
        return (self._num_batches,)

    @property
    def _shapes_of_pairs(self) -> tuple[BatchShape, ...]:
        return (self._shape,)

    def _side_cells(self) -> tuple[int, int]:
        rows, source_length, target_length = self._padded(self._shape)
        num_rows = self._num_batches * rows
        return num_rows * source_length, num_rows * target_length

    def _make_plan(self, epoch: int) -> EpochPlan:
        # All rows, including the empty ones that fill the last batch: fewer than a batch has.
        pairs, sequence = self._shuffled(epoch, self._num_batches * self._shape.rows)
        cell_of_pair = self._cell_of_pair[pairs % self._split.num_pairs]
        return EpochPlan(grouped(pairs, cell_of_pair), sequence)

    def _batch(self, plan: EpochPlan, epoch: int, position: int) -> Batch:
        start = position * self._shape.rows
        own, shape = self._own(self._shape)
        rows = plan.sequence[start : start + self._shape.rows][own]
        places, row_of_pair = self._rows.pairs_of(rows)
        return assemble(
            self._split,
            plan.order[places],
            row_of_pair,
            shape,
            epoch=epoch,
            masking=self._masking,
            is_packed=True,
        )
