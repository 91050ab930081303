"""The Transformer's predecessor: a recurrent encoder-decoder, to compare with.

The encoder is a stack of bidirectional layers (Bahdanau et al. 2015), with half of d_model per
direction, so that every layer is d_model wide. The decoder's first states are tanh(W s) of the last
encoder layer's final states s, as in Cho et al. 2014 and Bahdanau et al. Attention is Luong et
al.'s 2015 global attention without input feeding: from the top decoder state h it attends to the
encoder's states, and tanh(W [c; h]), with c the result, gives the logits. It is thus not part of
the recurrence, and training computes it for all positions at once. Its scores are the Transformer's
with one head, h^T W s / sqrt(d_model); Luong et al. do not scale them. Without attention, the
decoder knows the source only through its first states (Cho et al., Sutskever et al. 2014).

Of the config, it reads vocabulary_rows, num_encoder_layers, num_decoder_layers, d_model,
recurrent_cell, recurrent_attention, dropout_rate and dropout_bits (on embeddings, every layer's
output and what attention returns, never along the recurrence), the keys of embeddings and logits
(tied_embeddings, embedding_init, scale_embeddings, scale_logits, output_bias) and dtype. It ignores
the rest: positions, norms, heads, feed-forward layers and their dropouts.

Axes: B batch, W beam width, N = B W decoded rows, T target positions, S source positions,
D d_model.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.model.attention import scaled_dot_product_attention
from t2t_jax.model.config import RecurrentCell, TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.embedding import token_embedding, token_output
from t2t_jax.model.interface import Inputs
from t2t_jax.model.linear import dense
from t2t_jax.model.masks import is_token, padding_mask

Carry = PyTree[Array]  # what a cell passes to the next position: h, or for an LSTM (c, h)


class Encoded(NamedTuple):
    """The encoded source, and what the decoder derives from it once for all steps."""

    states: Float[Array, "B S D"]  # meaningless at padding
    starts: list[Carry]  # each decoder layer's carry before the first position
    keys: Float[Array, "B S D"] | None  # of the states, if the decoder attends to them
    mask: Bool[Array, "B 1 S"]


class RecurrentTranslator(nn.Module):
    """Encoder and decoder, their embeddings, and the projection to logits."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = output_embedding = token_embedding(config)
        if config.tied_embeddings != "all":
            self.source_embedding = token_embedding(config)
        if config.tied_embeddings == "none":
            self.output_embedding = output_embedding = token_embedding(config)
        self.dropout = make_dropout(config.dropout_rate, config.dropout_bits)
        self.encoder_layers = [EncoderLayer(config) for _ in range(config.num_encoder_layers)]
        self.decoder_layers = [DecoderLayer(config) for _ in range(config.num_decoder_layers)]
        if config.recurrent_attention:
            self.attention = SourceAttention(config.d_model, config.dtype)
        self.output = token_output(output_embedding, config)

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which begin with the start token."""
        return self.output(self._hidden(source_ids, target_inputs, deterministic))

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The two factors of the logits, for a loss that does not hold them all at once.

        Raises:
          ValueError: rows are packed.
        """
        if inputs.packings is not None:
            raise ValueError(
                "model.family='recurrent' cannot read packed rows: a state would run from one "
                "sentence into the next"
            )
        x = self._hidden(inputs.source_ids, inputs.target_inputs, deterministic)
        return self.output.factors(x)

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> Encoded:
        """The source for every decoder step, encoded once; ids are padded on the right."""
        tied = self.config.tied_embeddings == "all"
        embedding = self.embedding if tied else self.source_embedding
        lengths = jnp.sum(is_token(source_ids), axis=1)
        states = last = self.dropout(embedding(source_ids), deterministic=deterministic)
        for layer in self.encoder_layers:
            states, last = layer(states, lengths)
            states = self.dropout(states, deterministic=deterministic)
        return Encoded(
            states,
            starts=[layer.start(last) for layer in self.decoder_layers],
            keys=self.attention.key(states) if self.config.recurrent_attention else None,
            mask=padding_mask(source_ids),
        )

    def start_cache(self, encoded: Encoded, num_rows: int, max_length: int) -> list[Carry]:
        """Each layer's carry before the first position, the same for all beams of a sentence.

        The size of a carry does not depend on `max_length`.
        """

        def for_each_beam(leaf: Float[Array, "B D"]) -> Float[Array, "N D"]:
            return jnp.repeat(leaf, num_rows // leaf.shape[0], axis=0)

        return jax.tree.map(for_each_beam, encoded.starts)

    def decode_step(
        self,
        cache: list[Carry],
        encoded: Encoded,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], list[Carry]]:
        """Logits of the token after `last_ids`, and the carries after reading them.

        The W rows of a sentence, its beams, are adjacent: N = B W. `position` is ignored.
        """
        x = self.embedding(last_ids[:, None])
        carries = []
        for layer, carry in zip(self.decoder_layers, cache, strict=True):
            carry, x = layer.step(x, carry)
            carries.append(carry)
        if encoded.keys is not None:
            # The beams of a sentence share a source: attention treats them as positions.
            beams = x.reshape(encoded.mask.shape[0], -1, x.shape[-1])
            attended = self.attention(beams, encoded.keys, encoded.states, encoded.mask)
            x = attended.reshape(x.shape)
        return self.output(x)[:, 0], carries

    def _hidden(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Hidden states; no position sees later ones, so padding on the right does not matter."""
        encoded = self.encode(source_ids, deterministic=deterministic)
        x = self.dropout(self.embedding(target_inputs), deterministic=deterministic)
        for layer, start in zip(self.decoder_layers, encoded.starts, strict=True):
            x = self.dropout(layer(x, start), deterministic=deterministic)
        if encoded.keys is None:
            return x
        x = self.attention(x, encoded.keys, encoded.states, encoded.mask)
        return self.dropout(x, deterministic=deterministic)


class Cell(NamedTuple):
    """One kind of recurrence."""

    make: Callable[..., nn.RNNCellBase]
    num_states: int  # of its carry: h, or for an LSTM c and h
    is_gated: bool

    def carry_dtype(self, dtype: DTypeLike) -> DTypeLike:
        """Float32 for gated cells, which add to their carry; the plain one only passes it on."""
        return jnp.float32 if self.is_gated else dtype


def cell_of(kind: RecurrentCell) -> Cell:
    """The cell of this name."""
    match kind:
        case "tanh":
            return Cell(nn.SimpleCell, num_states=1, is_gated=False)
        case "gru":
            return Cell(nn.GRUCell, num_states=1, is_gated=True)
        case "lstm":
            return Cell(nn.OptimizedLSTMCell, num_states=2, is_gated=True)


class EncoderLayer(nn.Module):
    """One recurrence from left to right and one from right to left, side by side."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        make = cell_of(config.recurrent_cell).make
        forwards, backwards = (
            nn.RNN(make(config.d_model // 2, dtype=config.dtype)) for _ in range(2)
        )
        self.directions = nn.Bidirectional(forwards, backwards, return_carry=True)

    def __call__(
        self, x: Float[Array, "B S D"], lengths: Int[Array, " B"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B D"]]:
        """The states at all positions, and each direction's last; padding changes neither."""
        config, cell = self.config, cell_of(self.config.recurrent_cell)
        zeros = jnp.zeros((x.shape[0], config.d_model // 2), cell.carry_dtype(config.dtype))
        carry = _carry([zeros] * cell.num_states)
        carries, states = self.directions(x, initial_carry=(carry, carry), seq_lengths=lengths)
        states = states.astype(config.dtype)
        self.sow("intermediates", "output", states)
        last = jnp.concatenate([_hidden_state(carry) for carry in carries], axis=-1)
        return states, last.astype(config.dtype)


class DecoderLayer(nn.Module):
    """One recurrence from left to right.

    `__call__` takes all positions at once, for training; `step` takes one, with its carry.
    """

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        kind = cell_of(config.recurrent_cell)
        self.cell = kind.make(config.d_model, dtype=config.dtype)
        self.all_positions = nn.RNN(self.cell)
        self.bridge = dense(kind.num_states * config.d_model, config.dtype)

    def start(self, last: Float[Array, "B D"]) -> Carry:
        """The carry before the first position, tanh(W s)."""
        kind = cell_of(self.config.recurrent_cell)
        made = jnp.tanh(self.bridge(last)).astype(kind.carry_dtype(self.config.dtype))
        return _carry(jnp.split(made, kind.num_states, axis=-1))

    def __call__(self, x: Float[Array, "B T D"], start: Carry) -> Float[Array, "B T D"]:
        """The states at all positions."""
        x = jnp.asarray(self.all_positions(x, initial_carry=start), self.config.dtype)
        self.sow("intermediates", "output", x)
        return x

    def step(self, x: Float[Array, "N 1 D"], carry: Carry) -> tuple[Carry, Float[Array, "N 1 D"]]:
        """The carry and the state one position further."""
        carry, x = self.cell(carry, x[:, 0])
        x = x[:, None].astype(self.config.dtype)
        self.sow("intermediates", "output", x)
        return carry, x


class SourceAttention(nn.Module):
    """tanh(W [c; h]), where c is the attention of the decoder state h over the encoder's."""

    d_model: int
    dtype: DTypeLike

    def setup(self) -> None:
        self.key = dense(self.d_model, self.dtype, use_bias=False)
        self.combine = dense(self.d_model, self.dtype, use_bias=False)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        key: Float[Array, "B S D"],
        value: Float[Array, "B S D"],
        mask: Bool[Array, "B 1 S"],
    ) -> Float[Array, "B T D"]:
        """Attention output combined with `x`; `mask` is True where a position may attend."""
        gathered, weights = scaled_dot_product_attention(
            x[:, None], key[:, None], value[:, None], mask
        )
        self.sow("intermediates", "weights", weights)
        return jnp.tanh(self.combine(jnp.concatenate([gathered[:, 0], x], axis=-1)))


def _carry(states: Sequence[Array]) -> Carry:
    return tuple(states) if len(states) > 1 else states[0]


def _hidden_state(carry: Carry) -> Float[Array, "B D"]:
    return carry[-1] if isinstance(carry, tuple) else carry
