"""Position-wise feed-forward network (paper section 3.3).

Axes: B batch, T positions, D d_model.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from t2t_jax.model.config import Activation
from t2t_jax.model.linear import flat_dot_general

_ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "swish": jax.nn.swish}


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
        def dense(features, name):
            return nn.Dense(
                features,
                use_bias=self.use_bias,
                kernel_init=nn.initializers.xavier_uniform(),
                dot_general=flat_dot_general,
                dtype=self.dtype,
                name=name,
            )

        hidden = _ACTIVATIONS[self.activation](dense(self.d_ff, "inner")(x))
        hidden = nn.Dropout(self.dropout_rate)(hidden, deterministic=deterministic)
        return dense(self.d_model, "outer")(hidden)
