"""Random keys for devices that share a batch: together they draw what one device would.

Threefry's bits (Salmon et al. 2011) are a function of a key and an element's number. A key of this
file also says which of several equal parts of the batch its rows are. Their elements are numbered
from there, so that dropout does not depend on how devices share a batch. Numbers have 64 bits, in
two words, as in JAX.
"""

import math

import jax
import jax.numpy as jnp
from jax.extend import random as extended
from jaxtyping import Array, Int, Key, UInt32

GENERATOR = "threefry2x32"  # of all that is drawn, whatever the environment's default is
_WORDS = 1 << 32  # values of a word


def of_part(key: Key[Array, ""], part: Int[Array, ""]) -> Key[Array, ""]:
    """`key`, for arrays whose first axis is the rows of the `part`-th of equal parts."""
    words = jnp.append(jax.random.key_data(key), part.astype(jnp.uint32))
    return jax.random.wrap_key_data(words, impl=_PART)


def _random_bits(key: UInt32[Array, "3"], bit_width: int, shape: tuple[int, ...]) -> Array:
    assert bit_width == 32, bit_width
    numbers = _numbers(key[2], shape)
    return jnp.bitwise_xor(*extended.threefry2x32_p.bind(key[0], key[1], *numbers))


def _numbers(part: UInt32[Array, ""], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The numbers of a part's elements: high words and low words."""
    # The first axes, of which there are none as a rule, count blocks of fewer than 2^32 elements.
    axis = next(a for a in range(len(shape) + 1) if math.prod(shape[a:]) < _WORDS)
    block = part * jnp.uint32(math.prod(shape[:axis]))
    if axis:
        block += _counted(shape, range(axis))
    start_high, start_low = _product(block, math.prod(shape[axis:]))
    low = start_low + _counted(shape, range(axis, len(shape)))
    return start_high + (low < start_low).astype(jnp.uint32), low


def _counted(shape: tuple[int, ...], axes: range) -> UInt32[Array, "..."]:
    """Numbers along some axes, row by row; the same along the others."""
    number = jnp.zeros(shape, jnp.uint32)
    for axis in axes:
        stride = jnp.uint32(math.prod(shape[axis + 1 : axes.stop]))
        number += stride * jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    return number


def _product(a: UInt32[Array, "..."], b: int) -> tuple[Array, Array]:
    """High and low words of `a` times a number below 2^32, by halves of words."""
    b_high, b_low = map(jnp.uint32, divmod(b, 1 << 16))
    a_high, a_low = a >> 16, a & 0xFFFF
    middle = a_high * b_low + (a_low * b_low >> 16)
    carried = a_low * b_high + (middle & 0xFFFF)
    return a_high * b_high + (middle >> 16) + (carried >> 16), a * jnp.uint32(b)


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
