"""Token ids to vectors and vectors to logits (paper section 3.4).

Axes: B batch, T positions, D d_model.
"""

import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int


class Embedding(nn.Module):
    """A table of vectors that is read by id, and multiplied by to give logits."""

    num_rows: int
    d_model: int
    scale: bool  # vectors times sqrt(d_model)
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        # N(0, 1/d): logits start near N(0, 1), and so do the scaled vectors.
        self.table = self.param(
            "table", nn.initializers.normal(self.d_model**-0.5), (self.num_rows, self.d_model)
        )

    def __call__(self, ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """The vectors of `ids`."""
        vectors = jnp.take(self.table, ids, axis=0).astype(self.dtype)
        return vectors * jnp.asarray(self.d_model**0.5 if self.scale else 1, self.dtype)

    def logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T vocab"]:
        """How well each row of the table fits `x`, in float32."""
        return jnp.einsum(
            "BTD,VD->BTV", x, self.table.astype(x.dtype), preferred_element_type=jnp.float32
        )
