"""The encoder-only family: predicts masked tokens (BERT, Devlin et al. 2019).

Axes: B batch, T positions, D d_model.
"""

from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.embedding import token_embedding, token_output
from t2t_jax.model.feed_forward import activated
from t2t_jax.model.interface import Inputs
from t2t_jax.model.layers import make_norm
from t2t_jax.model.linear import dense
from t2t_jax.model.masks import Packing
from t2t_jax.model.stack import Stack


class MaskedLanguageModel(nn.Module):
    """An encoder, and logits of each token as it was before masking.

    Between them is BERT's transform: LayerNorm(activation(x W + b)).
    """

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = output_embedding = token_embedding(config)
        if config.tied_embeddings == "none":
            self.output_embedding = output_embedding = token_embedding(config)
        self.encoder = Stack(config, self.embedding, config.num_encoder_layers)
        self.transform = dense(config.d_model, config.dtype)
        self.transform_norm = make_norm(config)
        self.output = token_output(output_embedding, config)

    def __call__(self, ids: Int[Array, "B T"], *, deterministic: bool) -> Float[Array, "B T vocab"]:
        """Logits of the original token at each position of `ids`."""
        return self.output(self._hidden(ids, None, deterministic))

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """The two factors of the logits at each of `source_ids`; ignores the targets."""
        x = self._hidden(inputs.source_ids, inputs.source_packing, deterministic)
        return self.output.factors(x)

    def _hidden(
        self, ids: Int[Array, "B T"], packing: Packing | None, deterministic: bool
    ) -> Float[Array, "B T D"]:
        x = self.encoder(ids, packing=packing, deterministic=deterministic)
        return self.transform_norm(activated(self.transform(x), self.config.activation))
