"""Batches of texts of similar length, with few shapes and the device always busy.

In: the number of tokens of each text. Out: which texts go through the model together, and their
padded ids.

Axes: B rows, T positions.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from t2t_jax.data.vocabulary.vocabulary import PAD_ID

Result = TypeVar("Result")

# From here on, lengths are padded to powers of two: compiling one more shape takes as long as a
# small model takes for hundreds of short texts.
SHORTEST = 16

# So that the device works while the host decodes earlier results to text.
_BATCHES_IN_WORK = 2


class LengthBatch(NamedTuple):
    """Texts that go through the model together."""

    places: list[int]  # indices of the texts in the input
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
    """Puts every non-empty text in one batch, batches of one shape together, longest first.

    Longest first, so that one too large for memory shows at once.

    Args:
      lengths: tokens of each text; empty texts are in no batch.
      tokens_per_batch: rows x length of a batch, as far as `row_multiple` allows.
      extra_length: counted in addition to the length, such as tokens to generate.
      row_multiple: every batch has a multiple of this many rows.
      max_length: lengths are not padded beyond it; texts must not be longer.
      shapes: rows and length of compiled shapes; one is reused if that takes at most one batch
        more than a new one, which is added.
    """
    shapes = set() if shapes is None else shapes
    places_by_length: dict[int, list[int]] = {}
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if lengths[place] > 0:
            length = _padded_length(lengths[place], max_length)
            places_by_length.setdefault(length, []).append(place)
    for length, places in places_by_length.items():
        most = max(1, tokens_per_batch // (length + extra_length))
        num_rows = _num_rows(len(places), most)
        num_rows = -(-num_rows // row_multiple) * row_multiple
        # Of the compiled shapes, the one with the fewest batches, then the fewest rows: one more
        # batch takes less than compiling one more shape.
        known = [(-(-len(places) // rows), rows) for rows, each in shapes if each == length]
        num_batches, best = min(known, default=(len(places), num_rows))
        num_rows = best if num_batches <= -(-len(places) // num_rows) + 1 else num_rows
        shapes.add((num_rows, length))
        for start in range(0, len(places), num_rows):
            yield LengthBatch(places[start : start + num_rows], num_rows, length)


def padded_ids(batch: LengthBatch, texts: Sequence[Sequence[int]]) -> Int[np.ndarray, "B T"]:
    """The ids of the batch's texts, out of all `texts`, each padded at the end of its row."""
    ids = np.full((batch.num_rows, batch.length), PAD_ID, np.int32)
    for row, place in enumerate(batch.places):
        ids[row, : len(texts[place])] = texts[place]
    return ids


def check_lengths(
    sentences: Sequence[Sequence[int]], max_positions: int | None, *, counted: str
) -> None:
    """Raises ValueError if a sentence is longer than the model's learned positions.

    `counted` names the special tokens among its ids; `max_positions=None` sets no limit.
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
    """Every batch with its result of `start`, while later batches are already running."""
    in_work: deque[tuple[LengthBatch, Result]] = deque()
    for batch in batches:
        in_work.append((batch, start(batch)))
        if len(in_work) == _BATCHES_IN_WORK:
            yield in_work.popleft()
    yield from in_work


def _padded_length(num_tokens: int, max_length: int | None) -> int:
    length = max(SHORTEST, _power_of_two(num_tokens))
    return length if max_length is None else min(length, max_length)


def _num_rows(num_texts: int, most: int) -> int:
    """Rows of each batch if `num_texts` are spread evenly over as few batches as possible.

    Rounded up, so that similar numbers of texts have the same shape.
    """
    rows = -(-num_texts // -(-num_texts // most))
    above = _power_of_two(rows)
    step = min(above, max(8, above // 16))
    return min(-(-rows // step) * step, most)


def _power_of_two(number: int) -> int:
    """The smallest power of two not below `number`."""
    return 1 << (number - 1).bit_length()
