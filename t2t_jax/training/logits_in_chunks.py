"""A loss that holds logits one chunk at a time, since those of a whole batch may not fit.

Axes: B batch, T target positions, D d_model.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.model.embedding import table_logits

# (logits, target_ids) -> a NamedTuple of sums over tokens, one of them `loss`.
OfLogits = Callable[[Float[Array, "B T vocab"], Int[Array, "B T"]], Any]


@partial(jax.custom_vjp, nondiff_argnums=(0, 4, 5))
def sums_over_chunks(
    of_logits: OfLogits,
    x: Float[Array, "B T D"],
    table: Float[Array, "vocab D"],
    target_ids: Int[Array, "B T"],
    tokens_per_chunk: int,
    dtype: DTypeLike = jnp.float32,
) -> Any:
    """`of_logits` of the logits x table^T, holding only one chunk at a time.

    The gradient with respect to `x` and `table` is computed along with the sums, chunk by chunk, so
    that logits are neither stored nor recomputed. Only `loss` has a gradient. `dtype` is that of
    `table_logits`.
    """

    def of_chunk(x, target_ids):
        return of_logits(table_logits(x, table, dtype), target_ids), None

    return _add_up(of_chunk, _chunks(x, target_ids, tokens_per_chunk))[0]


def _forward(of_logits, x, table, target_ids, tokens_per_chunk, dtype):
    def loss(logits, target_ids):
        sums = of_logits(logits, target_ids)
        return sums.loss, sums

    def of_chunk(x, target_ids):
        logits, pulled_back = jax.vjp(partial(table_logits, dtype=dtype), x, table)
        logits_grad, sums = jax.grad(loss, has_aux=True)(logits, target_ids)
        x_grad, table_grad = pulled_back(logits_grad)
        return (sums, table_grad), x_grad

    (sums, table_grad), x_grads = _add_up(of_chunk, _chunks(x, target_ids, tokens_per_chunk))
    # chunks B t D -> B T D
    x_grad = jnp.moveaxis(x_grads, 0, 1).reshape(x.shape[0], -1, x.shape[2])[:, : x.shape[1]]
    return sums, (x_grad, table_grad)


def _backward(of_logits, tokens_per_chunk, dtype, grads, cotangent):
    x_grad, table_grad = grads
    scale = cotangent.loss
    return x_grad * scale.astype(x_grad.dtype), table_grad * scale, None


sums_over_chunks.defvjp(_forward, _backward)


def _add_up(of_chunk: Callable, chunks: tuple[Array, ...]) -> tuple[PyTree, PyTree]:
    """The sum of the first results of `of_chunk`, and the second result of each chunk."""

    def add(total, chunk):
        sums, rest = of_chunk(*chunk)
        return jax.tree.map(jnp.add, total, sums), rest

    sums, _ = jax.eval_shape(of_chunk, *(array[0] for array in chunks))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), sums)
    return jax.lax.scan(add, nothing, chunks)


def _chunks(
    x: Float[Array, "B T D"], target_ids: Int[Array, "B T"], tokens_per_chunk: int
) -> tuple[Float[Array, "chunks B t D"], Int[Array, "chunks B t"]]:
    """Slices along T: B may be smaller than the number of chunks."""
    rows, length, _ = x.shape
    wanted = -(-rows * length // tokens_per_chunk)
    slice_length = -(-length // wanted)
    num_slices = -(-length // slice_length)
    padding = (0, num_slices * slice_length - length)
    x = jnp.pad(x, ((0, 0), padding, (0, 0)))
    target_ids = jnp.pad(target_ids, ((0, 0), padding))
    sliced = (rows, num_slices, slice_length)
    return (
        jnp.moveaxis(x.reshape(*sliced, -1), 1, 0),
        jnp.moveaxis(target_ids.reshape(sliced), 1, 0),
    )
