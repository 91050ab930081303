"""Dropout (paper section 5.4), with as many random bits for each decision as the config says."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, UInt

from t2t_jax.model.config import DropoutBits

_WORD = 32  # bits that the generator gives at once


class LaneDropout(nn.Dropout):
    """Flax's dropout, decided by fewer bits than a word."""

    bits: DropoutBits = 16

    def __call__(
        self, inputs: Float[Array, "..."], deterministic: bool | None = None, rng: None = None
    ) -> Float[Array, "..."]:
        """`inputs`, some of them 0 and the others larger by as much as keeps the mean."""
        if self.rate == 0 or deterministic:
            return inputs
        return dropped(inputs, self.make_rng(self.rng_collection), self.rate, self.bits)


def make_dropout(rate: float, bits: DropoutBits) -> nn.Dropout:
    """Dropout of this rate; with a word for each element it is Flax's own."""
    return nn.Dropout(rate) if bits == _WORD else LaneDropout(rate, bits=bits)


def true_rate(rate: float, bits: DropoutBits) -> float:
    """The share that so many bits drop: 32 the rate itself, others the nearest multiple of 2^-bits.

    It stays below 1.
    """
    return rate if bits == _WORD else _num_dropped(rate, bits) / 2**bits


def dropped(
    x: Float[Array, "..."], key: Key[Array, ""], rate: float, bits: DropoutBits
) -> Float[Array, "..."]:
    """`x` with `true_rate` of its elements 0, the others over the true share that is kept."""
    is_kept = _lanes(key, x.shape, bits) >= _num_dropped(rate, bits)
    scale = 1 / (1 - true_rate(rate, bits))
    return jnp.where(is_kept, x * jnp.asarray(scale, x.dtype), jnp.zeros_like(x))


def _num_dropped(rate: float, bits: int) -> int:
    """Of the 2^bits values of a lane, how many drop an element."""
    return min(round(rate * 2**bits), 2**bits - 1)


def _lanes(key: Key[Array, ""], shape: tuple[int, ...], bits: int) -> UInt[Array, "..."]:
    """A random lane for each element, of words along the last axis: a row has words of its own."""
    *others, last = shape
    num_words = -(-last * bits // _WORD)
    words = jax.random.bits(key, (*others, num_words), jnp.uint32)
    lanes = jax.lax.bitcast_convert_type(words, jnp.dtype(f"uint{bits}"))
    return lanes.reshape(*others, num_words * (_WORD // bits))[..., :last]
