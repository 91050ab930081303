"""One layer: sub-layers, each with its residual sum and norm (paper section 3.1).

Axes: B batch, W beam width, N = B W rows, T positions of the layer's input, S positions of the
memory, L positions that self-attention attends to, D d_model.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.attention import KeysAndValues, make_attention
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.feed_forward import make_feed_forward
from t2t_jax.model.positions import EncodedPositions


class Memory(NamedTuple):
    """The encoder's output, which a decoder layer attends to besides its own input."""

    keys_and_values: KeysAndValues
    mask: Bool[Array, "#B #T S"]


class Past(NamedTuple):
    """A layer's cache of the positions before `position`, with room for it and later ones."""

    cache: list[KeysAndValues]  # one per self-attention, over L positions
    position: Int[Array, ""]


class AddAndNorm(nn.Module):
    """Residual sum and norm around a sub-layer; norm="post" is the paper's."""

    config: TransformerConfig

    def setup(self) -> None:
        self.norm = make_norm(self.config)
        self.dropout = make_dropout(self.config.dropout_rate, self.config.dropout_bits)

    def __call__(
        self, x: Float[Array, "B T D"], sub_layer: Callable[[Array], Array], *, deterministic: bool
    ) -> Float[Array, "B T D"]:
        """LayerNorm(x + Dropout(Sublayer(x))), or x + Dropout(Sublayer(LayerNorm(x))).

        The config may omit the norm, or the summand `x`.
        """
        dropout = partial(self.dropout, deterministic=deterministic)

        def added(update: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
            return x + update if self.config.residual else update

        match self.config.norm:
            case "post":
                return self.norm(added(dropout(sub_layer(x))))
            case "pre":
                return added(dropout(sub_layer(self.norm(x))))
            case "none":
                return added(dropout(sub_layer(x)))


class Layer(nn.Module):
    """Self-attention, attention over a memory if given one, then feed-forward.

    With a memory, it is the paper's decoder layer. Without one, it is the encoder layer or, with a
    causal mask, the layer of a language model.
    """

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        numbers = range(config.num_self_attentions)
        self.self_attentions = [make_attention(config) for _ in numbers]
        self.self_attention_residuals = [AddAndNorm(config) for _ in numbers]
        self.cross_attention = make_attention(config)
        self.cross_attention_residual = AddAndNorm(config)
        self.feed_forward = make_feed_forward(config)
        self.feed_forward_residual = AddAndNorm(config)

    def memory(self, states: Float[Array, "B S D"], mask: Bool[Array, "#B #T S"]) -> Memory:
        """Keys and values of the encoder's `states` for this layer, the same for every input."""
        return Memory(self.cross_attention.keys_and_values(states), mask)

    def start_cache(self, num_rows: int, max_length: int) -> list[KeysAndValues]:
        """Room for `max_length` positions in each self-attention."""
        return [attention.start_cache(num_rows, max_length) for attention in self.self_attentions]

    def __call__(
        self,
        x: Float[Array, "N T D"],
        mask: Bool[Array, "#B #T L"],
        positions: EncodedPositions,
        memory: Memory | None = None,
        past: Past | None = None,
        *,
        deterministic: bool,
    ) -> tuple[Float[Array, "N T D"], list[KeysAndValues]]:
        """The layer's output, and the keys and values of each of its self-attentions.

        These are of `x` or, with a `past`, also of the positions before it; then T is 1.
        """
        looked_at: list[KeysAndValues] = []

        def self_attention(number: int, x: Array) -> Array:
            attention = self.self_attentions[number]
            query, visible = attention.of_itself(x, positions.angles)
            if past is not None:
                visible = past.cache[number].with_next(visible, past.position)
            looked_at.append(visible)
            return attention.attend(
                query,
                visible,
                mask,
                bias=positions.bias,
                deterministic=deterministic,
            )

        def cross_attention(memory: Memory, x: Array) -> Array:
            # The W beams of a sentence share a memory: attention treats them as W positions.
            num_sentences = memory.keys_and_values.key.shape[0]
            beams = x.reshape(num_sentences, -1, x.shape[-1])  # B (W T) D
            query = self.cross_attention.queries(beams)
            update = self.cross_attention.attend(query, *memory, deterministic=deterministic)
            return update.reshape(x.shape)

        for number, residual in enumerate(self.self_attention_residuals):
            x = residual(x, partial(self_attention, number), deterministic=deterministic)
        if memory is not None:
            residual = self.cross_attention_residual
            x = residual(x, partial(cross_attention, memory), deterministic=deterministic)
        if self.config.feed_forward:
            feed_forward = partial(self.feed_forward, deterministic=deterministic)
            x = self.feed_forward_residual(x, feed_forward, deterministic=deterministic)
        self.sow("intermediates", "output", x)
        return x, looked_at


def make_norm(config: TransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """The config's kind of norm; its statistics are always float32.

    "rms" divides by the root mean square (Zhang & Sennrich 2019): it subtracts no mean and has no
    bias.
    """
    match config.norm_kind:
        case "layer":
            return nn.LayerNorm(epsilon=config.norm_epsilon, dtype=config.dtype)
        case "rms":
            return nn.RMSNorm(epsilon=config.norm_epsilon, dtype=config.dtype)
