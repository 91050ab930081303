import numpy as np
import pytest

from t2t_jax.decoding.length_batches import LengthBatch, batches_by_length, worked_ahead

LENGTHS = [3, 40, 0, 17, 16, 1, 0, 64, 5, 33, 2]


def test_every_text_with_tokens_is_in_one_batch_that_it_fits_in():
    batches = list(batches_by_length(LENGTHS, tokens_per_batch=128))
    places = [place for batch in batches for place in batch.places]
    assert sorted(places) == [0, 1, 3, 4, 5, 7, 8, 9, 10]
    for batch in batches:
        assert len(batch.places) <= batch.num_rows
        assert batch.num_rows * batch.length <= 128
        assert all(LENGTHS[place] <= batch.length for place in batch.places)


def test_the_longest_come_first_and_shapes_are_few():
    batches = list(batches_by_length(range(1, 65), tokens_per_batch=256))
    lengths = [batch.length for batch in batches]
    assert lengths == sorted(lengths, reverse=True)
    assert {(batch.num_rows, batch.length) for batch in batches} == {(4, 64), (8, 32), (16, 16)}


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (4, 16)),  # three texts, not the 25 rows that there is room for
        ({"row_multiple": 3}, (6, 16)),
        ({"extra_length": 184}, (2, 16)),
        ({"tokens_per_batch": 1}, (1, 16)),
        ({"tokens_per_batch": 1, "row_multiple": 8}, (8, 16)),
        ({"max_length": 9}, (4, 9)),
    ],
)
def test_the_shape_of_a_batch(options, shape):
    options = {"tokens_per_batch": 400} | options
    batch = next(batches_by_length([2, 9, 4], **options))
    assert (batch.num_rows, batch.length) == shape


@pytest.mark.parametrize(
    ("num_texts", "num_rows"),
    [(1, 1), (3, 4), (9, 16), (97, 104), (255, 256), (257, 144), (619, 208), (768, 256)],
)
def test_texts_are_spread_evenly_over_as_few_batches_as_possible(num_texts, num_rows):
    batches = list(batches_by_length([9] * num_texts, tokens_per_batch=256 * 16))
    assert {batch.num_rows for batch in batches} == {num_rows}
    assert len(batches) == -(-num_texts // 256)


@pytest.mark.parametrize(
    ("num_texts", "known", "num_rows"),
    [
        (710, [224, 256], 256),  # 3 batches, not 4
        (710, [240, 256], 240),  # 3 batches of either
        (256, [128, 256], 256),
        (5, [8, 240], 8),
        (5, [240], 240),
        (710, [232], 232),  # 4 batches, not 3 of a new shape
        (710, [176], 240),  # not 5
        (10_000, [128], 256),
    ],
)
def test_a_compiled_shape_is_used_if_it_takes_one_more_batch_at_most(num_texts, known, num_rows):
    shapes = {(rows, 16) for rows in known}
    options = {"tokens_per_batch": 256 * 16, "shapes": shapes}
    assert next(batches_by_length([9] * num_texts, **options)).num_rows == num_rows


def test_chunks_of_any_number_of_texts_have_few_shapes():
    shapes = set()
    for num_texts in np.random.default_rng(0).integers(1, 1_000, 500):
        list(batches_by_length([9] * num_texts, tokens_per_batch=256 * 16, shapes=shapes))
    assert len(shapes) <= 3


def test_shapes_that_are_compiled_are_used_again_where_texts_fit_in():
    shapes = set()
    for lengths in ([3] * 20, [3] * 7, [3] * 9, [17], [3] * 100):
        found = list(batches_by_length(lengths, tokens_per_batch=800, shapes=shapes))
        assert sum(len(batch.places) for batch in found) == len(lengths)
        assert all(len(batch.places) <= batch.num_rows for batch in found)
        assert {(batch.num_rows, batch.length) for batch in found} <= shapes
    assert shapes == {(24, 16), (1, 32), (50, 16)}


def test_one_batch_is_in_work_while_another_is_looked_at():
    batches = [LengthBatch([place], 1, 16) for place in range(3)]
    events = []

    def start(batch):
        events.append(("start", batch.places[0]))
        return -batch.places[0]

    for batch, result in worked_ahead(batches, start):
        assert result == -batch.places[0]
        events.append(("look", batch.places[0]))
    assert events == [
        ("start", 0),
        ("start", 1),
        ("look", 0),
        ("start", 2),
        ("look", 1),
        ("look", 2),
    ]
