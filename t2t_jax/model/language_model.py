"""The decoder-only family: a decoder without a source, which continues a text (GPT).

Axes: B batch, T positions, N decoded rows, D d_model.
"""

from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import token_embedding, token_output
from t2t_jax.model.interface import Inputs
from t2t_jax.model.stack import Cache, Stack


class LanguageModel(nn.Module):
    """A causal stack of layers, its embedding, and the projection to logits."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = output_embedding = token_embedding(config)
        if config.tied_embeddings == "none":
            self.output_embedding = output_embedding = token_embedding(config)
        self.decoder = Stack(config, self.embedding, config.num_decoder_layers, is_causal=True)
        self.output = token_output(output_embedding, config)

    def __call__(self, ids: Int[Array, "B T"], *, deterministic: bool) -> Float[Array, "B T vocab"]:
        """Logits of the token after each of `ids`, which begin with the start token."""
        return self.output(self.decoder(ids, deterministic=deterministic))

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The two factors of the logits after each of `target_inputs`; ignores the source."""
        ids, packing = inputs.target_inputs, inputs.target_packing
        return self.output.factors(self.decoder(ids, packing=packing, deterministic=deterministic))

    def start_cache(self, num_rows: int, max_length: int) -> Cache:
        """An empty cache for `decode_step`, with room for `max_length` positions."""
        return self.decoder.start_cache(num_rows, max_length)

    def decode_step(
        self,
        cache: Cache,
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], Cache]:
        """Logits of the token after `last_ids`, which are at `position`, and the updated cache."""
        x, cache = self.decoder.step(cache, last_ids, position)
        return self.output(x)[:, 0], cache
