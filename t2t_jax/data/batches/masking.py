"""Masked language modelling: some tokens of a sentence are hidden, and the model predicts them.

In: sentences. Out: the sentences with tokens hidden, and the hidden tokens (Devlin et al. 2019,
section 3.1). The masks change every epoch (Liu et al. 2019, section 4.1).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer, UInt

from t2t_jax.data.vocabulary.vocabulary import END_ID, MASK_ID, PAD_ID, START_ID

# Separates this use of the seed from the order of pairs.
_PURPOSE = 2
# Of ten hidden tokens, eight become the mask, one another token, and one stays as it is. Any token
# may have to be predicted, masked or not, so the model has to represent every one.
_MASKED_OF_TEN, _REPLACED_OF_TEN = 8, 1
# Positions of a text fit in so many bits, so (sentence, position) fits in a 64-bit number.
_POSITION_BITS = np.uint64(32)


class Masking(NamedTuple):
    """How tokens are hidden."""

    rate: float  # share of a sentence's tokens to hide; at least one is
    vocabulary_size: int  # pieces; "another token" is any piece that is not reserved
    seed: int


def masked(
    ids: Integer[np.ndarray, " tokens"],
    lengths: Int[np.ndarray, " sentences"],
    numbers: Int[np.ndarray, " sentences"],
    epoch: int,
    masking: Masking,
) -> tuple[Integer[np.ndarray, " tokens"], Integer[np.ndarray, " tokens"]]:
    """The ids with some hidden, and the hidden ids, with PAD_ID elsewhere.

    `ids` are sentences of these lengths, concatenated. Start and end are never hidden. What
    happens to a token depends only on the seed, the epoch, the number of its sentence and its
    position in it, not on the other sentences.
    """
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(ids)) - (np.cumsum(lengths) - lengths)[sentence]
    is_text = (ids != PAD_ID) & (ids != START_ID) & (ids != END_ID)
    hidden = num_hidden(np.bincount(sentence[is_text], minlength=len(lengths)), masking.rate)

    tokens = numbers.astype(np.uint64)[sentence] << _POSITION_BITS | position.astype(np.uint64)
    state = np.random.SeedSequence([masking.seed, _PURPOSE, epoch]).generate_state(2, np.uint64)
    lots = np.where(is_text, _random_bits(state[:1], tokens), np.iinfo(np.uint64).max)
    # Sorting within sentences permutes positions: the n-th token by lot has rank n.
    rank = np.empty_like(position)
    rank[np.lexsort((lots, sentence))] = position
    is_hidden = is_text & (rank < hidden[sentence])

    fate, other = np.divmod(_random_bits(state[1:], tokens), np.uint64(10))[::-1]
    num_pieces = np.uint64(masking.vocabulary_size - MASK_ID - 1)
    other = (other % num_pieces).astype(ids.dtype) + ids.dtype.type(MASK_ID + 1)
    becomes = np.where(fate < _MASKED_OF_TEN, ids.dtype.type(MASK_ID), other)
    becomes = np.where(fate < _MASKED_OF_TEN + _REPLACED_OF_TEN, becomes, ids)
    return np.where(is_hidden, becomes, ids), np.where(is_hidden, ids, ids.dtype.type(PAD_ID))


def num_hidden(
    num_tokens: Integer[np.ndarray, " sentences"], rate: float
) -> Float[np.ndarray, " sentences"]:
    """How many tokens are hidden of so many, start and end not counted."""
    return np.where(num_tokens > 0, np.maximum(1, np.rint(rate * num_tokens)), 0)


def _random_bits(
    state: UInt[np.ndarray, "1"], numbers: UInt[np.ndarray, " n"]
) -> UInt[np.ndarray, " n"]:
    """SplitMix64 (Steele et al. 2014): the n-th random number from `state`."""
    z = state + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
