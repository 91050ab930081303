"""Position-wise feed-forward network (paper section 3.3).

Axes: B batch, T positions, D d_model, F d_ff.
"""

import jax
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from t2t_jax.model.config import Activation, DropoutBits, TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.linear import dense


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, paper equation 2, the same at every position."""

    d_model: int
    d_ff: int
    activation: Activation
    use_bias: bool
    dropout_rate: float  # of the inner activations
    dropout_bits: DropoutBits
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"], *, deterministic: bool) -> Float[Array, "B T D"]:
        inner = dense(self.d_ff, self.dtype, use_bias=self.use_bias, name="inner")
        outer = dense(self.d_model, self.dtype, use_bias=self.use_bias, name="outer")
        hidden = activated(inner(x), self.activation)
        hidden = make_dropout(self.dropout_rate, self.dropout_bits)(
            hidden, deterministic=deterministic
        )
        return outer(hidden)


def make_feed_forward(config: TransformerConfig) -> FeedForward:
    """The feed-forward network with the config's sizes."""
    return FeedForward(
        d_model=config.d_model,
        d_ff=config.d_ff,
        activation=config.activation,
        use_bias=config.feed_forward_biases,
        dropout_rate=config.feed_forward_dropout_rate,
        dropout_bits=config.dropout_bits,
        dtype=config.dtype,
    )


def activated(x: Float[Array, "B T F"], activation: Activation) -> Float[Array, "B T F"]:
    """The function of this name, applied to `x`."""
    match activation:
        case "relu":
            return jax.nn.relu(x)
        case "gelu":
            return jax.nn.gelu(x, approximate=False)  # x Phi(x), Phi the normal CDF
        case "gelu_tanh":
            return jax.nn.gelu(x, approximate=True)  # GPT-2's, Phi by tanh
        case "swish":
            return jax.nn.swish(x)
        case "none":
            return x
