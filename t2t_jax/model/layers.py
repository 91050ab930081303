"""Encoder and decoder layers: sub-layers, each with its residual sum and norm (paper section 3.1).

Axes: B batch, W beam width, N = B W rows that are decoded, T target positions, S source
positions, L positions kept in a cache, H heads, D d_model, K d_k, V d_v.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.attention import MultiHeadAttention
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.feed_forward import FeedForward


class KeysAndValues(NamedTuple):
    """What one attention may look at."""

    key: Float[Array, "B H S K"]
    value: Float[Array, "B H S V"]


class AddAndNorm(nn.Module):
    """The residual sum and layer norm around a sub-layer.

    norm="post" is LayerNorm(x + Dropout(Sublayer(x))), the paper's;
    norm="pre" is x + Dropout(Sublayer(LayerNorm(x))).
    """

    config: TransformerConfig

    def setup(self) -> None:
        self.norm = layer_norm(self.config)
        self.dropout = nn.Dropout(self.config.dropout_rate)

    def before(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """What the sub-layer sees of `x`."""
        return self.norm(x) if self.config.norm == "pre" else x

    def after(
        self, x: Float[Array, "B T D"], update: Float[Array, "B T D"], *, deterministic: bool
    ) -> Float[Array, "B T D"]:
        """`x` with the sub-layer's `update` added."""
        total = x + self.dropout(update, deterministic=deterministic)
        return self.norm(total) if self.config.norm == "post" else total


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = _attention(self.config)
        self.self_attention_residual = AddAndNorm(self.config)
        self.feed_forward = _feed_forward(self.config)
        self.feed_forward_residual = AddAndNorm(self.config)

    def __call__(
        self, x: Float[Array, "B S D"], mask: Bool[Array, "#B #S S"], *, deterministic: bool
    ) -> Float[Array, "B S D"]:
        seen = self.self_attention_residual.before(x)
        update = self.self_attention(seen, seen, mask, deterministic=deterministic)
        x = self.self_attention_residual.after(x, update, deterministic=deterministic)

        seen = self.feed_forward_residual.before(x)
        update = self.feed_forward(seen, deterministic=deterministic)
        return self.feed_forward_residual.after(x, update, deterministic=deterministic)


class DecoderLayer(nn.Module):
    """Self-attention over what is written, attention over the source, then feed-forward.

    `__call__` takes all positions at once, for training; `step` takes one, and keeps the keys
    and values of those before it in a cache.
    """

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = _attention(self.config)
        self.self_attention_residual = AddAndNorm(self.config)
        self.cross_attention = _attention(self.config)
        self.cross_attention_residual = AddAndNorm(self.config)
        self.feed_forward = _feed_forward(self.config)
        self.feed_forward_residual = AddAndNorm(self.config)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"],
        self_mask: Bool[Array, "#B T T"],
        cross_mask: Bool[Array, "B 1 S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        seen = self.self_attention_residual.before(x)
        update = self.self_attention(seen, seen, self_mask, deterministic=deterministic)
        x = self.self_attention_residual.after(x, update, deterministic=deterministic)

        seen = self.cross_attention_residual.before(x)
        update = self.cross_attention(seen, memory, cross_mask, deterministic=deterministic)
        x = self.cross_attention_residual.after(x, update, deterministic=deterministic)
        return self._feed_forward(x, deterministic=deterministic)

    def project_memory(self, memory: Float[Array, "B S D"]) -> KeysAndValues:
        """Keys and values of the source, the same at every step."""
        return KeysAndValues(*self.cross_attention.project_memory(memory))

    def step(
        self,
        x: Float[Array, "N 1 D"],
        written: KeysAndValues,
        source: KeysAndValues,
        cross_mask: Bool[Array, "B 1 S"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N 1 D"], KeysAndValues]:
        """The layer at `position`, and the cache with this position `written` to it."""
        seen = self.self_attention_residual.before(x)
        new = self.self_attention.project_memory(seen)
        written = jax.tree.map(
            lambda kept, row: jax.lax.dynamic_update_slice_in_dim(kept, row, position, axis=2),
            written,
            KeysAndValues(*new),
        )
        self_mask = (jnp.arange(written.key.shape[2]) <= position)[None, None]
        update = self.self_attention.attend(seen, *written, self_mask, deterministic=True)
        x = self.self_attention_residual.after(x, update, deterministic=True)

        # The W beams of a sentence look at the same source: to attention they are W positions.
        seen = self.cross_attention_residual.before(x)
        num_sentences = source.key.shape[0]
        beams = seen.reshape(num_sentences, -1, seen.shape[-1])  # B W D
        update = self.cross_attention.attend(beams, *source, cross_mask, deterministic=True)
        x = self.cross_attention_residual.after(x, update.reshape(x.shape), deterministic=True)
        return self._feed_forward(x, deterministic=True), written

    def _feed_forward(
        self, x: Float[Array, "B T D"], *, deterministic: bool
    ) -> Float[Array, "B T D"]:
        seen = self.feed_forward_residual.before(x)
        update = self.feed_forward(seen, deterministic=deterministic)
        return self.feed_forward_residual.after(x, update, deterministic=deterministic)


def layer_norm(config: TransformerConfig) -> nn.LayerNorm:
    """Layer norm with the config's epsilon; its statistics are float32 whatever the dtype."""
    return nn.LayerNorm(epsilon=config.norm_epsilon, dtype=config.dtype)


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        num_heads=config.num_heads,
        d_model=config.d_model,
        d_k=config.d_k,
        d_v=config.d_v,
        use_bias=config.attention_biases,
        dropout_rate=config.attention_dropout_rate,
        dtype=config.dtype,
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        d_model=config.d_model,
        d_ff=config.d_ff,
        activation=config.activation,
        use_bias=config.feed_forward_biases,
        dropout_rate=config.feed_forward_dropout_rate,
        dtype=config.dtype,
    )
