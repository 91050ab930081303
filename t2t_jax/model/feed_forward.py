"""Position-wise feed-forward network (paper section 3.3).

Axes: B batch, T positions, D d_model, F d_ff.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from t2t_jax.model.config import Activation
from t2t_jax.model.linear import dense


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, paper equation 2, at every position alike."""

    d_model: int
    d_ff: int
    activation: Activation = "relu"
    use_bias: bool = True
    dropout_rate: float = 0.0  # of the inner activations
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"], *, deterministic: bool) -> Float[Array, "B T D"]:
        inner = dense(self.d_ff, self.dtype, use_bias=self.use_bias, name="inner")
        outer = dense(self.d_model, self.dtype, use_bias=self.use_bias, name="outer")
        hidden = activated(inner(x), self.activation)
        hidden = nn.Dropout(self.dropout_rate)(hidden, deterministic=deterministic)
        return outer(hidden)


def activated(x: Float[Array, "B T F"], activation: Activation) -> Float[Array, "B T F"]:
    """`x` through the function of this name."""
    match activation:
        case "relu":
            return jax.nn.relu(x)
        case "gelu":
            return jax.nn.gelu(x, approximate=False)  # x Phi(x), Phi the normal distribution's
        case "gelu_tanh":
            return jax.nn.gelu(x, approximate=True)  # GPT-2's, Phi through tanh
        case "swish":
            return jax.nn.swish(x)
