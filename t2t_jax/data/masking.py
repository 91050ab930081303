"""Masked language modelling: some tokens of a sentence are hidden, the model is to guess them.

In: sentences. Out: the sentences with tokens hidden, and what stood there (Devlin et al. 2019,
section 3.1). The masks change from epoch to epoch (Liu et al. 2019, section 4.1).

Axes: B batch, S positions.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt

from t2t_jax.data.vocabulary import END_ID, MASK_ID, PAD_ID, START_ID

# Tells this use of the seed from others.
_PURPOSE = 2
# Of ten hidden tokens eight become the mask, one another token, and one stays as it is: a token
# that is no mask may be to guess, too, so that the model has to represent every one.
_MASKED_OF_TEN, _REPLACED_OF_TEN = 8, 1
# Rows of text have fewer positions; then (sentence, position) fits a 64-bit number.
_POSITION_BITS = np.uint64(32)


class Masking(NamedTuple):
    """How tokens are hidden."""

    rate: float  # share of a sentence's tokens that are hidden; at least one is
    vocabulary_size: int  # pieces; another token is any of them that is not reserved
    seed: int


def masked(
    ids: Int[np.ndarray, "B S"], sentences: Int[np.ndarray, " B"], epoch: int, masking: Masking
) -> tuple[Int[np.ndarray, "B S"], Int[np.ndarray, "B S"]]:
    """The ids with some hidden, and the ids that were hidden, PAD_ID elsewhere.

    Start, end and padding are never hidden. What happens to a token is a function of the seed,
    the epoch, the number of its sentence and its position alone: not of the batch around it.
    """
    is_text = (ids != PAD_ID) & (ids != START_ID) & (ids != END_ID)
    num_tokens = is_text.sum(axis=1)
    num_hidden = np.where(num_tokens > 0, np.maximum(1, np.rint(masking.rate * num_tokens)), 0)

    positions = np.arange(ids.shape[1], dtype=np.uint64)
    cells = sentences.astype(np.uint64)[:, None] << _POSITION_BITS | positions[None]
    state = np.random.SeedSequence([masking.seed, _PURPOSE, epoch]).generate_state(2, np.uint64)
    lots = np.where(is_text, _random_bits(state[:1], cells), np.iinfo(np.uint64).max)
    rank = lots.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    is_hidden = is_text & (rank < num_hidden[:, None])

    fate, other = np.divmod(_random_bits(state[1:], cells), np.uint64(10))[::-1]
    num_pieces = np.uint64(masking.vocabulary_size - MASK_ID - 1)
    other = (other % num_pieces).astype(ids.dtype) + ids.dtype.type(MASK_ID + 1)
    becomes = np.where(fate < _MASKED_OF_TEN, ids.dtype.type(MASK_ID), other)
    becomes = np.where(fate < _MASKED_OF_TEN + _REPLACED_OF_TEN, becomes, ids)
    return np.where(is_hidden, becomes, ids), np.where(is_hidden, ids, ids.dtype.type(PAD_ID))


def _random_bits(
    state: UInt[np.ndarray, "1"], numbers: UInt[np.ndarray, "B S"]
) -> UInt[np.ndarray, "B S"]:
    """SplitMix64 (Steele et al. 2014): the random number that comes as the n-th from `state`."""
    z = state + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
