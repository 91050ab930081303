"""What is added to a token's vector to say where it stands (paper section 3.5).

Sinusoids of three layouts, a learned table, or nothing. The positions that only self-attention
sees (rotary, relative, alibi) are in relative_positions.py.

Axes: B batch, T positions, D d_model.
"""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import Embedding

_LONGEST_WAVE = 10_000  # the sinusoids' wavelengths run from 2 pi to 10000 * 2 pi


def sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same): the paper's layout."""
    angles = paper_angles(positions, d_model)
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*positions.shape, -1)


def concatenated_sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """The paper's frequencies, sines in the left half and cosines in the right (HF Marian)."""
    angles = paper_angles(positions, d_model)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def tensor2tensor_sinusoids(positions: Int[Array, "*T"], d_model: int) -> Float[Array, "*T D"]:
    """Halves, with exponents i / (d/2 - 1): tensor2tensor's frequencies are not the paper's."""
    angles = _angles(positions, np.arange(d_model // 2) / (d_model // 2 - 1))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def paper_angles(positions: Int[Array, "*T"], width: int) -> Float[Array, "*T I"]:
    """pos / 10000^(2i/width) in radians, for i = 0 ... width/2 - 1."""
    return _angles(positions, 2 * np.arange(width // 2) / width)


def _angles(positions: Int[Array, "*T"], exponents: np.ndarray) -> Float[Array, "*T I"]:
    frequencies = jnp.asarray(float(_LONGEST_WAVE) ** -exponents, jnp.float32)
    return jnp.multiply.outer(positions.astype(jnp.float32), frequencies)


class PositionalEncoding(nn.Module):
    """The vector that is added to the embedding of a token at each position.

    A learned table is made and scaled like the token embedding it is added to.
    """

    config: TransformerConfig

    @nn.compact
    def __call__(self, positions: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        config = self.config
        shifted = positions + config.first_position
        match config.positions:
            case "sinusoidal":
                return sinusoids(shifted, config.d_model)
            case "sinusoidal_concatenated":
                return concatenated_sinusoids(shifted, config.d_model)
            case "sinusoidal_tensor2tensor":
                return tensor2tensor_sinusoids(shifted, config.d_model)
            case "learned":
                table = Embedding(
                    config.max_positions,
                    config.d_model,
                    config.scale_embeddings,
                    config.embedding_init,
                    name="learned",
                )
                return table(positions)
            case "rotary" | "relative" | "alibi" | "none":
                return jnp.zeros((*positions.shape, config.d_model))


def check_length(length: int, config: TransformerConfig) -> None:
    """Raises ValueError where a sequence is longer than a learned table has rows."""
    longest = config.longest_sequence
    if longest is not None and length > longest:
        raise ValueError(
            f"a sequence of {length} tokens is longer than the table of learned positions, "
            f"model.max_positions={longest}"
        )
