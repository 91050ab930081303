"""Positions as self-attention alone sees them: rotary, T5's bucketed bias, ALiBi.

All three are functions of the distance between two positions. Attention to a memory gets none of
them: between a source and a target there is no distance.

Axes: B batch, T query positions, S key positions, H heads, K d_k.
"""

import math

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig


def rotate(
    x: Float[Array, "B H T K"], angles: Float[Array, "#B T half_K"]
) -> Float[Array, "B H T K"]:
    """Turns each pair (x[2i], x[2i+1]) by the angle pos / 10000^(2i/d_k), in float32.

    The product of a query and a key that are turned like this depends on their distance alone
    (RoFormer, Su et al. 2021, equation 34).
    """
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    even, odd = x[..., 0::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
    turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8 i / H) for head i = 1 ... H (Press et al. 2022, section 3).

    Where H is no power of two: those of the power of two below it, then every other one of the
    power of two above it.
    """
    below = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-8 * i / (2 * below)) for i in range(1, 2 * below + 1, 2)]
    return slopes + between[: num_heads - below]


def alibi_bias(distances: Int[Array, "B T S"], num_heads: int) -> Float[Array, "B H T S"]:
    """-slope |distance|, linearly less for what is further off, to either side."""
    slopes = jnp.asarray(alibi_slopes(num_heads), jnp.float32)[None, :, None, None]
    return -slopes * jnp.abs(distances).astype(jnp.float32)[:, None]


def relative_bucket(
    distances: Int[Array, "*shape"], num_buckets: int, max_distance: int, *, is_causal: bool
) -> Int[Array, "*shape"]:
    """The number of the bucket of a distance, key - query position (T5, Raffel et al. 2020).

    Half of the buckets hold one distance each, the others grow like the logarithm up to
    `max_distance`, and the last one holds what lies beyond. What comes after the query has half
    of the buckets for itself; where `is_causal` it has none, being never looked at.
    """
    if is_causal:
        first, distances = 0, jnp.maximum(-distances, 0)
    else:
        num_buckets //= 2
        first, distances = jnp.where(distances > 0, num_buckets, 0), jnp.abs(distances)
    num_exact = num_buckets // 2
    octaves = jnp.log(jnp.maximum(distances, 1).astype(jnp.float32) / num_exact)
    share = octaves / math.log(max_distance / num_exact)
    far = num_exact + (share * (num_buckets - num_exact)).astype(distances.dtype)
    far = jnp.minimum(far, num_buckets - 1)
    return first + jnp.where(distances < num_exact, distances, far)


class RelativeBias(nn.Module):
    """A learned number for each bucket of distances and each head, added to the scores.

    Departs from T5: the scores are scaled by 1/sqrt(d_k) as everywhere here, before it is added.
    """

    config: TransformerConfig
    is_causal: bool

    @nn.compact
    def __call__(self, distances: Int[Array, "B T S"]) -> Float[Array, "B H T S"]:
        config = self.config
        table = self.param(
            "table",
            nn.initializers.normal(config.d_model**-0.5),
            (config.relative_buckets, config.num_heads),
        )
        buckets = relative_bucket(
            distances,
            config.relative_buckets,
            config.relative_max_distance,
            is_causal=self.is_causal,
        )
        return jnp.take(table, buckets, axis=0).transpose(0, 3, 1, 2)
