"""Texts of similar length in one batch, few shapes, and the device always at work.

Comes in: the number of tokens of each text. Goes out: which texts go through the model together,
and their ids side by side.

Axes: B rows, T positions.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from t2t_jax.data.vocabulary.vocabulary import PAD_ID

Result = TypeVar("Result")

# Lengths are padded to powers of two from here on: compiling for one more shape takes as long as
# hundreds of short texts take a small model.
SHORTEST = 16

# So that the device is at work while the host makes text of what it found before.
_BATCHES_IN_WORK = 2


class LengthBatch(NamedTuple):
    """Texts that go through the model together."""

    places: list[int]  # of the texts in the input
    num_rows: int  # at least len(places); the rest is padding
    length: int  # tokens, padding included


def batches_by_length(
    lengths: Sequence[int],
    *,
    tokens_per_batch: int,
    extra_length: int = 0,
    row_multiple: int = 1,
    max_length: int | None = None,
    shapes: set[tuple[int, int]] | None = None,
) -> Iterator[LengthBatch]:
    """Every text with tokens in one batch, those of one shape together, longest first.

    The longest first, because if one does not fit into memory that shows at once.

    Args:
      lengths: tokens of each text; one of 0 is in no batch.
      tokens_per_batch: rows x length of a batch, as far as `row_multiple` allows.
      extra_length: what is counted beyond the length, such as tokens to be generated.
      row_multiple: every batch has a multiple of so many rows.
      max_length: what no length is padded beyond; the texts themselves must not be longer.
      shapes: rows and length of what has been compiled; the fitting ones are used again, and new
        ones are added.
    """
    shapes = set() if shapes is None else shapes
    places_by_length: dict[int, list[int]] = {}
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if lengths[place] > 0:
            length = _padded_length(lengths[place], max_length)
            places_by_length.setdefault(length, []).append(place)
    for length, places in places_by_length.items():
        # A few texts do not pay for a full batch, nor for a compilation per number of them.
        num_rows = min(
            max(1, tokens_per_batch // (length + extra_length)), _power_of_two(len(places))
        )
        num_rows = -(-num_rows // row_multiple) * row_multiple
        roomy = [rows for rows, known in shapes if known == length and rows >= num_rows]
        num_rows = min(roomy, default=num_rows)
        shapes.add((num_rows, length))
        for start in range(0, len(places), num_rows):
            yield LengthBatch(places[start : start + num_rows], num_rows, length)


def padded_ids(batch: LengthBatch, texts: Sequence[Sequence[int]]) -> Int[np.ndarray, "B T"]:
    """The ids of the batch's texts, out of all `texts`, each in the first places of its row."""
    ids = np.full((batch.num_rows, batch.length), PAD_ID, np.int32)
    for row, place in enumerate(batch.places):
        ids[row, : len(texts[place])] = texts[place]
    return ids


def check_lengths(
    sentences: Sequence[Sequence[int]], max_positions: int | None, *, counted: str
) -> None:
    """Raises ValueError where a sentence is longer than the model has learned positions for.

    `counted` names the tokens among its ids that nobody wrote; None bounds no sentence.
    """
    for number, ids in enumerate(sentences, start=1):
        if max_positions is not None and len(ids) > max_positions:
            raise ValueError(
                f"sentence {number} has {len(ids)} tokens with its {counted}, but the model has "
                f"learned only {max_positions=} positions: shorten or split it"
            )


def worked_ahead(
    batches: Iterable[LengthBatch], start: Callable[[LengthBatch], Result]
) -> Iterator[tuple[LengthBatch, Result]]:
    """Every batch with what `start` gives for it, while the batches after it are in work."""
    in_work: deque[tuple[LengthBatch, Result]] = deque()
    for batch in batches:
        in_work.append((batch, start(batch)))
        if len(in_work) == _BATCHES_IN_WORK:
            yield in_work.popleft()
    yield from in_work


def _padded_length(num_tokens: int, max_length: int | None) -> int:
    length = max(SHORTEST, _power_of_two(num_tokens))
    return length if max_length is None else min(length, max_length)


def _power_of_two(number: int) -> int:
    """The smallest one that is not below `number`."""
    return 1 << (number - 1).bit_length()
