"""The encoder-decoder Transformer (paper section 3): source and target ids in, logits out.

Axes: B batch, W beam width, N = B W decoded rows, T target positions, S source positions,
D d_model.
"""

from typing import NamedTuple

from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import token_embedding, token_output
from t2t_jax.model.interface import Inputs
from t2t_jax.model.layers import Memory
from t2t_jax.model.masks import padding_mask, segment_mask
from t2t_jax.model.stack import Cache, Stack


class Encoded(NamedTuple):
    """The encoded source."""

    states: Float[Array, "B S D"]
    memories: list[Memory]  # the states' keys and values for each decoder layer


class Transformer(nn.Module):
    """Encoder and decoder, their embeddings, and the projection to logits."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = source_embedding = output_embedding = token_embedding(config)
        if config.tied_embeddings != "all":
            self.source_embedding = source_embedding = token_embedding(config)
        if config.tied_embeddings == "none":
            self.output_embedding = output_embedding = token_embedding(config)
        self.encoder = Stack(config, source_embedding, config.num_encoder_layers)
        self.decoder = Stack(config, self.embedding, config.num_decoder_layers, is_causal=True)
        self.output = token_output(output_embedding, config)

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which begin with the start token.

        Raises:
          ValueError: a side is longer than the table of learned positions.
        """
        return self.output(self._hidden(Inputs(source_ids, target_inputs), deterministic))

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The two factors of the logits, for a loss that does not hold them all at once."""
        return self.output.factors(self._hidden(inputs, deterministic))

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> Encoded:
        """The source for every decoder step, encoded once."""
        states = self.encoder(source_ids, deterministic=deterministic)
        return Encoded(states, self.decoder.memories(states, padding_mask(source_ids)))

    def start_cache(self, encoded: Encoded, num_rows: int, max_length: int) -> Cache:
        """An empty cache for `decode_step`, with room for `max_length` positions."""
        return self.decoder.start_cache(num_rows, max_length)

    def decode_step(
        self,
        cache: Cache,
        encoded: Encoded,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], Cache]:
        """Logits of the token after `last_ids`, which are at `position`, and the updated cache.

        The W rows of a sentence, its beams, are adjacent: N = B W.
        """
        x, cache = self.decoder.step(cache, last_ids, position, encoded.memories)
        return self.output(x)[:, 0], cache

    def _hidden(self, inputs: Inputs, deterministic: bool) -> Float[Array, "B T D"]:
        if inputs.packings is None:
            mask = padding_mask(inputs.source_ids)
        else:
            source, target = inputs.packings
            mask = segment_mask(target.segments, source.segments)
        states = self.encoder(
            inputs.source_ids, packing=inputs.source_packing, deterministic=deterministic
        )
        return self.decoder(
            inputs.target_inputs,
            self.decoder.memories(states, mask),
            inputs.target_packing,
            deterministic=deterministic,
        )
