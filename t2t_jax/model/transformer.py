"""The encoder-decoder Transformer (paper section 3): source and target ids in, logits out.

Axes: B batch, W beam width, N = B W rows that are decoded, T target positions, S source
positions, L positions kept in a cache, D d_model.
"""

import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import Embedding
from t2t_jax.model.layers import DecoderLayer, EncoderLayer, KeysAndValues, layer_norm
from t2t_jax.model.masks import causal_mask, is_token, padding_mask
from t2t_jax.model.positions import PositionalEncoding


class Transformer(nn.Module):
    """Encoder and decoder, their embeddings, and the projection to logits."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = _embedding(config)
        if config.tied_embeddings != "all":
            self.source_embedding = _embedding(config)
        if config.tied_embeddings == "none":
            self.output_embedding = _embedding(config)
        self.source_positions = _positions(config)
        self.target_positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.encoder_layers = [EncoderLayer(config) for _ in range(config.num_encoder_layers)]
        self.decoder_layers = [DecoderLayer(config) for _ in range(config.num_decoder_layers)]
        if config.norm == "pre":
            self.encoder_norm = layer_norm(config)
            self.decoder_norm = layer_norm(config)

    def encode(
        self, source_ids: Int[Array, "B S"], *, deterministic: bool
    ) -> Float[Array, "B S D"]:
        """What the encoder makes of the source, the memory that the decoder looks at."""
        tied = self.config.tied_embeddings == "all"
        embedding = self.embedding if tied else self.source_embedding
        positions = self.source_positions(jnp.arange(source_ids.shape[1]))
        x = self._embed(embedding(source_ids), positions, deterministic=deterministic)
        mask = padding_mask(is_token(source_ids))
        for layer in self.encoder_layers:
            x = layer(x, mask, deterministic=deterministic)
        return self.encoder_norm(x) if self.config.norm == "pre" else x

    def decode(
        self,
        target_inputs: Int[Array, "B T"],
        memory: Float[Array, "B S D"],
        source_is_token: Bool[Array, "B S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `target_inputs`, which open with the start token."""
        x = self._decode(target_inputs, memory, source_is_token, deterministic=deterministic)
        return self._output_embedding.logits(x)

    def _decode(
        self,
        target_inputs: Int[Array, "B T"],
        memory: Float[Array, "B S D"],
        source_is_token: Bool[Array, "B S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """A position looks at no later one. Targets are padded on the right, where the causal mask
        hides the padding from every token."""
        positions = self.target_positions(jnp.arange(target_inputs.shape[1]))
        vectors = self.embedding(target_inputs)
        x = self._embed(vectors, positions, deterministic=deterministic)
        self_mask = causal_mask(target_inputs.shape[1])
        cross_mask = padding_mask(source_is_token)
        for layer in self.decoder_layers:
            x = layer(x, memory, self_mask, cross_mask, deterministic=deterministic)
        return self._normalised(x)

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """Logits of the token that follows each of `target_inputs`."""
        memory = self.encode(source_ids, deterministic=deterministic)
        return self.decode(target_inputs, memory, is_token(source_ids), deterministic=deterministic)

    def features(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> tuple[Float[Array, "B T D"], Float[Array, "vocab D"]]:
        """The two factors of the logits, for a loss that does not want them all at once."""
        memory = self.encode(source_ids, deterministic=deterministic)
        is_source = is_token(source_ids)
        x = self._decode(target_inputs, memory, is_source, deterministic=deterministic)
        return x, self._output_embedding.table

    def project_memory(self, memory: Float[Array, "B S D"]) -> list[KeysAndValues]:
        """Each decoder layer's keys and values of the source, made once for all steps."""
        return [layer.project_memory(memory) for layer in self.decoder_layers]

    def empty_cache(self, num_rows: int, max_length: int) -> list[KeysAndValues]:
        """Room for the keys and values of `max_length` target positions in each decoder layer."""
        config = self.config
        shape = (num_rows, config.num_heads, max_length)
        return [
            KeysAndValues(
                jnp.zeros((*shape, config.d_k), config.dtype),
                jnp.zeros((*shape, config.d_v), config.dtype),
            )
            for _ in range(config.num_decoder_layers)
        ]

    def decode_step(
        self,
        cache: list[KeysAndValues],
        projected_memory: list[KeysAndValues],
        source_is_token: Bool[Array, "B S"],
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], list[KeysAndValues]]:
        """Logits of the token after `last_ids`, which stand at `position`, and the cache with them.

        The W rows of a sentence, its beams, stand next to each other: N = B W.
        """
        vectors = self.embedding(last_ids[:, None])
        x = self._embed(vectors, self.target_positions(position[None]), deterministic=True)
        cross_mask = padding_mask(source_is_token)
        new_cache = []
        for layer, written, source in zip(
            self.decoder_layers, cache, projected_memory, strict=True
        ):
            x, written = layer.step(x, written, source, cross_mask, position)
            new_cache.append(written)
        return self._output_embedding.logits(self._normalised(x))[:, 0], new_cache

    def _embed(
        self,
        vectors: Float[Array, "B T D"],
        positions: Float[Array, "T D"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        x = vectors + positions.astype(vectors.dtype)[None]
        return self.dropout(x, deterministic=deterministic)

    def _normalised(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return self.decoder_norm(x) if self.config.norm == "pre" else x

    @property
    def _output_embedding(self) -> Embedding:
        return self.output_embedding if self.config.tied_embeddings == "none" else self.embedding


def num_parameters(config: TransformerConfig) -> int:
    """How many numbers a Transformer of this config learns; none are made to find out."""
    ids = jax.ShapeDtypeStruct((1, 2), jnp.int32)
    model = Transformer(config)
    shapes = jax.eval_shape(
        lambda key, ids: model.init(key, ids, ids, deterministic=True), jax.random.key(0), ids
    )
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def _embedding(config: TransformerConfig) -> Embedding:
    return Embedding(config.vocabulary_rows, config.d_model, config.scale_embeddings, config.dtype)


def _positions(config: TransformerConfig) -> PositionalEncoding:
    return PositionalEncoding(
        config.positions, config.d_model, config.max_positions, config.scale_embeddings
    )
