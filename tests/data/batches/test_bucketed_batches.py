"""Bucketed batches as a function of their number: nothing lost, twice or too large."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_jax.data.batches import bucketed_batches
from t2t_jax.data.batches.batches import BucketedBatches
from t2t_jax.data.batches.bucket_shapes import cheapest_shapes, choose_shapes, length_histogram
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.prepare.prepared import PreparedSplit, prepare
from t2t_jax.data.vocabulary.vocabulary import PAD_ID
from tests.data.splits import (
    RANDOM_LENGTHS,
    all_pairs,
    assert_equal_batches,
    epoch_of,
    lengths_lists,
    rows_of,
    split_of,
)
from tests.data.text_corpus import text_config

MULTI30K = Path(__file__).resolve().parents[4] / "shared" / "data" / "multi30k"


def batches_of(lengths, **changes) -> BucketedBatches:
    split = lengths if isinstance(lengths, PreparedSplit) else split_of(lengths)
    options = {
        "source_tokens_per_batch": 128,
        "target_tokens_per_batch": 128,
        "num_buckets": 5,
        "row_multiple": 2,
        "seed": 0,
    }
    return BucketedBatches(split, **options | changes)


RANDOM_LENGTHS_OF_ONE_SIDE = np.random.default_rng(7).integers(2, 25, 200)


@settings(max_examples=60)
@given(
    lengths=lengths_lists,
    num_buckets=st.integers(1, 7),
    row_multiple=st.integers(1, 4),
    budgets=st.tuples(st.integers(96, 300), st.integers(96, 300)),
    shuffle=st.booleans(),
)
def test_an_epoch_holds_each_pair_once_within_all_limits(
    lengths, num_buckets, row_multiple, budgets, shuffle
):
    batches = batches_of(
        lengths,
        num_buckets=num_buckets,
        row_multiple=row_multiple,
        source_tokens_per_batch=budgets[0],
        target_tokens_per_batch=budgets[1],
        shuffle=shuffle,
    )
    for epoch in (0, 3):
        made = epoch_of(batches, epoch)
        assert sorted(itertools.chain.from_iterable(map(rows_of, made))) == all_pairs(
            split_of(lengths)
        )
        shapes = {(*batch.source_ids.shape, batch.target_ids.shape[1]) for batch in made}
        assert shapes == set(batches.shapes) and len(shapes) <= num_buckets
        assert all(len(batch.source_ids) % row_multiple == 0 for batch in made)
        assert all(batch.source_ids.size <= budgets[0] for batch in made)
        assert all(batch.target_ids.size <= budgets[1] for batch in made)
        assert all(side.dtype == np.int32 for batch in made for side in batch[:2])
        # No batch is empty, and only one shape may have a batch that is not full.
        assert all(rows_of(batch) for batch in made)
        not_full = [b for b in made if len(rows_of(b)) < len(b.source_ids)]
        assert len({b.source_ids.shape for b in not_full}) <= 1
        tokens = sum(int((side != PAD_ID).sum()) for batch in made for side in batch[:2])
        cells = sum(side.size for batch in made for side in batch[:2])
        assert batches.non_padding_share == tokens / cells


def test_epochs_have_different_orders_and_epochs_and_seeds_different_company():
    batches, other_seed = batches_of(RANDOM_LENGTHS), batches_of(RANDOM_LENGTHS, seed=1)
    runs = [epoch_of(batches, 0), epoch_of(batches, 1), epoch_of(other_seed, 0)]
    shapes = [[batch.source_ids.shape for batch in run] for run in runs]
    company = [{frozenset(rows_of(batch)) for batch in run} for run in runs]
    for a, b in itertools.combinations(range(3), 2):
        assert shapes[a] != shapes[b]
        assert len(company[a] & company[b]) < len(company[a]) / 2


def test_every_pair_changes_its_row_from_epoch_to_epoch():
    # One bucket alone: its pairs must be shuffled, too.
    batches = batches_of([(5, 5)] * 400, num_buckets=1)
    first, second = (rows_of(epoch_of(batches, epoch)[0]) for epoch in (0, 1))
    assert len(set(first) & set(second)) < len(first) / 2


def test_without_shuffling_all_epochs_keep_the_order_of_the_corpus():
    batches = batches_of(RANDOM_LENGTHS, shuffle=False)
    for first, second in zip(epoch_of(batches, 0), epoch_of(batches, 1), strict=True):
        assert_equal_batches(first, second)
    equal = batches_of([(5, 5)] * 150, shuffle=False, num_buckets=1)
    rows = itertools.chain.from_iterable(map(rows_of, epoch_of(equal, 0)))
    assert [row[0] for row in rows] == [
        source for source, _ in sorted(all_pairs(split_of([(5, 5)] * 150)))
    ]


def test_without_shuffling_pairs_handed_on_keep_their_place_among_the_others():
    # At least three tokens a side: then the first two tell the pair.
    batches = batches_of([(s + 2, t + 2) for s, t in RANDOM_LENGTHS], shuffle=False)
    pairs_of_shape = {}
    for batch in epoch_of(batches, 0):
        of_this_shape = pairs_of_shape.setdefault(
            (batch.source_ids.shape, batch.target_ids.shape), []
        )
        of_this_shape += [(source[0], source[1]) for source, _ in rows_of(batch)]
    assert len(pairs_of_shape) > 3
    assert all(pairs == sorted(pairs) for pairs in pairs_of_shape.values())


def test_batches_are_nearly_full():
    batches = batches_of(RANDOM_LENGTHS, source_tokens_per_batch=512, target_tokens_per_batch=512)
    rows = sum(len(batch.source_ids) for batch in epoch_of(batches, 0))
    assert 500 <= rows <= 510
    assert batches.non_padding_share > 0.75
    source_share, target_share = batches.non_padding_share_by_side
    assert min(source_share, target_share) <= batches.non_padding_share
    assert max(source_share, target_share) >= batches.non_padding_share


def test_a_corpus_smaller_than_a_batch_is_one_batch_of_few_rows():
    batches = batches_of([(4, 5), (6, 3), (2, 2)], row_multiple=4)
    assert batches.batches_per_epoch == 1
    assert batches.shapes == ((4, 6, 5),)


def test_more_buckets_never_mean_more_padding():
    shares = [batches_of(RANDOM_LENGTHS, num_buckets=k).non_padding_share for k in range(1, 10)]
    assert shares == sorted(shares)


def test_the_order_is_the_same_on_every_machine():
    # Written out: a new numpy must not change it, or resumed runs would differ.
    batches = batches_of([(3, 3)] * 10, num_buckets=1, source_tokens_per_batch=12)
    order = [[row[0][0] * 100 + row[0][1] - 404 for row in rows_of(batches[i])] for i in range(3)]
    assert order == [[3, 7, 4, 2], [9, 8, 1, 6], [5, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"source_tokens_per_batch": 39},
            r"source_tokens_per_batch=39 is too small: a batch has at least 2 rows of 20 tokens "
            r"\(the longest source sentence\), 40 in all",
        ),
        (
            {"target_tokens_per_batch": 7},
            r"rows of 4 tokens \(the longest target sentence\), 8 in all",
        ),
        ({"num_buckets": 0}, "num_buckets=0 must be at least 1"),
    ],
)
def test_a_mistake_is_told(changes, message):
    with pytest.raises(ValueError, match=message):
        batches_of([(20, 3), (3, 4)], **changes)


def test_the_largest_shape_may_get_no_pair():
    # The longest source and the longest target are in pairs of their own, of which none is over.
    lengths = [(2, 10)] * 8 + [(10, 2)] * 8
    batches = batches_of(
        lengths,
        source_tokens_per_batch=80,
        target_tokens_per_batch=80,
        num_buckets=3,
        row_multiple=8,
    )
    assert batches.shapes == ((8, 2, 10), (8, 10, 2))
    made = epoch_of(batches, 0)
    assert sorted(itertools.chain.from_iterable(map(rows_of, made))) == all_pairs(split_of(lengths))


def test_exactly_enough_tokens_for_the_longest_pair_are_enough():
    batches = batches_of([(20, 3), (3, 4)], source_tokens_per_batch=40, target_tokens_per_batch=8)
    assert batches.shapes == ((2, 20, 4),)


def test_a_class_is_a_target_of_one_token():
    lengths = [(int(length), 1) for length in np.random.default_rng(1).integers(1, 25, 300)]
    batches = batches_of(lengths, source_tokens_per_batch=256, target_tokens_per_batch=16)
    made = epoch_of(batches, 0)
    assert sorted(itertools.chain.from_iterable(map(rows_of, made))) == all_pairs(split_of(lengths))
    assert all(batch.target_ids.shape[1] == 1 for batch in made)
    assert max(len(batch.target_ids) for batch in made) == 16


def test_masks_leave_a_sentence_in_two_halves_whatever_the_batch():
    split = split_of([(int(length), int(length)) for length in RANDOM_LENGTHS_OF_ONE_SIDE])
    masking = Masking(rate=0.15, vocabulary_size=200, seed=3)

    def hidden(**changes):
        options = {"num_buckets": 3, "row_multiple": 1, "masking": masking} | changes
        found = []
        for batch in epoch_of(batches_of(split, **options), 1):
            assert batch.source_ids.shape == batch.target_ids.shape
            for source, target in zip(*batch[:2], strict=True):
                tokens = np.where(target != PAD_ID, target, source)
                if tokens.any():
                    found.append(
                        (tokens[tokens != PAD_ID].tolist(), np.flatnonzero(target).tolist())
                    )
        return sorted(found)

    sentences = sorted(list(source) for source, _ in all_pairs(split))
    assert [tokens for tokens, _ in hidden()] == sentences
    assert hidden() == hidden(row_multiple=4, num_buckets=1, shuffle=False, seed=9)
    assert hidden() != hidden(masking=masking._replace(seed=4))


@settings(max_examples=40)
@given(lengths=lengths_lists, max_shapes=st.integers(1, 6))
def test_the_cheapest_shape_is_the_one_a_plain_loop_finds(lengths, max_shapes):
    source, target = (np.array(side) for side in zip(*lengths, strict=True))
    histogram = length_histogram(source, target)
    cells = []
    for shapes in choose_shapes(histogram, max_shapes):
        edges = [(histogram.source_edges[i], histogram.target_edges[j]) for i, j in shapes]
        chosen = cheapest_shapes(histogram, shapes)
        total = 0
        for s, t in lengths:
            i, j = (
                np.searchsorted(histogram.source_edges, s),
                np.searchsorted(histogram.target_edges, t),
            )
            wide = edges[chosen[i, j]]
            assert s <= wide[0] and t <= wide[1]
            assert sum(wide) == min(a + b for a, b in edges if a >= s and b >= t)
            total += sum(wide)
        cells.append(total)
    assert cells == sorted(set(cells), reverse=True), "each further shape saves cells"


def test_two_shapes_are_placed_where_an_exhaustive_search_puts_them():
    source, target = (np.array(side) for side in zip(*RANDOM_LENGTHS, strict=True))
    *_, shapes = choose_shapes(length_histogram(source, target), 2)

    def num_cells(small):
        fits = (source <= small[0]) & (target <= small[1])
        return np.where(fits, sum(small), source.max() + target.max()).sum()

    best = min(num_cells((s, t)) for s in range(1, 25) for t in range(1, 25))
    histogram = length_histogram(source, target)
    i, j = shapes[0]
    assert num_cells((histogram.source_edges[i], histogram.target_edges[j])) == best


def test_hundreds_of_different_lengths_are_rounded_up():
    source = np.arange(1, 2001)
    histogram = length_histogram(source, source[::-1].copy())
    assert len(histogram.source_edges) == 128 and histogram.source_edges[-1] == 2000
    assert histogram.counts.sum() == 2000


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="no Multi30k beside the repository")
def test_multi30k_is_batched_with_little_padding(tmp_path):
    config = text_config(
        MULTI30K,
        dev="val",
        test="test2016",
        vocabulary_size=10_000,
        max_length=256,
        cache=str(tmp_path),
    )
    train = prepare(config, lambda line: None).splits["train"]
    budgets = {"source_tokens_per_batch": 4_096, "target_tokens_per_batch": 4_096}
    batches = batches_of(train, num_buckets=12, row_multiple=1, **budgets)
    # 0.909 is the best known for twelve shapes even if no batch had to be full.
    assert batches.non_padding_share > 0.9
    assert sum(len(batch.source_ids) for batch in epoch_of(batches, 0)) < 29_020


def test_what_is_handed_on_leaves_with_the_next_longer_sentences():
    batches = batches_of(
        [(3, 3)] * 33 + [(10, 10)] * 43 + [(24, 24)] * 7,
        num_buckets=3,
        source_tokens_per_batch=100,
        target_tokens_per_batch=100,
    )
    longest = [rows_of(batch) for batch in epoch_of(batches, 0) if batch.source_ids.shape[1] == 24]
    sizes = [len(source) for rows in longest for source, _ in rows]
    assert 3 not in sizes and 10 in sizes


@pytest.mark.parametrize("multiples", [(8, 8), (5, 3), (4, 1)])
def test_lengths_are_multiples_and_every_pair_still_comes_once(multiples):
    batches = batches_of(RANDOM_LENGTHS, length_multiples=multiples, num_buckets=12)
    for _, source, target in batches.shapes:
        assert (source % multiples[0], target % multiples[1]) == (0, 0)
    made = epoch_of(batches, 0)
    rows = itertools.chain.from_iterable(map(rows_of, made))
    assert sorted(rows) == all_pairs(split_of(RANDOM_LENGTHS))
    with pytest.raises(
        ValueError, match="source_tokens_per_batch=47 .* 2 rows of 24 tokens .*, 48"
    ):
        batches_of([(17, 3)] * 4, length_multiples=(8, 8), source_tokens_per_batch=47)


def _lengths_like_wmts():
    rng = np.random.default_rng(0)
    log_source = rng.normal(3.05, 0.65, 20_000)
    log_target = log_source + rng.normal(-0.02, 0.2, 20_000)
    return (1 + np.rint(np.exp(np.stack([log_source, log_target])))).clip(2, 256).astype(int)


def test_no_shape_that_is_chosen_would_save_more_elsewhere():
    source, target = (-(-_lengths_like_wmts() // 8) * 8).astype(np.int32)
    histogram = length_histogram(source, target)
    lengths = [np.asarray(edges) for edges in histogram[:2]]

    def num_cells(shapes):
        cells = np.full(histogram.counts.shape, np.iinfo(np.int64).max)
        for i, j in shapes:
            here = cells[: i + 1, : j + 1]
            np.minimum(here, lengths[0][i] + lengths[1][j], out=here)
        return int((cells * histogram.counts).sum())

    *_, shapes = choose_shapes(histogram, 5)
    fewest = num_cells(shapes)
    for moved in shapes[:-1]:
        others = [shape for shape in shapes if shape != moved]
        for place in itertools.product(*(range(len(each)) for each in lengths)):
            assert num_cells([*others, place]) >= fewest


@pytest.mark.parametrize(("num_pairs", "most", "multiple"), [(1_000, 96, 1), (1_000, 256, 8)])
def test_a_batch_has_the_rows_that_leave_the_fewest_pairs_over(num_pairs, most, multiple):
    rows = bucketed_batches._rows_with_least_over(num_pairs, most, multiple)
    assert rows % multiple == 0 and 0.9 * most - multiple < rows <= most
    others = [each for each in range(multiple, most + 1, multiple) if each >= 0.9 * most]
    assert num_pairs % rows == min(num_pairs % each for each in others) < num_pairs % most


def test_a_corpus_like_wmts_has_a_dozen_shapes_and_little_more_padding():
    sides = _lengths_like_wmts()
    split = split_of([tuple(pair) for pair in sides.T.tolist()])
    shares = {}
    for of in (1, 8, 128):
        batches = batches_of(
            split,
            length_multiples=(of, of),
            num_buckets=12,
            row_multiple=8,
            source_tokens_per_batch=25_000,
            target_tokens_per_batch=25_000,
        )
        shares[of] = batches.non_padding_share
        assert len(batches.shapes) <= (4 if of == 128 else 12)
    assert shares[1] - 0.06 < shares[8] < shares[1] and shares[8] > 0.7, shares


def test_shapes_of_more_cells_than_fit_in_32_bits_are_chosen_all_the_same():
    lengths = np.array([50, 256], np.int32)
    histogram = length_histogram(lengths, lengths, np.array([10_000_000, 1]))
    *_, shapes = choose_shapes(histogram, 2)
    assert shapes == [(0, 0), (1, 1)]
