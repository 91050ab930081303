"""Token ids to hidden states through a stack of layers: an encoder or a decoder (section 3.1).

Axes: B batch, W beam width, N = B W decoded rows, T positions, S positions of a memory,
D d_model.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from t2t_jax.model.attention import KeysAndValues
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.embedding import Embedding
from t2t_jax.model.layers import Layer, Memory, Past, make_norm
from t2t_jax.model.masks import Packing, causal_mask, padding_mask, segment_mask
from t2t_jax.model.positions import EncodedPositions, check_length, make_positions

Cache = list[list[KeysAndValues]]  # per layer, per self-attention


class Stack(nn.Module):
    """Embedding, positions and layers.

    In an encoder, each position attends to all tokens. In a decoder (`is_causal`), it attends to
    itself, to those before it, and to memories if given.
    """

    config: TransformerConfig
    embedding: Embedding  # of tokens; may be shared
    num_layers: int
    is_causal: bool = False

    def setup(self) -> None:
        config = self.config
        self.positions = make_positions(config, is_causal=self.is_causal)
        self.embedding_norm = make_norm(config)
        self.dropout = make_dropout(config.dropout_rate, config.dropout_bits)
        self.layers = [Layer(config) for _ in range(self.num_layers)]
        self.norm = make_norm(config)

    def __call__(
        self,
        ids: Int[Array, "B T"],
        memories: list[Memory] | None = None,
        packing: Packing | None = None,
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Hidden states of all positions at once; a decoder takes one memory per layer.

        A decoder's ids are padded on the right, so that the causal mask hides padding from tokens.

        Raises:
          ValueError: an unpacked row is longer than the table of learned positions.
        """
        length = ids.shape[1]
        if packing is None:
            check_length(length, self.config)
            positions = jnp.arange(length)[None]
        else:
            positions = packing.positions
        mask = self._mask(positions, positions)
        if packing is not None:
            mask = mask & segment_mask(packing.segments, packing.segments)
        elif not self.is_causal:
            mask = mask & padding_mask(ids)
        encoded = self.positions(positions, positions)
        x = self._embed(ids, encoded, deterministic=deterministic)

        def through(layer: Layer, x: Array, memory: Memory | None) -> Array:
            return layer(x, mask, encoded, memory, deterministic=deterministic)[0]

        if self.config.scan_layers and self._is_alike:
            return self._normalised(self._scanned(through, x, memories, deterministic))
        if self.config.rematerialise:
            through = nn.remat(through)
        layers = self._each_layer(through, deterministic=deterministic)
        for layer, memory in zip(layers, self._each(memories), strict=True):
            x = layer(x, memory)
        return self._normalised(x)

    def memories(self, states: Float[Array, "B S D"], mask: Bool[Array, "#B #T S"]) -> list[Memory]:
        """Keys and values of an encoder's `states`, for each layer."""
        return [layer.memory(states, mask) for layer in self.layers]

    def start_cache(self, num_rows: int, max_length: int) -> Cache:
        """An empty cache for `step`, with room for `max_length` positions.

        Raises:
          ValueError: the table of learned positions is shorter.
        """
        check_length(max_length, self.config)
        return [layer.start_cache(num_rows, max_length) for layer in self.layers]

    def step(
        self,
        cache: Cache,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
        memories: list[Memory] | None = None,
    ) -> tuple[Float[Array, "N 1 D"], Cache]:
        """Hidden states of `last_ids`, which are at `position`, and the updated cache."""
        positions = position[None, None]
        key_positions = jnp.arange(cache[0][0].num_positions if cache else 1)[None]
        mask = self._mask(positions, key_positions)
        encoded = self.positions(positions, key_positions)
        x = self._embed(last_ids[:, None], encoded, deterministic=True)
        new_cache = []

        def through(layer: Layer, x: Array, memory: Memory | None, past: Past) -> tuple:
            return layer(x, mask, encoded, memory, past, deterministic=True)

        layers = self._each_layer(through, deterministic=True)
        for layer, memory, kept in zip(layers, self._each(memories), cache, strict=True):
            x, looked_at = layer(x, memory, Past(kept, position))
            new_cache.append(looked_at)
        return self._normalised(x), new_cache

    @property
    def _is_alike(self) -> bool:
        """Whether layers differ in parameters alone: not in initialisation or under capture."""
        is_heard = self.is_mutable_collection("intermediates")
        return self.num_layers > 0 and not self.is_initializing() and not is_heard

    def _each_layer(
        self, call: Callable[..., Any], *, deterministic: bool
    ) -> list[Callable[..., Any]]:
        """For each layer, `call` with that layer as its first argument.

        In a program, deterministic layers share one trace: a search is a dozen programs. Dropout
        is drawn by a layer's path, which a shared trace cannot know.
        """
        is_in_program = isinstance(jnp.arange(1), Tracer)  # outside, each call would compile
        if not (deterministic and self._is_alike and is_in_program):
            return [partial(call, layer) for layer in self.layers]

        @jax.jit
        def of_params(params: PyTree, *args: Any) -> Any:
            return call(_layer(self.config, params), *args)

        def of_layer(number: int, *args: Any) -> Any:
            with jax.named_scope(f"layers_{number}"):  # as profiles have it
                return of_params(self.layers[number].variables["params"], *args)

        return [partial(of_layer, number) for number in range(self.num_layers)]

    def _scanned(
        self,
        through: Callable[[Layer, Array, Memory | None], Array],
        x: Float[Array, "B T D"],
        memories: list[Memory] | None,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """`x` through the layers, as a loop over their stacked parameters."""
        key = None if deterministic else self.make_rng("dropout")

        def one(x: Array, of_layer: tuple) -> tuple[Array, None]:
            params, number, memory = of_layer
            rngs = {} if key is None else {"dropout": jax.random.fold_in(key, number)}
            return through(_layer(self.config, params, rngs), x, memory), None

        params = [layer.variables["params"] for layer in self.layers]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
        side_by_side = jax.tree.map(lambda *leaves: jnp.stack(leaves), *self._each(memories))
        if self.config.rematerialise:
            one = jax.checkpoint(one)
        return jax.lax.scan(one, x, (stacked, jnp.arange(self.num_layers), side_by_side))[0]

    def _mask(
        self, positions: Int[Array, "#B T"], key_positions: Int[Array, "#B S"]
    ) -> Bool[Array, "#B #T #S"]:
        """The mask from positions alone, for a full pass or a decoding step."""
        if self.is_causal:
            return causal_mask(positions, key_positions)
        return jnp.ones((1, 1, 1), bool)

    def _each(self, memories: list[Memory] | None) -> list[Memory] | list[None]:
        return [None] * self.num_layers if memories is None else memories

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
        match self.config.norm:
            case "pre":
                x = self.norm(x)
            case "post" | "none":
                pass
        self.sow("intermediates", "output", x)
        return x


def _layer(
    config: TransformerConfig, params: PyTree, rngs: dict[str, Key[Array, ""]] | None = None
) -> Layer:
    """A layer of no stack, with these parameters."""
    return Layer(config, parent=None).bind({"params": params}, rngs=rngs)
