"""Splits of known pairs, and the pairs found in batches."""

import itertools

import numpy as np
from hypothesis import strategies as st

from t2t_jax.data.prepare.prepared import PreparedSplit
from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID

lengths_lists = st.lists(
    st.tuples(st.integers(1, 24), st.integers(1, 24)), min_size=1, max_size=120
)

RANDOM_LENGTHS = [
    (int(s), int(max(1, min(24, s + d))))
    for s, d in zip(
        np.random.default_rng(5).integers(1, 25, 500),
        np.random.default_rng(6).integers(-3, 4, 500),
        strict=True,
    )
]


def split_of(lengths, corpus_ends=()) -> PreparedSplit:
    """Pair p's first tokens tell p in two digits, where there is room; all close with END_ID."""
    arrays = []
    for side in range(2):
        sentences = []
        for p, pair in enumerate(lengths):
            name = [4 + p // 100, 4 + p % 100]
            sentences.append([*(name * pair[side])[: pair[side] - 1], END_ID][: pair[side]])
        ids = np.array(list(itertools.chain.from_iterable(sentences)), np.uint16)
        arrays += [ids, np.cumsum([0, *map(len, sentences)])]
    return PreparedSplit(*arrays, corpus_ends)


def all_pairs(split: PreparedSplit):
    """Every pair of the split, both sides as tuples, sorted."""
    sides = []
    for ids, offsets in (split[:2], split[2:4]):
        sides.append([tuple(map(int, ids[a:b])) for a, b in itertools.pairwise(offsets)])
    return sorted(zip(*sides, strict=True))


def rows_of(batch):
    """The sentence pairs of a bucketed batch, padding taken off; rows of padding left out."""
    rows = []
    for source, target in zip(*batch[:2], strict=True):
        pair = tuple(tuple(side[side != PAD_ID].tolist()) for side in (source, target))
        if any(pair):
            assert pair[0] == tuple(source[: len(pair[0])]), "padding before the end"
            rows.append(pair)
    return rows


def packed_rows_of(batch):
    """The sentence pairs of each row of a packed batch."""
    rows = []
    for ids_and_segments in zip(*batch, strict=True):
        sides = []
        for ids, segments in (ids_and_segments[::2], ids_and_segments[1::2]):
            last = int(segments.max(initial=0))
            lengths = [int((segments == k).sum()) for k in range(1, last + 1)]
            in_order = np.repeat(np.arange(1, last + 1), lengths)
            padding = np.zeros(len(ids) - len(in_order))
            np.testing.assert_array_equal(segments, np.concatenate([in_order, padding]))
            np.testing.assert_array_equal(segments > 0, ids != PAD_ID)
            ends = itertools.accumulate(lengths, initial=0)
            sides.append([tuple(ids[a:b].tolist()) for a, b in itertools.pairwise(ends)])
        # Where there is no source at all, its segments say nothing.
        sources = sides[0] if len(ids_and_segments[0]) else [()] * len(sides[1])
        rows.append(list(zip(sources, sides[1], strict=True)))
    return rows


def epoch_of(batches, epoch):
    """All batches of the epoch."""
    n = batches.batches_per_epoch
    return [batches[i] for i in range(epoch * n, (epoch + 1) * n)]


def assert_equal_batches(one, other):
    """Both hold the same arrays."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
