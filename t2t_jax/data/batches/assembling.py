"""In: which sentences lie in which row. Out: a batch, rows of token ids.

Axes: B batch, S source positions, T target positions.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer

from t2t_jax.data.batches.masking import Masking, masked
from t2t_jax.data.prepare.prepared import PreparedSplit
from t2t_jax.data.vocabulary.vocabulary import PAD_ID


class Batch(NamedTuple):
    """What the model reads and what it predicts; every task has both.

    translation                two sentences with end tokens, without start tokens
    language_modelling         no source, S = 0; the target as in translation
    masked_language_modelling  a sentence with start and end tokens, some hidden; the hidden tokens,
                               PAD_ID elsewhere
    classification             a sentence with start and end tokens; 1 + its class, T = 1

    Padded at the end; rows of PAD_ID alone fill a batch with too few pairs.
    """

    source_ids: np.ndarray  # int32, B S
    target_ids: np.ndarray  # int32, B T
    # Packed rows: the pair that a token belongs to, 1, 2, ...; 0 at padding. None: one pair a row.
    source_segments: np.ndarray | None = None  # int32, B S
    target_segments: np.ndarray | None = None  # int32, B T


class BatchShape(NamedTuple):
    """The number of rows of a batch, and their lengths."""

    rows: int
    source_length: int
    target_length: int


class _Side(NamedTuple):
    """The sentences of one side, concatenated, and where their tokens go."""

    ids: np.ndarray
    lengths: np.ndarray  # of the sentences
    cells: np.ndarray  # each token's place in the flattened rows
    shape: tuple[int, int]

    def filled(self, values: Integer[np.ndarray, " tokens"]) -> Int[np.ndarray, "rows length"]:
        """Rows with one value per token, and PAD_ID elsewhere."""
        rows = np.full(self.shape, PAD_ID, np.int32)
        rows.reshape(-1)[self.cells] = values
        return rows


def assemble(
    split: PreparedSplit,
    occurrences: Int[np.ndarray, " pairs"],
    row_of_pair: Int[np.ndarray, " pairs"],
    shape: BatchShape,
    *,
    epoch: int,
    masking: Masking | None,
    is_packed: bool,
) -> Batch:
    """The batch whose rows hold the pairs one after the other.

    `row_of_pair` never decreases. The masks of a sentence depend on its occurrence, not on its
    row; the pair of an occurrence is `occurrence % split.num_pairs`.
    """
    pairs = occurrences % split.num_pairs
    rows, source_length, target_length = shape
    source = _side(
        split.source_ids, split.source_offsets, pairs, row_of_pair, (rows, source_length)
    )
    if masking is None:
        target = _side(
            split.target_ids, split.target_offsets, pairs, row_of_pair, (rows, target_length)
        )
        read, predicted = source.ids, target.ids
    else:
        target = source
        read, predicted = masked(source.ids, source.lengths, occurrences, epoch, masking)
    batch = Batch(source.filled(read), target.filled(predicted))
    if not is_packed:
        return batch
    segments = 1 + np.arange(len(pairs)) - np.searchsorted(row_of_pair, row_of_pair)
    return batch._replace(
        source_segments=source.filled(np.repeat(segments, source.lengths)),
        target_segments=target.filled(np.repeat(segments, target.lengths)),
    )


def _side(
    ids: Integer[np.ndarray, " all_tokens"],
    offsets: Integer[np.ndarray, " offsets"],
    pairs: Int[np.ndarray, " pairs"],
    row_of_pair: Int[np.ndarray, " pairs"],
    shape: tuple[int, int],
) -> _Side:
    starts = offsets[pairs]
    lengths = offsets[pairs + 1] - starts
    tokens_before = np.cumsum(lengths) - lengths
    before_row = tokens_before[np.searchsorted(row_of_pair, row_of_pair)]
    first_cells = row_of_pair * shape[1] + tokens_before - before_row
    token = np.arange(int(lengths.sum()))
    return _Side(
        ids[np.repeat(starts - tokens_before, lengths) + token],
        lengths,
        np.repeat(first_cells - tokens_before, lengths) + token,
        shape,
    )
