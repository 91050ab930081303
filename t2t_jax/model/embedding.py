"""Token ids to vectors and vectors to logits (paper section 3.4).

Axes: B batch, T positions, D d_model, G groups of rows.

Where the rows of a batch lie on devices, G is their number: each device reads a table of its own
and sums the gradients of all its uses, before the devices sum theirs once a (micro)batch. G is 1
elsewhere.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, Shaped

from t2t_jax.model.config import EmbeddingInit, TransformerConfig


class Embedding(nn.Module):
    """A table of vectors that is read by id, and multiplied by to give logits."""

    num_rows: int
    d_model: int
    scale: bool  # vectors times sqrt(d_model)
    table_init: EmbeddingInit = "inverse_sqrt_d_model"
    dtype: DTypeLike = jnp.float32
    row_groups: int = 1  # G

    def setup(self) -> None:
        match self.table_init:
            case "inverse_sqrt_d_model":
                # N(0, 1/d): logits start near N(0, 1), and so do the scaled vectors.
                deviation = self.d_model**-0.5
            case "unit":
                deviation = 1.0
        shape = (self.num_rows, self.d_model)
        table = self.param("table", nn.initializers.normal(deviation), shape)
        self.tables = jnp.broadcast_to(table, (self.row_groups, *shape))

    def __call__(self, ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """The vectors of `ids`."""
        grouped = _grouped(ids, self.tables)
        vectors = jax.vmap(lambda table, ids: jnp.take(table, ids, axis=0))(self.tables, grouped)
        vectors = vectors.reshape(*ids.shape, self.d_model).astype(self.dtype)
        return vectors * jnp.asarray(self.d_model**0.5 if self.scale else 1, self.dtype)


class Output(nn.Module):
    """How well each row of a table fits a vector: the logits, in float32."""

    embedding: Embedding  # whose table it is
    scale: bool = False  # over sqrt(d_model)
    use_bias: bool = False  # one number for each logit

    def setup(self) -> None:
        if self.use_bias:
            zeros = nn.initializers.zeros_init()
            self.bias = self.param("bias", zeros, (self.embedding.num_rows,))

    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T vocab"]:
        """x table^T, scaled, plus the bias."""
        logits = table_logits(self._scaled(x), self.embedding.tables)
        return logits + self.bias[None, None] if self.use_bias else logits

    def factors(
        self, x: Float[Array, "B T D"]
    ) -> tuple[Float[Array, "B T E"], Float[Array, "G vocab E"]]:
        """Two factors whose `table_logits` these are, for a loss that wants them in parts.

        A bias is two more columns of the table, and two of ones beside `x`: E = D + 2. The second
        has what the first loses where the product is made in bfloat16.
        """
        x, tables = self._scaled(x), self.embedding.tables
        if not self.use_bias:
            return x, tables
        ones = jnp.ones((*x.shape[:2], 2), x.dtype)
        rounded = jax.lax.stop_gradient(self.bias.astype(x.dtype).astype(jnp.float32))
        bias = jnp.stack([rounded, self.bias - rounded], axis=-1)
        biases = jnp.broadcast_to(bias, (len(tables), *bias.shape))
        return jnp.concatenate([x, ones], axis=-1), jnp.concatenate([tables, biases], axis=-1)

    def _scaled(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return x / jnp.asarray(self.embedding.d_model**0.5, x.dtype) if self.scale else x


@jax.custom_vjp
def table_logits(
    x: Float[Array, "B T D"], tables: Float[Array, "G vocab D"]
) -> Float[Array, "B T vocab"]:
    """x table^T, multiplied in the type of `x` and summed in float32, as the table's gradient."""
    tables = tables.astype(x.dtype)
    logits = jnp.einsum(
        "GBTD,GVD->GBTV", _grouped(x, tables), tables, preferred_element_type=jnp.float32
    )
    return logits.reshape(*x.shape[:2], -1)


def _logits_forward(x, tables):
    return table_logits(x, tables), (x, tables)


def _logits_backward(kept, grad):
    x, tables = kept
    grad = _grouped(grad.astype(x.dtype), tables)
    x_grad = jnp.einsum("GBTV,GVD->GBTD", grad, tables.astype(x.dtype)).reshape(x.shape)
    table_grad = jnp.einsum(
        "GBTV,GBTD->GVD", grad, _grouped(x, tables), preferred_element_type=tables.dtype
    )
    return x_grad, table_grad


def _grouped(rows: Shaped[Array, "B ..."], tables: Array) -> Shaped[Array, "G b ..."]:
    return rows.reshape(len(tables), len(rows) // len(tables), *rows.shape[1:])


table_logits.defvjp(_logits_forward, _logits_backward)


def token_embedding(config: TransformerConfig, row_groups: int) -> Embedding:
    """A vector for each id."""
    return Embedding(
        config.vocabulary_rows,
        config.d_model,
        config.scale_embeddings,
        config.embedding_init,
        config.dtype,
        row_groups,
    )


def token_output(embedding: Embedding, config: TransformerConfig) -> Output:
    """A logit for each id."""
    return Output(embedding, config.scale_logits, config.output_bias)
