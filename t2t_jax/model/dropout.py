"""Dropout (paper section 5.4), with a configurable number of random bits per element."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, UInt

from t2t_jax.model.config import DropoutBits

_WORD = 32  # bits that the generator returns at once


class Dropout(nn.Dropout):
    """Flax's dropout, perhaps with fewer bits per element than a word; right in bfloat16 too."""

    bits: DropoutBits = 16

    def __call__(
        self, inputs: Float[Array, "..."], deterministic: bool | None = None, rng: None = None
    ) -> Float[Array, "..."]:
        """`inputs` with some elements 0 and the others scaled to keep the mean."""
        if self.rate == 0 or deterministic:
            return inputs
        return dropped(inputs, self.make_rng(self.rng_collection), self.rate, self.bits)


def make_dropout(rate: float, bits: DropoutBits) -> nn.Dropout:
    """Dropout with this rate; in float32, with a word per element, it is Flax's own to the bit."""
    return Dropout(rate, bits=bits)


def true_rate(rate: float, bits: DropoutBits) -> float:
    """The share dropped with so many bits: with 32 the rate, else the nearest multiple of 2^-bits.

    Always below 1.
    """
    return rate if bits == _WORD else _num_dropped(rate, bits) / 2**bits


def dropped(
    x: Float[Array, "..."], key: Key[Array, ""], rate: float, bits: DropoutBits
) -> Float[Array, "..."]:
    """`x` with `true_rate` of its elements 0, the others divided by the true share kept."""
    # In bfloat16 the share kept would itself be rounded, and every mean with it.
    share = 1 - true_rate(rate, bits)
    if bits == _WORD:
        is_kept = jax.random.bernoulli(key, share, x.shape)
        scaled = x / jnp.float32(share)
    else:
        is_kept = _lanes(key, x.shape, bits) >= _num_dropped(rate, bits)
        scaled = x * jnp.float32(1 / share)
    return jnp.where(is_kept, scaled.astype(x.dtype), jnp.zeros_like(x))


def _num_dropped(rate: float, bits: int) -> int:
    """How many of a lane's 2^bits values drop an element."""
    return min(round(rate * 2**bits), 2**bits - 1)


def _lanes(key: Key[Array, ""], shape: tuple[int, ...], bits: int) -> UInt[Array, "..."]:
    """A random lane per element, cut from words along the last axis: each row has its own words."""
    *others, last = shape
    num_words = -(-last * bits // _WORD)
    words = jax.random.bits(key, (*others, num_words), jnp.uint32)
    lanes = jax.lax.bitcast_convert_type(words, jnp.dtype(f"uint{bits}"))
    return lanes.reshape(*others, num_words * (_WORD // bits))[..., :last]
