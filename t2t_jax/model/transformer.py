"""The encoder-decoder Transformer (paper section 3): source and target ids in, logits out.

Axes: B batch, W beam width, N = B W rows that are decoded, T target positions, S source
positions, D d_model.
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
    """What the encoder makes of the source."""

    states: Float[Array, "B S D"]
    memories: list[Memory]  # the states as each decoder layer looks at them


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
        """Logits of the token after each of `target_inputs`, which open with the start token.

        Raises:
          ValueError: a side is longer than learned positions.
        """
        return self.output(self._hidden(Inputs(source_ids, target_inputs), deterministic))

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The two factors of the logits, for a loss that does not want them all at once."""
        return self.output.factors(self._hidden(inputs, deterministic))

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> Encoded:
        """What each step of the decoder looks at, made once for all."""
        states = self.encoder(source_ids, deterministic=deterministic)
        return Encoded(states, self.decoder.memories(states, padding_mask(source_ids)))

    def start_cache(self, encoded: Encoded, num_rows: int, max_length: int) -> Cache:
        """Room for what `decode_step` writes of `max_length` positions, whatever was `encoded`."""
        return self.decoder.start_cache(num_rows, max_length)

    def decode_step(
        self,
        cache: Cache,
        encoded: Encoded,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], Cache]:
        """Logits of the token after `last_ids`, which stand at `position`, and the cache with them.

        The W rows of a sentence, its beams, stand next to each other: N = B W.
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
