"""Properties of both kinds of batches: corpora mixed by weight, and rows shared by hosts."""

import collections
import itertools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_jax.data.batches import packed_rows
from t2t_jax.data.batches.batches import Batch, BucketedBatches, PackedBatches
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.batches.order import occurrences, shuffled
from t2t_jax.data.prepare.prepared import PreparedSplit
from tests.data.splits import (
    RANDOM_LENGTHS,
    assert_equal_batches,
    epoch_of,
    lengths_lists,
    packed_rows_of,
    rows_of,
    split_of,
)

OPTIONS = {
    "source_tokens_per_batch": 600,
    "target_tokens_per_batch": 300,
    "row_multiple": 4,
    "seed": 0,
}


def bucketed(split, **changes):
    return BucketedBatches(split, **{**OPTIONS, "num_buckets": 3, **changes})


def packed(split, **changes):
    return PackedBatches(split, **{**OPTIONS, "packed_length": 30, **changes})


both_kinds = pytest.mark.parametrize("make", [bucketed, packed])


def pairs_of(batch):
    if batch.source_segments is None:
        return rows_of(batch)
    return list(itertools.chain.from_iterable(packed_rows_of(batch)))


@both_kinds
@settings(max_examples=25)
@given(
    lengths=lengths_lists,
    weights=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 120), min_size=3, max_size=3),
    shuffle=st.booleans(),
)
def test_each_pair_comes_as_often_as_its_corpus_has_weight(make, lengths, weights, cuts, shuffle):
    # Corpora may be empty.
    num_corpora = len(weights)
    ends = sorted(min(cut, len(lengths)) for cut in cuts)[: num_corpora - 1] + [len(lengths)]
    split = split_of(lengths, tuple(ends))
    names = all_pairs_in_order(split)
    expected = collections.Counter()
    for (start, end), weight in zip(itertools.pairwise([0, *ends]), weights, strict=True):
        for name in names[start:end]:
            expected[name] += weight
    # Wide enough for a source row of any mixture.
    batches = make(split, weights=tuple(weights), shuffle=shuffle, source_tokens_per_batch=8_000)
    for epoch in (0, 2):
        made = epoch_of(batches, epoch)
        assert collections.Counter(itertools.chain.from_iterable(map(pairs_of, made))) == expected
    tokens = [sum(int((batch[side] != 0).sum()) for batch in made) for side in (0, 1)]
    cells = [sum(batch[side].size for batch in made) for side in (0, 1)]
    assert batches.non_padding_share == pytest.approx(sum(tokens) / sum(cells))
    shares = [one / all_cells for one, all_cells in zip(tokens, cells, strict=True)]
    assert batches.non_padding_share_by_side == pytest.approx(tuple(shares))


def all_pairs_in_order(split):
    sides = []
    for ids, offsets in (split[:2], split[2:4]):
        sides.append([tuple(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)])
    return list(zip(*sides, strict=True))


@both_kinds
def test_any_batch_can_be_had_first_alone_and_by_two_threads(make):
    in_order, by_two = make(split_of(RANDOM_LENGTHS)), make(split_of(RANDOM_LENGTHS))
    n = in_order.batches_per_epoch
    made = [in_order[i] for i in range(3 * n)]
    for i in (2 * n + 1, 0, 3 * n - 1, n, n - 1):
        assert_equal_batches(make(split_of(RANDOM_LENGTHS))[i], made[i])
    with ThreadPoolExecutor(2) as pool:
        for one, other in zip(pool.map(by_two.__getitem__, range(3 * n)), made, strict=True):
            assert_equal_batches(one, other)


@both_kinds
def test_a_side_without_tokens_counts_for_nothing(make):
    lengths = np.random.default_rng(0).integers(1, 25, 300)
    split = split_of([(1, length) for length in lengths])
    split = split._replace(source_ids=split.source_ids[:0], source_offsets=np.zeros(301, int))
    # The source's budget of one token does not limit what has no source.
    batches = make(split, source_tokens_per_batch=1)
    made = epoch_of(batches, 0)
    assert all(batch.source_ids.shape == (len(batch.target_ids), 0) for batch in made)
    found = itertools.chain.from_iterable(map(pairs_of, made))
    assert sorted(found) == sorted(all_pairs_in_order(split))
    assert batches.non_padding_share > 0.7
    assert batches.non_padding_share_by_side == (1.0, batches.non_padding_share)


@both_kinds
def test_a_corpus_of_weight_one_has_the_batches_of_no_mixture(make):
    one, mixed = (
        make(split_of(RANDOM_LENGTHS)),
        make(split_of(RANDOM_LENGTHS, (200, 500)), weights=(1, 1)),
    )
    for i in range(one.batches_per_epoch):
        assert_equal_batches(one[i], mixed[i])


@both_kinds
def test_copies_of_a_sentence_have_masks_of_their_own(make):
    split = split_of([(20, 20)] * 30)
    masking = Masking(rate=0.15, vocabulary_size=200, seed=0)
    batches = make(split, weights=(2,), masking=masking)
    places = collections.Counter()
    for batch in epoch_of(batches, 0):
        for row in batch.target_ids[batch.target_ids.any(axis=1)]:
            places[tuple(np.flatnonzero(row))] += 1
    assert places.total() == 60 and len(places) > 50


@both_kinds
@settings(max_examples=25)
@given(
    lengths=lengths_lists,
    num_parts=st.integers(1, 4),
    rows_of_part=st.integers(1, 3),
    is_masked=st.booleans(),
)
def test_the_parts_of_the_hosts_are_the_batch_of_one(
    make, lengths, num_parts, rows_of_part, is_masked
):
    if is_masked:
        lengths = [(s + 2, s + 2) for s, _ in lengths]
    split = split_of(lengths)
    options = {
        "row_multiple": 2,
        "masking": Masking(rate=0.3, vocabulary_size=200, seed=3) if is_masked else None,
        "source_tokens_per_batch": 9_000,
        "target_tokens_per_batch": 800,
    }
    whole = make(split, **options)
    options["padded_to"] = num_parts * rows_of_part
    hosts = [make(split, part=part, num_parts=num_parts, **options) for part in range(num_parts)]
    assert len({host.shapes for host in hosts}) == 1
    assert all(shape.rows % options["padded_to"] == 0 for shape in hosts[0].shapes)
    assert hosts[0].non_padding_share <= whole.non_padding_share
    assert all(host.batches_per_epoch == whole.batches_per_epoch for host in hosts)
    for i in range(min(2 * whole.batches_per_epoch, 12)):
        parts = [host[i] for host in hosts]
        # No host waits for another one: all have arrays of the same shapes.
        assert len({tuple(side.shape for side in part if side is not None) for part in parts}) == 1
        sides = [
            None if side[0] is None else np.concatenate(side) for side in zip(*parts, strict=True)
        ]
        num_rows = len(whole[i].target_ids)
        for side in sides:
            assert side is None or not side[num_rows:].any()
        assert_equal_batches(
            Batch(*(None if side is None else side[:num_rows] for side in sides)), whole[i]
        )


@both_kinds
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_parts": 3}, "padded_to=1 must be a multiple of num_parts=3"),
        ({"num_parts": 0}, "num_parts=0 must be at least 1"),
        (
            {"padded_to": 2, "num_parts": 2, "part": 2},
            "part=2 must lie between 0 and num_parts - 1 = 1",
        ),
        ({"part": -1}, "part=-1 must lie between 0 and num_parts - 1 = 0"),
        (
            {"weights": (1,)},
            r"weights=\(1,\) must hold a whole number of at least 1 for each of the 2",
        ),
        (
            {"weights": (0, 1)},
            r"weights=\(0, 1\) must hold a whole number of at least 1 for each of the 2",
        ),
        ({"row_multiple": 0}, "row_multiple=0 must be at least 1"),
        ({"padded_to": 0}, "padded_to=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
    ],
)
def test_a_mistake_is_told(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(split_of(RANDOM_LENGTHS, (200, 500)), **{"weights": (1, 2), **changes})


@both_kinds
def test_an_empty_split_and_a_negative_number_are_told(make):
    with pytest.raises(ValueError, match="a split without pairs"):
        make(split_of([]))
    with pytest.raises(ValueError, match="batch -1 does not exist"):
        make(split_of([(3, 3)]))[-1]


@both_kinds
def test_the_plan_of_an_epoch_takes_few_bytes_a_pair(make, monkeypatch):
    # Small beside the corpus, as it is beside millions of pairs.
    monkeypatch.setattr(packed_rows, "_MINIATURE_PAIRS", 5_000)
    num_pairs = 100_000
    lengths = np.random.default_rng(0).integers(1, 25, (2, num_pairs))
    offsets = [np.concatenate([[0], np.cumsum(side)]) for side in lengths]
    ids = [np.ones(side[-1], np.uint16) for side in offsets]
    split = PreparedSplit(ids[0], offsets[0], ids[1], offsets[1])
    tracemalloc.start()
    batches = make(split)
    batches[0]
    num_bytes, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 4.5 million pairs: 90 MB at most, and 180 MB while it is made.
    assert num_bytes < 20 * num_pairs and peak < 40 * num_pairs
    assert batches.batches_per_epoch > 1_000


def test_occurrences_are_numbered_round_by_round():
    assert occurrences((2, 5), (1, 3)).tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 14]
    assert occurrences((3,), (1,)).dtype == np.int32


def test_an_order_is_a_permutation_of_a_seed_and_an_epoch():
    numbers = np.arange(1_000, dtype=np.int32)
    orders = [
        shuffled(numbers, 50, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    for pairs, others in orders:
        np.testing.assert_array_equal(np.sort(pairs), numbers)
        np.testing.assert_array_equal(np.sort(others), np.arange(50))
    for (one, _), (other, _) in itertools.combinations(orders, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15
        assert (one == other).sum() < 10


@both_kinds
def test_masks_change_from_epoch_to_epoch(make):
    masking = Masking(rate=0.15, vocabulary_size=200, seed=0)
    batches = make(split_of([(20, 20)] * 30), masking=masking, shuffle=False)
    pairs = zip(epoch_of(batches, 0), epoch_of(batches, 1), strict=True)
    assert any((one.target_ids != other.target_ids).any() for one, other in pairs)
