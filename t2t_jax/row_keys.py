"""Random keys for a part of a batch's rows: what they draw is that part of the whole batch's.

The bits of Threefry (Salmon et al. 2011) are a function of a key and of an element's number. A
key of this file says besides which of several equal parts of the rows are at hand, and so with
which number their elements begin. Dropout then does not depend on how devices share a batch.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import random as extended
from jaxtyping import Array, Int, Key, UInt32


def of_part(key: Key[Array, ""], part: Int[Array, ""]) -> Key[Array, ""]:
    """`key`, for arrays whose first axis is the `part`-th of equal parts of the rows."""
    words = [*jax.random.key_data(key), part.astype(jnp.uint32)]
    return jax.random.wrap_key_data(jnp.stack(words), impl=_IMPLEMENTATION)


def _random_bits(key: UInt32[Array, "3"], bit_width: int, shape: tuple[int, ...]) -> Array:
    assert bit_width == 32 and math.prod(shape) < 2**32
    low = key[2] * jnp.uint32(math.prod(shape))
    for axis in range(len(shape)):
        stride = jnp.uint32(math.prod(shape[axis + 1 :]))
        low += stride * jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    first, second = extended.threefry2x32_p.bind(key[0], key[1], jnp.zeros_like(low), low)
    return first ^ second


def _fold_in(key: UInt32[Array, "3"], data: Any) -> UInt32[Array, "3"]:
    folded = extended.threefry_prng_impl.fold_in(key[:2], data)
    return jnp.concatenate([folded, key[2:]])


def _not_needed(*_):
    raise NotImplementedError("keys of parts are made of others, and not split")


_IMPLEMENTATION = extended.define_prng_impl(
    key_shape=(3,),
    seed=_not_needed,
    split=_not_needed,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32 of a part of the rows",
    tag="part",
)
