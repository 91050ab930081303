"""Masked tokens: how many, which, their replacements, and their reproducibility."""

import numpy as np
import pytest

from t2t_jax.data.batches import masking
from t2t_jax.data.batches.masking import Masking
from t2t_jax.data.vocabulary.vocabulary import END_ID, MASK_ID, PAD_ID, START_ID

MASKING = Masking(rate=0.15, vocabulary_size=1_000, seed=0)


def rows_of(lengths, width=None):
    """Rows of start, so many random tokens, end and padding."""
    rng = np.random.default_rng(0)
    ids = np.full((len(lengths), width or max(lengths) + 2), PAD_ID, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        tokens = rng.integers(MASK_ID + 1, MASKING.vocabulary_size, length)
        row[: length + 2] = [START_ID, *tokens, END_ID]
    return ids


def masked(ids, sentences, epoch, settings):
    """`masking.masked` of padded rows, one sentence in each."""
    is_token = ids != PAD_ID
    halves = masking.masked(ids[is_token], is_token.sum(axis=1), sentences, epoch, settings)
    rows = np.full((2, *ids.shape), PAD_ID, ids.dtype)
    rows[:, is_token] = halves
    return rows


LENGTHS = [1, 2, 3, 10, 20, 40]
IDS = rows_of(LENGTHS)
SENTENCES = np.arange(len(LENGTHS))


def test_the_share_of_each_sentence_is_hidden_and_at_least_one_token():
    source, target = masked(IDS, SENTENCES, 0, MASKING)
    assert (target != PAD_ID).sum(axis=1).tolist() == [1, 1, 1, 2, 3, 6]
    assert source.dtype == target.dtype == np.int32


def test_the_target_tells_what_was_hidden_and_the_rest_of_the_source_stays():
    source, target = masked(IDS, SENTENCES, 0, MASKING)
    is_hidden = target != PAD_ID
    np.testing.assert_array_equal(target[is_hidden], IDS[is_hidden])
    np.testing.assert_array_equal(source[~is_hidden], IDS[~is_hidden])


def test_start_end_and_padding_are_never_hidden():
    source, target = masked(IDS, SENTENCES, 0, MASKING._replace(rate=0.99))
    is_reserved = np.isin(IDS, (PAD_ID, START_ID, END_ID))
    np.testing.assert_array_equal(source[is_reserved], IDS[is_reserved])
    assert not target[is_reserved].any()
    assert (target != PAD_ID).sum() == sum(LENGTHS)


def test_of_ten_hidden_tokens_eight_are_masks_one_is_another_and_one_stays():
    ids = rows_of([100] * 400)
    source, target = masked(ids, np.arange(400), 0, MASKING._replace(rate=0.5))
    is_hidden = target != PAD_ID
    shown, hidden = source[is_hidden], ids[is_hidden]
    kept, is_mask = (shown == hidden).mean(), (shown == MASK_ID).mean()
    # Of 20,000 tokens; a standard deviation is below 0.003.
    assert is_mask == pytest.approx(0.8, abs=0.012)
    assert kept == pytest.approx(0.1, abs=0.01)
    others = shown[(shown != hidden) & (shown != MASK_ID)]
    assert others.min() > MASK_ID and others.max() < MASKING.vocabulary_size
    assert len(np.unique(others)) > 800
    # Every place is as likely as another.
    by_place = is_hidden[:, 1:101].mean(axis=0)
    assert 0.35 < by_place.min() and by_place.max() < 0.65


def test_masks_are_the_same_again_and_others_with_another_seed_epoch_or_sentence():
    first = masked(IDS, SENTENCES, 3, MASKING)
    for again, other in zip(first, masked(IDS, SENTENCES, 3, MASKING), strict=True):
        np.testing.assert_array_equal(again, other)
    for others in (
        masked(IDS, SENTENCES, 4, MASKING),
        masked(IDS, SENTENCES, 3, MASKING._replace(seed=1)),
        masked(IDS, SENTENCES + 9, 3, MASKING),
    ):
        assert (first[1] != others[1]).any()


def test_the_masks_of_a_sentence_do_not_depend_on_its_batch():
    source, target = masked(IDS, SENTENCES, 2, MASKING)
    wider = rows_of(LENGTHS, width=60)[::-1].copy()
    other_source, other_target = masked(wider, SENTENCES[::-1].copy(), 2, MASKING)
    width = IDS.shape[1]
    np.testing.assert_array_equal(other_source[::-1, :width], source)
    np.testing.assert_array_equal(other_target[::-1, :width], target)


def test_masks_are_the_same_on_every_machine():
    # Written out: a new numpy must not change them, or resumed runs would differ.
    ids = np.array([[START_ID, 10, 11, 12, 13, 14, 15, END_ID]], np.int32)
    _, target = masked(ids, np.array([7]), 0, MASKING._replace(rate=0.5))
    assert np.flatnonzero(target[0]).tolist() == [1, 2, 5]
    many = np.array([[START_ID, *range(10, 26), END_ID]], np.int32)
    source, target = masked(many, np.array([7]), 0, MASKING._replace(rate=0.9))
    hidden = [1, 2, *range(5, 17)]
    assert np.flatnonzero(target[0]).tolist() == hidden
    # All three fates: mostly the mask (4), at 6 and 12 another token, at 7 and 11 the same.
    assert source[0][hidden].tolist() == [4, 4, 4, 232, 16, 4, 4, 4, 20, 938, 4, 4, 4, 4]


def test_nothing_has_nothing_to_hide():
    source, target = masked(np.zeros((2, 5), np.int32), np.array([0, 1]), 0, MASKING)
    assert not source.any() and not target.any()


def test_a_sentence_without_text_stays():
    source, target = masked(np.array([[START_ID, END_ID]], np.int32), np.array([4]), 0, MASKING)
    assert source.tolist() == [[START_ID, END_ID]] and not target.any()
