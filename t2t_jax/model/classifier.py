"""The encoder-only family with pooling: classifies a sentence from one vector.

Axes: B batch, T positions, D d_model.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from t2t_jax.model.attention import make_attention
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.dropout import make_dropout
from t2t_jax.model.embedding import Embedding, Output, token_embedding
from t2t_jax.model.interface import Inputs
from t2t_jax.model.linear import dense
from t2t_jax.model.masks import is_token, padding_mask
from t2t_jax.model.stack import Stack

# The logit of class 0, padding, which no sentence has: its probability is 0 in float32.
_NO_CLASS = -1e9


class Pooling(nn.Module):
    """All positions of a sentence to one vector.

    pooling="cls" takes the first position, "mean" the mean over the tokens, "query" multi-head
    attention over them with a learned query.
    """

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        if config.pooling == "query":
            normal = nn.initializers.normal(1.0)
            self.query = self.param("query", normal, (1, 1, config.d_model))
            self.attention = make_attention(config)

    def __call__(
        self, x: Float[Array, "B T D"], ids: Int[Array, "B T"], *, deterministic: bool
    ) -> Float[Array, "B 1 D"]:
        match self.config.pooling:
            case "cls":
                return x[:, :1]
            case "mean":
                tokens = is_token(ids)[:, :, None]
                total = jnp.where(tokens, x, 0).sum(1, keepdims=True, dtype=jnp.float32)
                count = jnp.maximum(tokens.sum(1, keepdims=True), 1).astype(jnp.float32)
                return (total / count).astype(x.dtype)
            case "query":
                query = jnp.broadcast_to(self.query.astype(x.dtype), (x.shape[0], 1, x.shape[2]))
                return self.attention(query, x, padding_mask(ids), deterministic=deterministic)
            case "none":
                raise AssertionError("a model of masked tokens has no pooling")


class Classifier(nn.Module):
    """An encoder, pooling, an optional dense layer, and class logits."""

    config: TransformerConfig

    def setup(self) -> None:
        config = self.config
        self.embedding = token_embedding(config)
        self.encoder = Stack(config, self.embedding, config.num_encoder_layers)
        self.pooling = Pooling(config)
        self.pooler = dense(config.d_model, config.dtype)
        self.dropout = make_dropout(config.dropout_rate, config.dropout_bits)
        self.classes = Embedding(config.num_classes, config.d_model, scale=False)
        self.output = Output(self.classes, use_bias=True)

    def __call__(
        self, ids: Int[Array, "B T"], *, deterministic: bool
    ) -> Float[Array, "B num_classes"]:
        """Class logits of each row."""
        return self.output(self._hidden(ids, deterministic))[:, 0]

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B 1 E"], Float[Array, "classes E"]]:
        """The two factors of each row's class logits; classes count from 1, 0 is padding.

        Raises:
          ValueError: rows are packed, but a row has one class.
        """
        if inputs.packings is not None:
            raise ValueError(
                f"model.pooling={self.config.pooling!r} gives each row one class: its rows cannot "
                "be packed"
            )
        x, table = self.output.factors(self._hidden(inputs.source_ids, deterministic))
        no_class = jnp.zeros_like(table[:1]).at[:, -1].set(_NO_CLASS)
        return x, jnp.concatenate([no_class, table])

    def _hidden(self, ids: Int[Array, "B T"], deterministic: bool) -> Float[Array, "B 1 D"]:
        x = self.encoder(ids, deterministic=deterministic)
        x = self.pooling(x, ids, deterministic=deterministic)
        match self.config.pooler_activation:
            case "tanh":
                x = jnp.tanh(self.pooler(x))
            case "relu":
                x = jax.nn.relu(self.pooler(x))
            case "none":
                pass
        return self.dropout(x, deterministic=deterministic)
