"""One layer: sub-layers, each with its residual sum and norm (paper section 3.1).

Axes: B batch, W beam width, N = B W rows, T positions of the layer's input, S positions of the
memory, L positions that self-attention looks at, H heads, D d_model, K d_k, V d_v.
"""

from typing import NamedTuple

import jax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.attention import MultiHeadAttention
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.feed_forward import FeedForward
from t2t_jax.model.positions import EncodedPositions


class KeysAndValues(NamedTuple):
    """What one attention may look at."""

    key: Float[Array, "B H S K"]
    value: Float[Array, "B H S V"]


class Source(NamedTuple):
    """The memory as one layer's cross-attention sees it."""

    seen: KeysAndValues
    mask: Bool[Array, "#B #T S"]


class Cache(NamedTuple):
    """Keys and values of the positions before `position`, and room for it and those after."""

    written: list[KeysAndValues]  # of each self-attention, over L positions
    position: Int[Array, ""]

    def with_next(self, number: int, new: KeysAndValues) -> KeysAndValues:
        """What self-attention `number` may look at once `new` is written at `position`."""
        return jax.tree.map(
            lambda kept, row: jax.lax.dynamic_update_slice_in_dim(kept, row, self.position, axis=2),
            self.written[number],
            new,
        )


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
        match self.config.norm:
            case "post":
                return self.norm(total)
            case "pre":
                return total


class Layer(nn.Module):
    """Self-attention, attention over a memory where the layer has one, then feed-forward.

    Without a memory it is the paper's encoder layer, and with a causal mask that of a language
    model; with one it is the paper's decoder layer.
    """

    config: TransformerConfig
    has_memory: bool

    def setup(self) -> None:
        config, num_self_attentions = self.config, range(self.config.num_self_attentions)
        self.self_attentions = [make_attention(config) for _ in num_self_attentions]
        self.self_attention_residuals = [AddAndNorm(config) for _ in num_self_attentions]
        if self.has_memory:
            self.cross_attention = make_attention(config)
            self.cross_attention_residual = AddAndNorm(config)
        self.feed_forward = FeedForward(
            d_model=config.d_model,
            d_ff=config.d_ff,
            activation=config.activation,
            use_bias=config.feed_forward_biases,
            dropout_rate=config.feed_forward_dropout_rate,
            dtype=config.dtype,
        )
        self.feed_forward_residual = AddAndNorm(config)

    def project_memory(self, memory: Float[Array, "B S D"]) -> KeysAndValues:
        """Keys and values of the memory, the same whatever the layer's input."""
        return KeysAndValues(*self.cross_attention.project_memory(memory))

    def __call__(
        self,
        x: Float[Array, "N T D"],
        mask: Bool[Array, "#B #T L"],
        positions: EncodedPositions,
        source: Source | None = None,
        cache: Cache | None = None,
        *,
        deterministic: bool,
    ) -> tuple[Float[Array, "N T D"], list[KeysAndValues]]:
        """The layer's output, and what each of its self-attentions looked at.

        That is `x` itself, or with a `cache` the positions before it too; then T is 1.
        """
        looked_at: list[KeysAndValues] = []
        for number, attention in enumerate(self.self_attentions):
            residual = self.self_attention_residuals[number]
            seen = residual.before(x)
            new = KeysAndValues(*attention.project_memory(seen, positions.angles))
            looked_at.append(new if cache is None else cache.with_next(number, new))
            update = attention.attend(
                seen,
                *looked_at[-1],
                mask,
                bias=positions.bias,
                angles=positions.angles,
                deterministic=deterministic,
            )
            x = residual.after(x, update, deterministic=deterministic)

        if source is not None:
            residual = self.cross_attention_residual
            # The W beams of a sentence look at the same source: to attention they are W positions.
            num_sentences = source.seen.key.shape[0]
            seen = residual.before(x).reshape(num_sentences, -1, x.shape[-1])  # B (W T) D
            update = self.cross_attention.attend(
                seen, *source.seen, source.mask, deterministic=deterministic
            )
            x = residual.after(x, update.reshape(x.shape), deterministic=deterministic)

        seen = self.feed_forward_residual.before(x)
        update = self.feed_forward(seen, deterministic=deterministic)
        x = self.feed_forward_residual.after(x, update, deterministic=deterministic)
        self.sow("intermediates", "output", x)
        return x, looked_at


def layer_norm(config: TransformerConfig) -> nn.LayerNorm:
    """Layer norm with the config's epsilon; its statistics are float32 whatever the dtype."""
    return nn.LayerNorm(epsilon=config.norm_epsilon, dtype=config.dtype)


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
