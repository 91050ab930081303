"""Scaled dot-product and multi-head attention (paper section 3.2).

Axes: B batch, T query positions, S key positions, H heads, D d_model, K d_k, V d_v.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.config import AttentionInit, TransformerConfig
from t2t_jax.model.linear import Linear
from t2t_jax.model.positions import rotate

# Lowest finite score, not -inf: the row of a query that may look nowhere stays finite.
_MASKED_SCORE = jnp.finfo(jnp.float32).min


def scaled_dot_product_attention(
    query: Float[Array, "B H T K"],
    key: Float[Array, "B H S K"],
    value: Float[Array, "B H S V"],
    mask: Bool[Array, "#B #T S"],
    bias: Float[Array, "#B H T S"] | None = None,
    dropout: Callable[[Array], Array] = lambda weights: weights,
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H T S"]]:
    """softmax(Q K^T / sqrt(d_k)) V, paper equation 1, and the softmax, the weights, in float32.

    `mask` is True where a query may look. A `bias` is added to the scaled scores, and `dropout` is
    applied to the weights.
    """
    d_k = query.shape[-1]
    scores = jnp.einsum("BHTK,BHSK->BHTS", query, key, preferred_element_type=jnp.float32)
    scores = scores / d_k**0.5
    if bias is not None:
        scores = scores + bias
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, _MASKED_SCORE))
    dropped = dropout(weights.astype(value.dtype))
    return jnp.einsum("BHTS,BHSV->BHTV", dropped, value), weights


class KeysAndValues(NamedTuple):
    """What queries look at. A cache has room for S positions, those still to come included."""

    key: Float[Array, "B H S K"]
    value: Float[Array, "B H S V"]

    @property
    def num_positions(self) -> int:
        """How many there are, S."""
        return self.key.shape[2]

    def with_next(self, new: "KeysAndValues", position: Int[Array, ""]) -> "KeysAndValues":
        """These, with the key and value of one more position in their place."""
        return jax.tree.map(
            lambda kept, row: jax.lax.dynamic_update_slice_in_dim(kept, row, position, axis=2),
            self,
            new,
        )


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` learned subspaces (paper section 3.2.2).

    Keys and values are made by `keys_and_values` and read by `attend`, so that the decoder can keep
    them from one step to the next.
    """

    num_heads: int
    d_model: int
    d_k: int
    d_v: int
    use_bias: bool
    kernel_init: AttentionInit
    dropout_rate: float  # of the attention weights
    dtype: DTypeLike

    def setup(self) -> None:
        def projection(
            features: tuple[int, ...],
            kernel_init: nn.initializers.Initializer,
            num_axes: int = 1,
        ) -> Linear:
            return Linear(features, num_axes, self.use_bias, kernel_init, self.dtype)

        glorot = nn.initializers.xavier_uniform()
        fan_out = self.num_heads * (2 * self.d_k + self.d_v)
        match self.kernel_init:
            case "fused":
                into_heads = _glorot(self.d_model, fan_out)
            case "separate":
                into_heads = glorot
        self.query = projection((self.num_heads, self.d_k), into_heads)
        self.key = projection((self.num_heads, self.d_k), into_heads)
        self.value = projection((self.num_heads, self.d_v), into_heads)
        self.output = projection((self.d_model,), glorot, num_axes=2)
        self.dropout = nn.Dropout(self.dropout_rate)

    def keys_and_values(
        self, memory: Float[Array, "B S D"], angles: Float[Array, "#B S half_K"] | None = None
    ) -> KeysAndValues:
        """Those of the positions of `memory`, the keys turned by their `angles`."""
        key, value = _heads_first(self.key(memory)), _heads_first(self.value(memory))
        return KeysAndValues(_turned(key, angles), value)

    def start_cache(self, num_rows: int, max_length: int) -> KeysAndValues:
        """Room for the keys and values of `max_length` positions."""
        shape = (num_rows, self.num_heads, max_length)
        return KeysAndValues(
            jnp.zeros((*shape, self.d_k), self.dtype), jnp.zeros((*shape, self.d_v), self.dtype)
        )

    def attend(
        self,
        x: Float[Array, "B T D"],
        memory: KeysAndValues,
        mask: Bool[Array, "#B #T S"],
        *,
        bias: Float[Array, "#B H T S"] | None = None,
        angles: Float[Array, "#B T half_K"] | None = None,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """What every position of `x` gathers from the positions of `memory` that `mask` allows.

        A `bias` is added to the scores; queries are turned by their `angles`.
        """
        query = _turned(_heads_first(self.query(x)), angles)
        dropout = partial(self.dropout, deterministic=deterministic)
        heads, weights = scaled_dot_product_attention(query, *memory, mask, bias, dropout)
        self.sow("intermediates", "weights", weights)
        self.sow("intermediates", "mask", mask)
        return self.output(heads.transpose(0, 2, 1, 3))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"],
        mask: Bool[Array, "#B #T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Self-attention where `memory` is `x`, encoder-decoder attention where it is not."""
        return self.attend(x, self.keys_and_values(memory), mask, deterministic=deterministic)


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Multi-head attention of the config's sizes."""
    return MultiHeadAttention(
        num_heads=config.num_heads,
        d_model=config.d_model,
        d_k=config.d_k,
        d_v=config.d_v,
        use_bias=config.attention_biases,
        kernel_init=config.attention_init,
        dropout_rate=config.attention_dropout_rate,
        dtype=config.dtype,
    )


def _heads_first(x: Float[Array, "B S H K"]) -> Float[Array, "B H S K"]:
    """Each head's positions side by side: a step of cached decoding then moves no memory."""
    return x.transpose(0, 2, 1, 3)


def _turned(
    x: Float[Array, "B H S K"], angles: Float[Array, "#B S half_K"] | None
) -> Float[Array, "B H S K"]:
    return x if angles is None else rotate(x, angles)


def _glorot(fan_in: int, fan_out: int) -> nn.initializers.Initializer:
    """Uniform with variance 2 / (fan_in + fan_out), whatever part of the matrix is drawn."""
    limit = (6 / (fan_in + fan_out)) ** 0.5

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -limit, limit)

    return init
