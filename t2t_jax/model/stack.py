"""Token ids to hidden states through a stack of layers: an encoder or a decoder (section 3.1).

Axes: B batch, W beam width, N = B W rows that are decoded, T positions, S positions of a memory,
L positions kept in a cache, H heads, D d_model, K d_k, V d_v.
"""

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import Embedding
from t2t_jax.model.layers import Cache, KeysAndValues, Layer, Source, layer_norm
from t2t_jax.model.masks import Packing, causal_mask, is_token, padding_mask, segment_mask
from t2t_jax.model.positions import EncodedPositions, check_length, make_positions


class Stack(nn.Module):
    """Embedding, positions and layers.

    An encoder, whose positions look at every token; where it `is_causal` a decoder, whose
    positions look at themselves and what is before them, and where it `has_memory` at a memory.
    """

    config: TransformerConfig
    embedding: Embedding  # the tokens', which may be shared
    num_layers: int
    is_causal: bool = False
    has_memory: bool = False

    def setup(self) -> None:
        config = self.config
        self.positions = make_positions(config, is_causal=self.is_causal)
        if config.embedding_norm:
            self.embedding_norm = layer_norm(config)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.layers = [Layer(config, self.has_memory) for _ in range(self.num_layers)]
        if config.norm == "pre":
            self.norm = layer_norm(config)

    def __call__(
        self,
        ids: Int[Array, "B T"],
        source: list[Source] | None = None,
        packing: Packing | None = None,
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Hidden states of all positions at once; `source` is the memory, for each layer.

        A decoder's ids are padded on the right, where the causal mask hides the padding from
        every token.

        Raises:
          ValueError: an unpacked row is longer than the table of learned positions.
        """
        length = ids.shape[1]
        if packing is None:
            check_length(length, self.config)
            positions = jnp.arange(length)[None]
            mask = jnp.ones((1, 1, 1), bool) if self.is_causal else padding_mask(is_token(ids))
        else:
            positions = packing.positions
            mask = segment_mask(packing.segments, packing.segments)
        if self.is_causal:
            mask = mask & causal_mask(positions, positions)
        encoded = self.positions(positions, positions)
        x = self._embed(ids, encoded, deterministic=deterministic)

        def through(layer: Layer, x: Array, from_memory: Source | None) -> Array:
            return layer(x, mask, encoded, from_memory, deterministic=deterministic)[0]

        if self.config.rematerialise:
            through = nn.remat(through)
        for number, layer in enumerate(self.layers):
            x = through(layer, x, None if source is None else source[number])
        return self._normalised(x)

    def project_memory(self, memory: Float[Array, "B S D"]) -> list[KeysAndValues]:
        """Each layer's keys and values of the memory."""
        return [layer.project_memory(memory) for layer in self.layers]

    def start_cache(self, num_rows: int, max_length: int) -> list[list[KeysAndValues]]:
        """Room for the keys and values of `max_length` positions in each layer's self-attentions.

        Raises:
          ValueError: the table of learned positions is shorter.
        """
        config = self.config
        check_length(max_length, config)
        shape = (num_rows, config.num_heads, max_length)
        nothing = KeysAndValues(
            jnp.zeros((*shape, config.d_k), config.dtype),
            jnp.zeros((*shape, config.d_v), config.dtype),
        )
        return [[nothing] * config.num_self_attentions for _ in range(self.num_layers)]

    def step(
        self,
        cache: list[list[KeysAndValues]],
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
        source: list[Source] | None = None,
    ) -> tuple[Float[Array, "N 1 D"], list[list[KeysAndValues]]]:
        """Hidden states of `last_ids`, which stand at `position`, and the cache with them."""
        positions = position[None, None]
        kept = jnp.arange(cache[0][0].key.shape[2] if cache else 1)[None]
        mask, encoded = causal_mask(positions, kept), self.positions(positions, kept)
        x = self._embed(last_ids[:, None], encoded, deterministic=True)
        new_cache = []
        for number, layer in enumerate(self.layers):
            from_memory = None if source is None else source[number]
            written = Cache(cache[number], position)
            x, looked_at = layer(x, mask, encoded, from_memory, written, deterministic=True)
            new_cache.append(looked_at)
        return self._normalised(x), new_cache

    def _embed(
        self, ids: Int[Array, "B T"], positions: EncodedPositions, *, deterministic: bool
    ) -> Float[Array, "B T D"]:
        x = self.embedding(ids)
        if positions.vectors is not None:
            x = x + positions.vectors.astype(x.dtype)
        x = self.embedding_norm(x) if self.config.embedding_norm else x
        self.sow("intermediates", "embedded", x)
        return self.dropout(x, deterministic=deterministic)

    def _normalised(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        x = self.norm(x) if self.config.norm == "pre" else x
        self.sow("intermediates", "output", x)
        return x
