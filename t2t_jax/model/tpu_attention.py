"""Attention on a TPU, one batch row at a time: its scores stay on the chip.

FlashAttention (Dao et al. 2022) processes long rows in blocks, and stores sums for its backward
pass that are as large as the weights of rows of 256. A translator's rows fit whole: nothing is
stored, and the backward pass recomputes the weights.

Axes: B batch, T query positions, S key positions, H heads, K d_k. In memory H and K are one axis W:
a TPU pads the last axis of an array to 128.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int8

from t2t_jax.model.masks import MASKED_SCORE

_LANES = 128
_MEMORY = 14 * 2**20  # on-chip bytes that a row may take; the compiler allows 16 MiB on a v4


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def attend_by_row(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H K"],
    mask: Bool[Array, "#B #T S"],
    divisor: float,
) -> Float[Array, "B T H K"]:
    """Equation 1; on a TPU a kernel if a row fits on the chip, else einsum."""
    return jax.lax.platform_dependent(
        *(query, key, value, mask),
        tpu=partial(kernel_or_not, divisor=divisor),
        default=partial(_by_einsum, divisor=divisor),
    )


def kernel_or_not(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H K"],
    mask: Bool[Array, "#B #T S"],
    divisor: float,
) -> Float[Array, "B T H K"]:
    """The forward pass on a TPU."""
    if not fits(query.shape[1], *key.shape[1:]):
        return _by_einsum(query, key, value, mask, divisor)
    [heads] = _call(_forward_kernel, [query, key, value], mask, [query], divisor, num_products=2)
    return heads


def gradients_by_kernel_or_not(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H K"],
    mask: Bool[Array, "#B #T S"],
    grad: Float[Array, "B T H K"],
    divisor: float,
) -> tuple[Float[Array, "B T H K"], Float[Array, "B S H K"], Float[Array, "B S H K"]]:
    """The backward pass on a TPU: the gradients of query, key and value."""
    if not fits(query.shape[1], *key.shape[1:]):
        return _gradients_by_einsum(query, key, value, mask, grad, divisor)
    arrays, outputs = [query, key, value, grad], [query, key, value]
    of_query, of_key, of_value = _call(
        _backward_kernel, arrays, mask, outputs, divisor, num_products=5
    )
    return of_query, of_key, of_value


def _forward(query: Array, key: Array, value: Array, mask: Array, divisor: float):
    kept = (query, key, value, mask)
    return attend_by_row(*kept, divisor), kept


def _backward(divisor: float, kept: tuple[Array, ...], grad: Array):
    gradients = jax.lax.platform_dependent(
        *(*kept, grad),
        tpu=partial(gradients_by_kernel_or_not, divisor=divisor),
        default=partial(_gradients_by_einsum, divisor=divisor),
    )
    return *gradients, None


attend_by_row.defvjp(_forward, _backward)


def _by_einsum(query: Array, key: Array, value: Array, mask: Array, divisor: float) -> Array:
    return jax.nn.dot_product_attention(
        query, key, value, mask=mask[:, None], scale=1 / divisor, implementation="xla"
    )


def _gradients_by_einsum(
    query: Array, key: Array, value: Array, mask: Array, grad: Array, divisor: float
) -> tuple[Array, Array, Array]:
    def attend(*of_row: Array) -> Array:
        return _by_einsum(*of_row, mask=mask, divisor=divisor)

    return jax.vjp(attend, query, key, value)[1](grad)


def fits(length: int, num_keys: int, num_heads: int, d_k: int) -> bool:
    """Whether the backward pass of a row in bfloat16 fits on the chip.

    The bound exceeds the compiler's observed need, which grows with the heads computed side by
    side; `make tpu-check` compiles rows at the bound for every chip.
    """
    # Three arrays of queries and four of keys, double-buffered.
    in_blocks = 2 * 2 * num_heads * d_k * (3 * length + 4 * num_keys)
    of_scores = (18 + 3 * _heads_together(num_heads, d_k)) * length * num_keys
    return in_blocks + of_scores <= _MEMORY


def _heads_together(num_heads: int, d_k: int) -> int:
    """The fewest heads that fill whole lanes, or all."""
    fewest = math.lcm(d_k, _LANES) // d_k
    return num_heads if num_heads % fewest else fewest


def _call(
    kernel: Callable,
    arrays: Sequence[Float[Array, "B _ H K"]],
    mask: Bool[Array, "#B #T S"],
    outputs: Sequence[Float[Array, "B _ H K"]],
    divisor: float,
    *,
    num_products: int,
) -> list[Array]:
    """A kernel's results for each row of `arrays`, shaped like `outputs`."""
    num_rows, length, num_heads, d_k = arrays[0].shape
    flat = [x.reshape(*x.shape[:2], -1) for x in arrays]
    made = [jax.ShapeDtypeStruct((*x.shape[:2], num_heads * d_k), x.dtype) for x in outputs]
    narrow = mask.astype(jnp.int8)
    num_scores = num_rows * num_heads * length * mask.shape[-1]
    found = pl.pallas_call(
        partial(kernel, num_heads=num_heads, divisor=divisor),
        grid=(num_rows,),
        in_specs=list(map(_row_of, [narrow, *flat])),
        out_specs=list(map(_row_of, made)),
        out_shape=made,
        cost_estimate=pl.CostEstimate(
            flops=2 * num_products * num_scores * d_k,
            transcendentals=num_scores,
            bytes_accessed=sum(x.size * x.dtype.itemsize for x in [narrow, *flat, *made]),
        ),
    )(narrow, *flat)
    return [x.reshape(like.shape) for x, like in zip(found, outputs, strict=True)]


def _row_of(x: Int8[Array, "..."] | Float[Array, "..."] | jax.ShapeDtypeStruct) -> pl.BlockSpec:
    """Row b in call b; a single row is used in every call."""
    return pl.BlockSpec((1, *x.shape[1:]), lambda b: (b if x.shape[0] > 1 else 0, 0, 0))


def _forward_kernel(mask, query, key, value, heads, *, num_heads: int, divisor: float) -> None:
    seen = mask[0].astype(jnp.int32) != 0

    def attend(q, k, v):
        return (_dot(_weights(q, k, seen, divisor).astype(v.dtype), v, 1, 0),)

    _for_each_head(attend, [query, key, value], [heads], num_heads)


def _backward_kernel(
    mask, query, key, value, grad, of_query, of_key, of_value, *, num_heads: int, divisor: float
) -> None:
    seen = mask[0].astype(jnp.int32) != 0

    def differentiate(q, k, v, g):
        weights = _weights(q, k, seen, divisor)
        of_weights = _dot(g, v, 1, 1)
        mean = (weights * of_weights).sum(-1, keepdims=True)
        of_scores = jnp.where(seen, weights * (of_weights - mean) / divisor, 0).astype(q.dtype)
        of_v = _dot(weights.astype(g.dtype), g, 0, 0)
        return _dot(of_scores, k, 1, 0), _dot(of_scores, q, 0, 0), of_v

    arrays, outputs = [query, key, value, grad], [of_query, of_key, of_value]
    _for_each_head(differentiate, arrays, outputs, num_heads)


def _weights(q: Array, k: Array, seen: Array, divisor: float) -> Array:
    return jax.nn.softmax(jnp.where(seen, _dot(q, k, 1, 1) / divisor, MASKED_SCORE))


def _dot(x: Array, y: Array, axis_of_x: int, axis_of_y: int) -> Array:
    """The sum over these axes, in float32."""
    axes = ((axis_of_x,), (axis_of_y,)), ((), ())
    # Ignores `devices.matmul_precision`: a product of two bfloat16 is exact in one pass.
    precision = jax.lax.Precision.DEFAULT
    return jax.lax.dot_general(x, y, axes, precision, preferred_element_type=jnp.float32)


def _for_each_head(compute: Callable, arrays: Sequence, outputs: Sequence, num_heads: int) -> None:
    """Writes the results of `compute` for each head."""
    d_k = arrays[0].shape[-1] // num_heads
    together = _heads_together(num_heads, d_k)
    width = together * d_k

    def group(index, _):
        start = pl.multiple_of(index * width, _LANES) if together < num_heads else 0
        lanes = pl.ds(start, width)
        by_head = zip(*(jnp.split(x[0, :, lanes], together, -1) for x in arrays), strict=True)
        found = zip(*(compute(*head) for head in by_head), strict=True)
        for output, parts in zip(outputs, found, strict=True):
            output[0, :, lanes] = jnp.concatenate(parts, -1).astype(output.dtype)

    jax.lax.fori_loop(0, num_heads // together, group, None)
