"""Where a token stands: sinusoids of three layouts, a learned table, or nothing (section 3.5).

Axes: T positions, D d_model.
"""

from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import Positions
from t2t_jax.model.embedding import Embedding

_LONGEST_WAVE = 10_000  # the sinusoids' wavelengths run from 2 pi to 10000 * 2 pi


def sinusoids(positions: Int[Array, " T"], d_model: int) -> Float[Array, "T D"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same): the paper's layout."""
    angles = _angles(positions, 2 * jnp.arange(d_model // 2) / d_model)
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(-1, d_model)


def concatenated_sinusoids(positions: Int[Array, " T"], d_model: int) -> Float[Array, "T D"]:
    """The paper's frequencies, sines in the left half and cosines in the right (HF Marian)."""
    angles = _angles(positions, 2 * jnp.arange(d_model // 2) / d_model)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def tensor2tensor_sinusoids(positions: Int[Array, " T"], d_model: int) -> Float[Array, "T D"]:
    """Halves, with exponents i / (d/2 - 1): tensor2tensor's frequencies are not the paper's."""
    angles = _angles(positions, jnp.arange(d_model // 2) / (d_model // 2 - 1))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def _angles(positions: Int[Array, " T"], exponents: Float[Array, " I"]) -> Float[Array, "T I"]:
    wavelengths = jnp.float32(_LONGEST_WAVE) ** exponents
    return positions[:, None] / wavelengths[None, :]


_SINUSOIDS: dict[str, Callable] = {
    "sinusoidal": sinusoids,
    "sinusoidal_concatenated": concatenated_sinusoids,
    "sinusoidal_tensor2tensor": tensor2tensor_sinusoids,
}


class PositionalEncoding(nn.Module):
    """The vector that is added to the embedding of a token at each position."""

    kind: Positions
    d_model: int
    max_positions: int  # of a learned table
    scale: bool  # a learned table is made and scaled like the token embedding it is added to

    @nn.compact
    def __call__(self, positions: Int[Array, " T"]) -> Float[Array, "T D"]:
        """Raises ValueError where there are more positions than a learned table has rows."""
        if self.kind == "none":
            return jnp.zeros((positions.shape[0], self.d_model))
        if self.kind != "learned":
            return _SINUSOIDS[self.kind](positions, self.d_model)
        if positions.shape[0] > self.max_positions:
            raise ValueError(
                f"a sequence of {positions.shape[0]} tokens is longer than the table of learned "
                f"positions, model.max_positions={self.max_positions}"
            )
        table = Embedding(self.max_positions, self.d_model, self.scale, name="learned")
        return table(positions[None])[0]
