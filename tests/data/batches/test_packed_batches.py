"""Packed batches: several pairs per row, none cut or lost, and hardly any padding."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_jax.data.batches import packed_rows
from t2t_jax.data.batches.batches import PackedBatches
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.batches.packed_rows import largest_first, pack
from t2t_jax.data.prepare.prepared import PreparedSplit
from t2t_jax.data.vocabulary.vocabulary import PAD_ID
from tests.data.splits import (
    RANDOM_LENGTHS,
    all_pairs,
    assert_equal_batches,
    epoch_of,
    lengths_lists,
    packed_rows_of,
    split_of,
)

# Many pairs of the same lengths: then a miniature of them has rows of its own.
alike_lists = st.lists(
    st.tuples(st.sampled_from([2, 7, 11]), st.sampled_from([3, 8])), min_size=1, max_size=120
)


def batches_of(lengths, **changes) -> PackedBatches:
    split = lengths if isinstance(lengths, PreparedSplit) else split_of(lengths)
    options = {
        "source_tokens_per_batch": 400,
        "target_tokens_per_batch": 300,
        "packed_length": 40,
        "row_multiple": 2,
        "seed": 0,
    }
    return PackedBatches(split, **options | changes)


def pairs_in(batches):
    """All pairs of some batches, sorted."""
    rows = itertools.chain.from_iterable(map(packed_rows_of, batches))
    return sorted(itertools.chain.from_iterable(rows))


def lengths_like_wmt(num_pairs, seed=0, target_to_source=1.0):
    """Lengths of both sides: log-normal, mean 27, correlation 0.94, from 2 to 256."""
    rng = np.random.default_rng(seed)
    log_source = rng.normal(3.05, 0.65, num_pairs)
    log_target = log_source + rng.normal(np.log(target_to_source) - 0.02, 0.2, num_pairs)
    sides = 1 + np.rint(np.exp(np.stack([log_source, log_target]))).astype(np.int32)
    source, target = sides[:, (sides.min(axis=0) > 1) & (sides.max(axis=0) <= 256)]
    return source, target


def share_of(source, target, source_room, target_room):
    """Share of tokens in the cells of the rows; checks that each pair lies in one, and fits."""
    cells, cell_of_pair = largest_first(source, target)
    rows = pack(cells, source_room, target_room)
    pairs, row_of_pair = rows.pairs_of(np.arange(rows.num_rows))
    by_cell = np.argsort(cell_of_pair, kind="stable")[pairs]
    np.testing.assert_array_equal(np.sort(by_cell), np.arange(len(source)))
    sums = [np.bincount(row_of_pair, side[by_cell]) for side in (source, target)]
    assert sums[0].max() <= source_room and sums[1].max() <= target_room
    assert sums[1].min() > 0
    return (source.sum() + target.sum()) / (rows.num_rows * (source_room + target_room))


@settings(max_examples=40)
@given(
    lengths=st.one_of(lengths_lists, alike_lists),
    packed_length=st.integers(24, 90),
    row_multiple=st.integers(1, 3),
    budgets=st.tuples(st.integers(2, 6), st.integers(2, 6)),
    shuffle=st.booleans(),
    pairs_of_miniature=st.sampled_from([10, 30, 1_000]),
)
def test_an_epoch_holds_each_pair_once_within_all_limits(
    lengths, packed_length, row_multiple, budgets, shuffle, pairs_of_miniature
):
    num_sources, num_targets = map(sum, zip(*lengths, strict=True))
    source_length = max(-(-packed_length * num_sources // num_targets), *(s for s, _ in lengths))
    budgets = (
        budgets[0] * row_multiple * source_length + 1,
        budgets[1] * row_multiple * packed_length + 1,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_rows, "_MINIATURE_PAIRS", pairs_of_miniature)
        batches = batches_of(
            lengths,
            packed_length=packed_length,
            row_multiple=row_multiple,
            source_tokens_per_batch=budgets[0],
            target_tokens_per_batch=budgets[1],
            shuffle=shuffle,
        )
    (shape,) = batches.shapes
    assert shape[1:] == (source_length, packed_length)
    assert shape.rows % row_multiple == 0
    for epoch in (0, 3):
        made = epoch_of(batches, epoch)
        assert pairs_in(made) == all_pairs(split_of(lengths))
        for batch in made:
            assert all(side.dtype == np.int32 for side in batch)
            assert batch.source_ids.shape == batch.source_segments.shape == shape[:2]
            assert batch.target_ids.shape == batch.target_segments.shape == (shape[0], shape[2])
            assert batch.source_ids.size <= budgets[0] and batch.target_ids.size <= budgets[1]
            assert batch.target_ids.any(), "no batch is empty"
        cells = sum(side.size for batch in made for side in batch[:2])
        tokens = sum(int((side != PAD_ID).sum()) for batch in made for side in batch[:2])
        assert batches.non_padding_share == pytest.approx(tokens / cells)


def test_epochs_and_seeds_have_different_company_and_order():
    # Few different lengths: then many pairs can take one another's place.
    lengths = [(4 + p % 3, 5 + p % 2) for p in range(600)]
    batches, other_seed = batches_of(lengths), batches_of(lengths, seed=1)
    rows = []
    for some, epoch in ((batches, 0), (batches, 1), (other_seed, 0)):
        made = itertools.chain.from_iterable(map(packed_rows_of, epoch_of(some, epoch)))
        rows.append([frozenset(row) for row in made if row])
    for one, other in itertools.combinations(rows, 2):
        assert len(set(one) & set(other)) < len(one) / 10


def test_rows_come_in_another_order_where_no_pair_can_change_its_row():
    lengths = [(p, p) for p in range(1, 25)]
    first, second = (epoch_of(batches_of(lengths), epoch) for epoch in (0, 1))
    in_order = [
        list(itertools.chain.from_iterable(map(packed_rows_of, made))) for made in (first, second)
    ]
    assert in_order[0] != in_order[1]
    assert sorted(in_order[0]) == sorted(in_order[1])


def test_without_shuffling_all_epochs_are_the_same():
    batches = batches_of(RANDOM_LENGTHS, shuffle=False)
    for first, second in zip(epoch_of(batches, 0), epoch_of(batches, 1), strict=True):
        assert_equal_batches(first, second)


def test_the_rows_are_the_same_on_every_machine():
    # Written out: a new numpy must not change them, or resumed runs would differ.
    batches = batches_of([(3, 3), (4, 3), (3, 4)] * 4, packed_length=10, row_multiple=1)
    # The second token of a source tells its pair.
    order = [[[s[1] - 4 for s, _ in row] for row in packed_rows_of(batches[i])] for i in range(2)]
    assert order == [
        [[5, 1, 6], [2, 7, 3], [8, 4, 0], [11, 10, 9]],
        [[11, 7, 6], [5, 10, 3], [8, 4, 0], [2, 1, 9]],
    ]


@pytest.mark.parametrize("target_to_source", [0.95, 1.0, 1.05])
def test_rows_of_lengths_like_wmt_are_nearly_full(target_to_source):
    source, target = lengths_like_wmt(100_000, target_to_source=target_to_source)
    assert 25 < source.mean() < 29 and np.corrcoef(source, target)[0, 1] > 0.9
    source_room = max(-(-256 * int(source.sum()) // int(target.sum())), int(source.max()))
    # Above 1, source rows can be no shorter than the longest source, hence never quite full.
    assert share_of(source, target, source_room, 256) > (0.99 if target_to_source <= 1 else 0.972)


def test_rows_made_from_a_miniature_are_nearly_full(monkeypatch):
    monkeypatch.setattr(packed_rows, "_MINIATURE_PAIRS", 10_000)
    source, target = lengths_like_wmt(100_000)
    cells, _ = largest_first(source, target)
    rows = pack(cells, 257, 256)
    num_kinds = len(rows.kind_starts) - 1
    assert num_kinds < rows.num_rows / 2
    assert share_of(source, target, 257, 256) > 0.98


def test_pairs_with_long_sources_and_with_long_targets_are_mixed():
    source = np.repeat(np.array([10, 30], np.int32), 500)
    assert share_of(source, source[::-1].copy(), 200, 200) == 1.0


def test_gaps_are_closed_by_pairs_that_fit_exactly():
    # 9 + 1, 8 + 2, 7 + 3, 6 + 4: emptiest first alone would put 4 to 3.
    lengths = np.array([9, 8, 7, 6, 4, 3, 2, 1], np.int32)
    assert share_of(lengths, lengths, 10, 10) == 1.0


def test_a_row_beyond_the_last_is_empty():
    cells, _ = largest_first(np.array([3, 4], np.int32), np.array([3, 4], np.int32))
    rows = pack(cells, 4, 4)
    pairs, row_of_pair = rows.pairs_of(np.array([7, 1, 2, 0]))
    assert (pairs.tolist(), row_of_pair.tolist()) == ([1, 0], [1, 3])


def test_masks_leave_a_sentence_in_two_halves_whatever_its_row():
    lengths = np.random.default_rng(7).integers(3, 25, 200)
    split = split_of([(length, length) for length in lengths])
    masking = Masking(rate=0.15, vocabulary_size=200, seed=3)

    def hidden(**changes):
        options = {"masking": masking, "packed_length": 60} | changes
        found = []
        for batch in epoch_of(batches_of(split, **options), 1):
            np.testing.assert_array_equal(batch.source_segments, batch.target_segments)
            tokens = np.where(batch.target_ids != PAD_ID, batch.target_ids, batch.source_ids)
            for row, row_of_targets in enumerate(batch.target_ids):
                for k in range(1, batch.source_segments[row].max() + 1):
                    place = batch.source_segments[row] == k
                    is_hidden = np.flatnonzero(row_of_targets[place])
                    found.append((tokens[row, place].tolist(), is_hidden.tolist()))
        return sorted(found)

    assert [tokens for tokens, _ in hidden()] == [list(source) for source, _ in all_pairs(split)]
    assert hidden() == hidden(row_multiple=3, packed_length=30, shuffle=False, seed=9)
    assert hidden() != hidden(masking=masking._replace(seed=4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"packed_length": 19},
            "packed_length=19 is less than the 20 tokens of the longest target: it must be at "
            "least as many",
        ),
        (
            {"target_tokens_per_batch": 79},
            r"target_tokens_per_batch=79 is too small: a batch has at least 2 rows of 40 "
            r"tokens \(a packed target\), 80 in all",
        ),
        (
            {"source_tokens_per_batch": 79},
            # As long as a target's row: there are as many source as target tokens.
            r"source_tokens_per_batch=79 is too small: .* 2 rows of 40 tokens .a packed source.",
        ),
    ],
)
def test_a_mistake_is_told(changes, message):
    with pytest.raises(ValueError, match=message):
        batches_of([(3, 20), (20, 4), (5, 4)], **changes)


def test_rows_are_as_long_as_a_multiple():
    batches = batches_of(RANDOM_LENGTHS, length_multiples=(8, 16))
    [(_, source, target)] = batches.shapes
    assert source % 8 == 0 and target == 48  # of 40 tokens
    assert pairs_in(epoch_of(batches, 0)) == all_pairs(split_of(RANDOM_LENGTHS))
