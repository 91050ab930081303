"""Random keys for devices that share a batch: together they draw what one device would.

Threefry's bits (Salmon et al. 2011) are a function of a key and an element's number. A key of this
file also says which of several equal parts of the batch its rows are. Their elements are numbered
from there, so that dropout does not depend on how devices share a batch.
"""

import math

import jax
import jax.numpy as jnp
from jax.extend import random as extended
from jaxtyping import Array, Int, Key, UInt32


def of_part(key: Key[Array, ""], part: Int[Array, ""]) -> Key[Array, ""]:
    """`key`, for arrays whose first axis is the rows of the `part`-th of equal parts."""
    words = jnp.append(jax.random.key_data(key), part.astype(jnp.uint32))
    return jax.random.wrap_key_data(words, impl=_PART)


def _random_bits(key: UInt32[Array, "3"], bit_width: int, shape: tuple[int, ...]) -> Array:
    assert bit_width == 32, bit_width
    # Element numbers, as JAX counts them up to 2^32; from there on they wrap around.
    number = jnp.broadcast_to(key[2] * jnp.uint32(math.prod(shape)), shape)
    for axis in range(len(shape)):
        stride = jnp.uint32(math.prod(shape[axis + 1 :]))
        number += stride * jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    return jnp.bitwise_xor(
        *extended.threefry2x32_p.bind(key[0], key[1], jnp.zeros_like(number), number)
    )


def _fold_in(key: UInt32[Array, "3"], data: int | Int[Array, ""] | UInt32[Array, ""]) -> Array:
    return jnp.append(extended.threefry_prng_impl.fold_in(key[:2], data), key[2])


def _refuse(*_):
    raise NotImplementedError("a key of a part of the rows is made of another, and not split")


_PART = extended.define_prng_impl(
    key_shape=(3,),
    seed=_refuse,
    split=_refuse,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32 of a part of the rows",
    tag="part",
)
