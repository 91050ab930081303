"""Scaled dot-product and multi-head attention (paper section 3.2).

Axes: B batch, T query positions, S key positions, H heads,
D d_model, K d_k, V d_v.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from t2t_jax.model.linear import flat_dot_general

# Lowest finite score, not -inf: the row of a query that may look nowhere stays finite.
_MASKED_SCORE = jnp.finfo(jnp.float32).min


def attention_weights(
    query: Float[Array, "B H T K"],
    key: Float[Array, "B H S K"],
    mask: Bool[Array, "#B #T S"],
) -> Float[Array, "B H T S"]:
    """softmax(Q K^T / sqrt(d_k)) in float32; `mask` is True where a query may look."""
    d_k = query.shape[-1]
    scores = jnp.einsum("BHTK,BHSK->BHTS", query, key, preferred_element_type=jnp.float32)
    return jax.nn.softmax(jnp.where(mask[:, None], scores / d_k**0.5, _MASKED_SCORE))


def scaled_dot_product_attention(
    query: Float[Array, "B H T K"],
    key: Float[Array, "B H S K"],
    value: Float[Array, "B H S V"],
    mask: Bool[Array, "#B #T S"],
    *,
    dropout: Callable[[Array], Array] = lambda weights: weights,
) -> Float[Array, "B H T V"]:
    """softmax(Q K^T / sqrt(d_k)) V, paper equation 1; `dropout` is of the weights."""
    weights = dropout(attention_weights(query, key, mask).astype(value.dtype))
    return jnp.einsum("BHTS,BHSV->BHTV", weights, value)


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` learned subspaces (paper section 3.2.2).

    Keys and values are made by `project_memory` and read by `attend`, so that the decoder
    can keep them from one step to the next; training calls both at once.
    """

    num_heads: int
    d_model: int
    d_k: int
    d_v: int
    use_bias: bool = True
    dropout_rate: float = 0.0  # of the attention weights
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        def projection(features: int | tuple[int, int], axis: int | tuple[int, int] = -1):
            return nn.DenseGeneral(
                features,
                axis=axis,
                use_bias=self.use_bias,
                kernel_init=nn.initializers.xavier_uniform(),
                dot_general=flat_dot_general,
                dtype=self.dtype,
            )

        self.query = projection((self.num_heads, self.d_k))
        self.key = projection((self.num_heads, self.d_k))
        self.value = projection((self.num_heads, self.d_v))
        self.output = projection(self.d_model, axis=(-2, -1))
        self.dropout = nn.Dropout(self.dropout_rate)

    def project_memory(
        self, memory: Float[Array, "B S D"]
    ) -> tuple[Float[Array, "B H S K"], Float[Array, "B H S V"]]:
        """Keys and values of the positions to be looked at."""
        return _heads_first(self.key(memory)), _heads_first(self.value(memory))

    def attend(
        self,
        x: Float[Array, "B T D"],
        key: Float[Array, "B H S K"],
        value: Float[Array, "B H S V"],
        mask: Bool[Array, "#B #T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """What every position of `x` gathers from the keys and values that `mask` allows."""
        heads = scaled_dot_product_attention(
            _heads_first(self.query(x)),
            key,
            value,
            mask,
            dropout=partial(self.dropout, deterministic=deterministic),
        )
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
        return self.attend(x, *self.project_memory(memory), mask, deterministic=deterministic)


def _heads_first(x: Float[Array, "B S H K"]) -> Float[Array, "B H S K"]:
    """Each head's positions side by side: a step of cached decoding then moves no memory."""
    return x.transpose(0, 2, 1, 3)
