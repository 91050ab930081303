"""Parts of the rows draw the same as the whole batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax import row_keys


def test_each_part_of_the_rows_draws_its_part_of_the_whole():
    key = jax.random.key(7)

    def drawn(key, num_rows):
        return jax.random.uniform(jax.random.fold_in(key, 3), (num_rows, 5, 3))

    parts = [drawn(row_keys.of_part(key, jnp.asarray(part)), 2) for part in range(4)]
    np.testing.assert_array_equal(np.concatenate(parts), drawn(key, 8))


@pytest.mark.parametrize(
    ("part", "largest_block"),
    [
        *((part, block) for part in (0, 3) for block in (2**32, 16, 6, 2)),
        # The numbers of the first cross the end of a word.
        *((part, block) for part in (71_582_788, 71_582_789) for block in (2**32, 16, 6)),
        (2**32 - 1, 2**32),
    ],
)
def test_elements_are_numbered_in_two_words(part, largest_block, monkeypatch):
    monkeypatch.setattr(row_keys, "_WORDS", largest_block)
    shape = (4, 3, 5)
    high, low = row_keys._numbers(jnp.uint32(part), shape)
    expected = part * 60 + np.arange(60, dtype=np.uint64).reshape(shape)
    found = np.asarray(high, np.uint64) << np.uint64(32) | np.asarray(low, np.uint64)
    np.testing.assert_array_equal(found, expected)


def test_one_device_may_draw_more_than_a_word_counts():
    key = row_keys.of_part(jax.random.key(7), jnp.asarray(1))
    drawn = jax.eval_shape(lambda: jax.random.bits(key, (2**17, 2**16)))
    assert drawn.shape == (2**17, 2**16)
