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

from t2t_jax.model.config import AttentionInit, DropoutBits, TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.fused_attention import (
    fused_attention,
    fused_implementation,
    is_fused,
    is_too_odd_to_fuse,
)
from t2t_jax.model.linear import Linear, into_heads, of_one_product, out_of_heads
from t2t_jax.model.masks import MASKED_SCORE
from t2t_jax.model.positions import rotate


def scaled_dot_product_attention(
    query: Float[Array, "B H T K"],
    key: Float[Array, "B H S K"],
    value: Float[Array, "B H S V"],
    mask: Bool[Array, "#B #T S"],
    bias: Float[Array, "#B H T S"] | None = None,
    dropout: Callable[[Array], Array] = lambda weights: weights,
    divisor: float | None = None,
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H T S"]]:
    """softmax(Q K^T / sqrt(d_k)) V, paper equation 1, and its weights, the softmax, in float32.

    `mask` is True where a query may attend. `bias` is added to the scaled scores, `dropout` is
    applied to the weights, `divisor` replaces sqrt(d_k).
    """
    divide_by = query.shape[-1] ** 0.5 if divisor is None else divisor
    products = _products if query.dtype == jnp.float32 else _narrow_products
    scores = products(query, key) / divide_by
    if bias is not None:
        scores = scores + bias
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, MASKED_SCORE))
    dropped = dropout(weights.astype(value.dtype))
    return jnp.einsum("BHTS,BHSV->BHTV", dropped, value), weights


def _products(
    query: Float[Array, "B H T K"], key: Float[Array, "B H S K"]
) -> Float[Array, "B H T S"]:
    """Dot products of every query and key, summed and returned in float32."""
    return jnp.einsum("BHTK,BHSK->BHTS", query, key, preferred_element_type=jnp.float32)


@jax.custom_vjp
def _narrow_products(
    query: Float[Array, "B H T K"], key: Float[Array, "B H S K"]
) -> Float[Array, "B H T S"]:
    """The same for bfloat16; the gradient is rounded to bfloat16 before it is multiplied.

    It arrives in float32, and multiplying float32 by bfloat16 takes several float32 passes.
    """
    return _products(query, key)


def _forward(query: Array, key: Array) -> tuple[Array, tuple[Array, Array]]:
    return _products(query, key), (query, key)


def _backward(
    factors: tuple[Array, Array], gradient: Float[Array, "B H T S"]
) -> tuple[Array, Array]:
    query, key = factors
    narrow = gradient.astype(key.dtype)
    of_query = jnp.einsum("BHTS,BHSK->BHTK", narrow, key)
    return of_query, jnp.einsum("BHTS,BHTK->BHSK", narrow, query)


_narrow_products.defvjp(_forward, _backward)


class KeysAndValues(NamedTuple):
    """What queries attend to. A cache has room for S positions, future ones included."""

    key: Float[Array, "B H S K"]
    value: Float[Array, "B H S V"]

    @property
    def num_positions(self) -> int:
        """Number of positions, S."""
        return self.key.shape[2]

    def with_next(self, new: "KeysAndValues", position: Int[Array, ""]) -> "KeysAndValues":
        """These, with `new`, the key and value of one position, written at `position`."""
        return jax.tree.map(
            lambda kept, row: jax.lax.dynamic_update_slice_in_dim(kept, row, position, axis=2),
            self,
            new,
        )


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` learned subspaces (paper section 3.2.2).

    `keys_and_values` computes keys and values and `attend` reads them: the decoder can cache them
    between steps.
    """

    num_heads: int
    d_model: int
    d_k: int
    d_v: int
    score_divisor: float
    use_bias: bool
    kernel_init: AttentionInit
    dropout_rate: float  # of the attention weights
    dropout_bits: DropoutBits
    is_fused: bool  # one kernel, in training
    has_one_product: bool  # one product for all projections of the same input
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
                head_init = _glorot(self.d_model, fan_out)
            case "separate":
                head_init = glorot
        self.query = projection((self.num_heads, self.d_k), head_init)
        self.key = projection((self.num_heads, self.d_k), head_init)
        self.value = projection((self.num_heads, self.d_v), head_init)
        self.output = projection((self.d_model,), glorot, num_axes=2)
        self.dropout = make_dropout(self.dropout_rate, self.dropout_bits)

    def keys_and_values(
        self, memory: Float[Array, "B S D"], angles: Float[Array, "#B S half_K"] | None = None
    ) -> KeysAndValues:
        """The keys and values of `memory`, the keys rotated by `angles`."""
        key, value = self._in_heads(memory, self.key, self.value)
        return KeysAndValues(_turned(key, angles), value)

    def queries(
        self, x: Float[Array, "B T D"], angles: Float[Array, "#B T half_K"] | None = None
    ) -> Float[Array, "B H T K"]:
        """The queries of `x`, rotated by `angles`."""
        [query] = self._in_heads(x, self.query)
        return _turned(query, angles)

    def of_itself(
        self, x: Float[Array, "B T D"], angles: Float[Array, "#B T half_K"] | None = None
    ) -> tuple[Float[Array, "B H T K"], KeysAndValues]:
        """Queries, keys and values of `x`, for self-attention."""
        if not self.has_one_product:
            # The order matters for the last bits: the gradients of x are summed in it.
            visible = self.keys_and_values(x, angles)
            return self.queries(x, angles), visible
        query, key, value = self._in_heads(x, self.query, self.key, self.value)
        return _turned(query, angles), KeysAndValues(_turned(key, angles), value)

    def start_cache(self, num_rows: int, max_length: int) -> KeysAndValues:
        """Room for the keys and values of `max_length` positions."""
        shape = (num_rows, self.num_heads, max_length)
        return KeysAndValues(
            jnp.zeros((*shape, self.d_k), self.dtype), jnp.zeros((*shape, self.d_v), self.dtype)
        )

    def attend(
        self,
        query: Float[Array, "B H T K"],
        memory: KeysAndValues,
        mask: Bool[Array, "#B #T S"],
        *,
        bias: Float[Array, "#B H T S"] | None = None,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """The output for every query, over the positions of `memory` that `mask` allows.

        `bias` is added to the scores.
        """
        # Not fused under capture, which needs weights, nor in decoding, with one query at a time.
        is_training = not deterministic and not self._is_heard
        can_fuse = bias is None and not is_too_odd_to_fuse(mask, len(query))
        if self.is_fused and is_training and can_fuse:
            heads = fused_attention(
                query, *memory, mask, self.score_divisor, fused_implementation()
            )
        else:
            dropout = partial(self.dropout, deterministic=deterministic)
            heads, weights = scaled_dot_product_attention(
                query, *memory, mask, bias, dropout, self.score_divisor
            )
            self.sow("intermediates", "weights", weights)
            self.sow("intermediates", "mask", mask)
        if self._is_direct and self._is_narrow and not self.is_fused:
            return out_of_heads(heads, self.output)
        return self.output(heads.transpose(0, 2, 1, 3))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"],
        mask: Bool[Array, "#B #T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Self-attention if `memory` is `x`, else encoder-decoder attention."""
        memories = self.keys_and_values(memory)
        return self.attend(self.queries(x), memories, mask, deterministic=deterministic)

    @property
    def _is_heard(self) -> bool:
        return self.is_mutable_collection("intermediates")

    @property
    def _is_direct(self) -> bool:
        """Whether projections need no call: they are initialised, and nothing is captured."""
        return not self.is_initializing() and not self._is_heard

    @property
    def _is_narrow(self) -> bool:
        return jnp.dtype(self.dtype) == jnp.bfloat16

    def _in_heads(
        self, x: Float[Array, "B S D"], *projections: Linear
    ) -> list[Float[Array, "B H S _"]]:
        """Each of `projections` applied to `x`."""
        heads_come_first = self._is_narrow and not self.is_fused  # a kernel wants them last
        if not self._is_direct or not (heads_come_first or self.has_one_product):
            return [_heads_first(projection(x)) for projection in projections]
        if not heads_come_first:
            return [_heads_first(each) for each in of_one_product(x, projections)]
        together = [projections] if self.has_one_product else [[each] for each in projections]
        return [heads for some in together for heads in into_heads(x, some)]


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Multi-head attention with the config's sizes."""
    return MultiHeadAttention(
        num_heads=config.num_heads,
        d_model=config.d_model,
        d_k=config.d_k,
        d_v=config.d_v,
        score_divisor=score_divisor(config),
        use_bias=config.attention_biases,
        kernel_init=config.attention_init,
        dropout_rate=config.attention_dropout_rate,
        dropout_bits=config.dropout_bits,
        is_fused=is_fused(config),
        has_one_product=config.fused_projections,
        dtype=config.dtype,
    )


def score_divisor(config: TransformerConfig) -> float:
    """What the dot products of queries and keys are divided by."""
    match config.score_divisor:
        case "sqrt_d_k":
            return config.d_k**0.5
        case "sqrt_d_model":
            return config.d_model**0.5
        case "none":
            return 1.0


def _heads_first(x: Float[Array, "B S H K"]) -> Float[Array, "B H S K"]:
    """Each head's positions contiguous: a step of cached decoding then moves no memory."""
    return x.transpose(0, 2, 1, 3)


def _turned(
    x: Float[Array, "B H S K"], angles: Float[Array, "#B S half_K"] | None
) -> Float[Array, "B H S K"]:
    return x if angles is None else rotate(x, angles)


def _glorot(fan_in: int, fan_out: int) -> nn.initializers.Initializer:
    """Uniform with variance 2 / (fan_in + fan_out), whichever part of the matrix is drawn."""
    limit = (6 / (fan_in + fan_out)) ** 0.5

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -limit, limit)

    return init
