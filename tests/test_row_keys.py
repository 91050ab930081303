"""Parts of the rows draw the same as the whole batch."""

import jax
import jax.numpy as jnp
import numpy as np

from t2t_jax import row_keys


def test_each_part_of_the_rows_draws_its_part_of_the_whole():
    key = jax.random.key(7)

    def drawn(key, num_rows):
        return jax.random.uniform(jax.random.fold_in(key, 3), (num_rows, 5, 3))

    parts = [drawn(row_keys.of_part(key, jnp.asarray(part)), 2) for part in range(4)]
    np.testing.assert_array_equal(np.concatenate(parts), drawn(key, 8))
