"""The encoder-decoder Transformer (paper section 3): source and target ids in, logits out.

Axes: B batch, W beam width, N = B W rows that are decoded, T target positions, S source
positions, D d_model.
"""

from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import token_embedding, token_output
from t2t_jax.model.layers import KeysAndValues, Source
from t2t_jax.model.masks import Packing, is_token, padding_mask, segment_mask
from t2t_jax.model.stack import Stack


class Transformer(nn.Module):
    """Encoder and decoder, their embeddings, and the projection to logits."""

    config: TransformerConfig
    row_groups: int = 1  # see `embedding`

    def setup(self) -> None:
        config = self.config
        self.embedding = source_embedding = output_embedding = token_embedding(
            config, self.row_groups
        )
        if config.tied_embeddings != "all":
            self.source_embedding = source_embedding = token_embedding(config, self.row_groups)
        if config.tied_embeddings == "none":
            self.output_embedding = output_embedding = token_embedding(config, self.row_groups)
        self.encoder = Stack(config, source_embedding, config.num_encoder_layers)
        self.decoder = Stack(
            config, self.embedding, config.num_decoder_layers, is_causal=True, has_memory=True
        )
        self.output = token_output(output_embedding, config)

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        source_packing: Packing | None = None,
        target_packing: Packing | None = None,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which open with the start token.

        Raises:
          ValueError: one side is packed and the other is not, or longer than learned positions.
        """
        return self.output(
            self._hidden(source_ids, target_inputs, source_packing, target_packing, deterministic)
        )

    def features(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        source_packing: Packing | None = None,
        target_packing: Packing | None = None,
        deterministic: bool,
    ) -> tuple[Float[Array, "B T E"], Float[Array, "G vocab E"]]:
        """The two factors of the logits, for a loss that does not want them all at once."""
        return self.output.factors(
            self._hidden(source_ids, target_inputs, source_packing, target_packing, deterministic)
        )

    def encode(
        self,
        source_ids: Int[Array, "B S"],
        *,
        packing: Packing | None = None,
        deterministic: bool,
    ) -> Float[Array, "B S D"]:
        """What the encoder makes of the source, the memory that the decoder looks at."""
        return self.encoder(source_ids, packing=packing, deterministic=deterministic)

    def decode(
        self,
        target_inputs: Int[Array, "B T"],
        memory: Float[Array, "B S D"],
        source_is_token: Bool[Array, "B S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, given what `encode` made."""
        source = _sources(self.project_memory(memory), padding_mask(source_is_token))
        return self.output(self.decoder(target_inputs, source, deterministic=deterministic))

    def project_memory(self, memory: Float[Array, "B S D"]) -> list[KeysAndValues]:
        """Each decoder layer's keys and values of the source, made once for all steps."""
        return self.decoder.project_memory(memory)

    def start_cache(
        self, projected_memory: list[KeysAndValues], num_rows: int, max_length: int
    ) -> list[list[KeysAndValues]]:
        """Room for what `decode_step` writes of `max_length` positions.

        `projected_memory` is for models whose first state is made of the source: this one's is
        empty.
        """
        return self.decoder.start_cache(num_rows, max_length)

    def decode_step(
        self,
        cache: list[list[KeysAndValues]],
        projected_memory: list[KeysAndValues],
        source_is_token: Bool[Array, "B S"],
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], list[list[KeysAndValues]]]:
        """Logits of the token after `last_ids`, which stand at `position`, and the cache with them.

        The W rows of a sentence, its beams, stand next to each other: N = B W.
        """
        source = _sources(projected_memory, padding_mask(source_is_token))
        x, cache = self.decoder.step(cache, last_ids, position, source)
        return self.output(x)[:, 0], cache

    def _hidden(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        source_packing: Packing | None,
        target_packing: Packing | None,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        memory = self.encode(source_ids, packing=source_packing, deterministic=deterministic)
        if source_packing is not None and target_packing is not None:
            mask = segment_mask(target_packing.segments, source_packing.segments)
        elif source_packing is None and target_packing is None:
            mask = padding_mask(is_token(source_ids))
        else:
            packed, alone = ("target", "source") if source_packing is None else ("source", "target")
            raise ValueError(f"{packed}_packing is given, {alone}_packing is not: pack both sides")
        source = _sources(self.project_memory(memory), mask)
        return self.decoder(target_inputs, source, target_packing, deterministic=deterministic)


def _sources(projected_memory: list[KeysAndValues], mask: Bool[Array, "#B #T S"]) -> list[Source]:
    return [Source(seen, mask) for seen in projected_memory]
