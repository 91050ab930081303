"""Rows of a table by id, with a reproducible gradient.

A GPU adds the gradients of a row in the order in which its threads arrive, and floating-point sums
depend on their order (jax-ml/jax#13672). On a GPU they are therefore sorted by id first.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


@jax.custom_vjp
def look_up(
    table: Float[Array | np.ndarray, "rows D"], ids: Int[Array | np.ndarray, "*shape"]
) -> Float[Array, "*shape D"]:
    """The rows of `table` that `ids` name."""
    return jnp.take(table, ids, axis=0)


def _forward(table, ids):
    # Only the table's shape and type are needed; keeping a reference costs nothing.
    return jnp.take(table, ids, axis=0), (table, ids)


def _backward(kept, grads):
    table, ids = kept
    if jax.default_backend() == "gpu":
        return sum_by_id(grads.reshape(-1, grads.shape[-1]), ids.reshape(-1), len(table)), None
    _, as_they_come = jax.vjp(lambda table: jnp.take(table, ids, axis=0), table)
    return *as_they_come(grads), None


look_up.defvjp(_forward, _backward)


def sum_by_id(
    values: Float[Array, "N D"], ids: Int[Array, " N"], num_rows: int
) -> Float[Array, "rows D"]:
    """The sum of the values of each id below `num_rows`, always added in the same order.

    Sorts by id, then takes a running sum that restarts at each id: its last entry is the sum. Each
    row receives at most one of these.
    """
    places = jnp.arange(len(ids))
    ids, order = jax.lax.sort((ids, places), num_keys=1)
    values = jnp.take(values, order, axis=0, mode="clip")
    is_first = jnp.concatenate([jnp.ones(1, bool), ids[1:] != ids[:-1]])
    is_last = jnp.roll(is_first, -1)

    def add(left, right):
        (left_begins, left_sum), (right_begins, right_sum) = left, right
        return left_begins | right_begins, jnp.where(right_begins, right_sum, left_sum + right_sum)

    _, sums = jax.lax.associative_scan(add, (is_first[:, None], values))
    rows = jnp.where(is_last, ids, num_rows + places)  # partial sums go outside the table
    sums_by_row = jnp.zeros((num_rows, values.shape[1]), values.dtype)
    return sums_by_row.at[rows].set(sums, mode="drop", unique_indices=True)
