"""The order of an epoch's pairs: a function of (seed, epoch), the same on every host."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Integer

# Separates this order from other uses of the seed.
_PAIRS = 1


def int_type(largest: int) -> type[np.signedinteger]:
    """int32 if it holds `largest`: plans of millions of pairs then take half the memory."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def occurrences(ends: Sequence[int], weights: Sequence[int]) -> Int[np.ndarray, " occurrences"]:
    """Every pair as often as its corpus's weight: pair + c * number of pairs the c-th time.

    Corpus j ends before pair `ends[j]`; c counts from 0.
    """
    num_pairs = ends[-1]
    dtype = int_type(num_pairs * max(weights))
    runs = []
    for c in range(max(weights)):
        for start, end, weight in zip((0, *ends[:-1]), ends, weights, strict=True):
            if c < weight:
                runs.append(np.arange(start + c * num_pairs, end + c * num_pairs, dtype=dtype))
    return np.concatenate(runs)


def shuffled(
    numbers: Int[np.ndarray, " n"], num_others: int, seed: int, epoch: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " others"]]:
    """The numbers in a random order, and 0, 1, ... `num_others` - 1 in another.

    Made from the raw bits of a counter-based generator: numpy keeps these the same across
    versions, which it does not promise for its `permutation`.
    """
    lots = np.random.Philox(np.random.SeedSequence([seed, _PAIRS, epoch]))
    return numbers[_permutation(lots, len(numbers))], _permutation(lots, num_others)


def grouped(
    numbers: Int[np.ndarray, " n"], groups: Integer[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """The numbers sorted by group, in their given order within each."""
    return numbers[np.argsort(groups, kind="stable")]


def _permutation(lots: np.random.Philox, size: int) -> Int[np.ndarray, " size"]:
    # Random bits and index in one number: sorting these in place is many times faster than argsort.
    num_bits = np.uint64(max(size - 1, 0).bit_length())
    drawn = lots.random_raw(size)
    drawn >>= num_bits
    drawn <<= num_bits
    drawn |= np.arange(size, dtype=np.uint64)
    drawn.sort()
    drawn &= (np.uint64(1) << num_bits) - np.uint64(1)
    return drawn.astype(int_type(size))
