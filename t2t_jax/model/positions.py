"""Positional encodings (paper section 3.5): one case per kind.

In: the positions of tokens. Out: vectors to add to the embeddings, angles to rotate queries and
keys by, or a bias on the scores. Angles and biases encode only the distance between two positions
and are for self-attention: between a source and a target there is no distance.

Axes: B batch, T query positions, S key positions, H heads, D d_model, K d_k.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import Embedding
from t2t_jax.model.layouts import computed_once
from t2t_jax.model.look_up import look_up

_LONGEST_WAVE = 10_000  # the sinusoids' wavelengths run from 2 pi to 10000 * 2 pi


class EncodedPositions(NamedTuple):
    """Positions as a model uses them; each kind sets at most one field."""

    vectors: Float[Array, "#B T D"] | None = None  # added to the embeddings
    angles: Float[Array, "#B T half_K"] | None = None  # rotate queries and keys
    bias: Float[Array, "#B H T S"] | None = None  # added to the scores of self-attention


class PositionalEncoding(nn.Module):
    """The kind of positions named by the config."""

    config: TransformerConfig
    relative_bias: "RelativeBias"

    @nn.compact
    def __call__(
        self, positions: Int[Array, "#B T"], key_positions: Int[Array, "#B S"]
    ) -> EncodedPositions:
        """The encoding of `positions`, or of their distances to `key_positions`."""
        config = self.config
        shifted = positions + config.first_position
        distances = key_positions[:, None, :] - positions[:, :, None]
        match config.positions:
            case "sinusoidal":
                return EncodedPositions(vectors=sinusoids(shifted, config.d_model))
            case "sinusoidal_concatenated":
                return EncodedPositions(vectors=concatenated_sinusoids(shifted, config.d_model))
            case "sinusoidal_tensor2tensor":
                return EncodedPositions(vectors=tensor2tensor_sinusoids(shifted, config.d_model))
            case "learned":
                # Initialised and scaled like the token embedding it is added to.
                table = Embedding(
                    config.max_positions,
                    config.d_model,
                    config.scale_embeddings,
                    config.embedding_init,
                    name="learned",
                )
                return EncodedPositions(vectors=table(positions))
            case "rotary":
                return EncodedPositions(angles=paper_angles(positions, config.d_k))
            case "relative":
                return EncodedPositions(bias=self.relative_bias(distances))
            case "alibi":
                return EncodedPositions(bias=alibi_bias(distances, config.num_heads))
            case "counted":
                return EncodedPositions(vectors=counted(positions, config.d_model))
            case "scaled":
                share = counted(positions, config.d_model) / config.max_positions
                return EncodedPositions(vectors=share)
            case "none":
                return EncodedPositions()


def make_positions(config: TransformerConfig, *, is_causal: bool) -> PositionalEncoding:
    """The positions of one stack; if it `is_causal`, no position attends to later ones."""
    # Named here, because its parameters are beside those of PositionalEncoding in the tree.
    return PositionalEncoding(config, RelativeBias(config, is_causal, name="relative_bias"))


def sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same): the paper's layout."""
    angles = paper_angles(positions, d_model)
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*positions.shape, -1)


def concatenated_sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """The paper's frequencies, sines in the left half and cosines in the right (HF Marian)."""
    angles = paper_angles(positions, d_model)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def tensor2tensor_sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """Sines, then cosines, with exponents i / (d/2 - 1): tensor2tensor's, not the paper's."""
    angles = _angles(positions, np.arange(d_model // 2) / (d_model // 2 - 1))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def counted(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """The position's number in every dimension; it soon drowns out the word."""
    return jnp.repeat(positions.astype(jnp.float32)[..., None], d_model, axis=-1)


def paper_angles(positions: Int[Array, "*T"], width: int) -> Float[Array, "*T I"]:
    """pos / 10000^(2i/width) in radians, for i = 0 ... width/2 - 1."""
    return _angles(positions, 2 * np.arange(width // 2) / width)


def _angles(positions: Int[Array, "*T"], exponents: np.ndarray) -> Float[Array, "*T I"]:
    frequencies = jnp.asarray(float(_LONGEST_WAVE) ** -exponents, jnp.float32)
    return jnp.multiply.outer(positions.astype(jnp.float32), frequencies)


def rotate(
    x: Float[Array, "B H T K"], angles: Float[Array, "#B T half_K"]
) -> Float[Array, "B H T K"]:
    """Rotates each pair (x[2i], x[2i+1]) by the angle pos / 10000^(2i/d_k), in float32.

    The dot product of a rotated query and key depends only on content and distance (RoFormer, Su et
    al. 2021, equation 34).
    """
    # Once for all layers and heads: sines take longer than the rest of the rotation.
    sin, cos = computed_once(jnp.sin(angles))[:, None], computed_once(jnp.cos(angles))[:, None]
    even, odd = x[..., 0::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
    turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8 i / H) for head i = 1 ... H (Press et al. 2022, section 3).

    If H is no power of two: the slopes for the power of two below it, then every other one for the
    power of two above it.
    """
    below = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-8 * i / (2 * below)) for i in range(1, 2 * below + 1, 2)]
    return slopes + between[: num_heads - below]


def alibi_bias(distances: Int[Array, "B T S"], num_heads: int) -> Float[Array, "B H T S"]:
    """-slope |distance|: a linear penalty on distance, to both sides."""
    slopes = jnp.asarray(alibi_slopes(num_heads), jnp.float32)[None, :, None, None]
    return -slopes * jnp.abs(distances).astype(jnp.float32)[:, None]


def relative_bucket(
    distances: Int[Array, "*shape"], num_buckets: int, max_distance: int, *, is_causal: bool
) -> Int[Array, "*shape"]:
    """The bucket of a distance, key - query position (T5, Raffel et al. 2020).

    Half of the buckets hold one distance each; the others grow logarithmically up to
    `max_distance`, and the last one holds everything beyond. Keys after the query get half of the
    buckets; if `is_causal` they get none, since they are never attended to.
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
    """A learned number per bucket of distances and head.

    Departs from T5 unless `score_divisor` is "none": scores are divided before it is added.
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
        return look_up(table, buckets).transpose(0, 3, 1, 2)


def check_length(length: int, config: TransformerConfig) -> None:
    """Raises ValueError if a sequence is longer than the table of learned positions."""
    longest = config.longest_sequence
    if longest is not None and length > longest:
        raise ValueError(
            f"a sequence of {length} tokens is longer than the table of learned positions, "
            f"model.max_positions={longest}"
        )
