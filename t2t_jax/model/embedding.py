"""Token ids to vectors and vectors to logits (paper section 3.4).

Axes: B batch, T positions, D d_model.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from t2t_jax.model.config import EmbeddingInit, TransformerConfig
from t2t_jax.model.linear import affine
from t2t_jax.model.look_up import look_up
from t2t_jax.model.products import are_rounded, is_in_bfloat16, rounded


class Embedding(nn.Module):
    """A table of vectors, read by id, and multiplied by for logits."""

    num_rows: int
    d_model: int
    scale: bool  # vectors times sqrt(d_model)
    table_init: EmbeddingInit = "inverse_sqrt_d_model"
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        match self.table_init:
            case "inverse_sqrt_d_model":
                # N(0, 1/d): logits and scaled vectors start near N(0, 1).
                deviation = self.d_model**-0.5
            case "unit":
                deviation = 1.0
        shape = (self.num_rows, self.d_model)
        self.table = self.param("table", nn.initializers.normal(deviation), shape)

    def __call__(self, ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """The vectors of `ids`."""
        vectors = look_up(self.table, ids).astype(self.dtype)
        return vectors * jnp.asarray(self.d_model**0.5 if self.scale else 1, self.dtype)


class Output(nn.Module):
    """Logits, in float32: how well each row of a table fits a vector."""

    embedding: Embedding  # owns the table
    scale: bool = False  # divide by sqrt(d_model)
    use_bias: bool = False  # one number per logit

    def setup(self) -> None:
        if self.use_bias:
            zeros = nn.initializers.zeros_init()
            self.bias = self.param("bias", zeros, (self.embedding.num_rows,))

    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T vocab"]:
        """x table^T, scaled, plus the bias."""
        logits = table_logits(self._scaled(x), self.embedding.table)
        return logits + self.bias[None, None] if self.use_bias else logits

    def factors(
        self, x: Float[Array, "B T D"]
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """Two factors whose `table_logits` are the logits, for a loss that computes them in parts.

        A bias adds two columns to the table, and two of ones to `x`: E = D + 2. The second holds
        what the first loses when rounded to bfloat16.
        """
        x, table = self._scaled(x), self.embedding.table
        if not self.use_bias:
            return x, table
        ones = jnp.ones((*x.shape[:2], 2), x.dtype)
        # Two casts would do the same, but XLA may leave them out.
        kind = jnp.finfo(jnp.bfloat16 if are_rounded(x.dtype) else x.dtype)
        first = jax.lax.reduce_precision(self.bias, kind.nexp, kind.nmant)
        first = jax.lax.stop_gradient(first)
        bias = jnp.stack([first, self.bias - first], axis=-1)
        return jnp.concatenate([x, ones], axis=-1), jnp.concatenate([table, bias], axis=-1)

    def _scaled(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return x / jnp.asarray(self.embedding.d_model**0.5, x.dtype) if self.scale else x


def table_logits(
    x: Float[Array, "B T D"], table: Float[Array, "vocab D"], dtype: DTypeLike = jnp.float32
) -> Float[Array, "B T vocab"]:
    """x table^T, multiplied in the type of `x` and summed in float32, like the table's gradient.

    `dtype` is the type in which the logits and their gradient are stored. In training and in a
    search, the products may be rounded (products.py).
    """
    if are_rounded(x.dtype) and not is_in_bfloat16(table, x.dtype):
        logits = affine(x.reshape(-1, x.shape[-1]), table.T, None)
        return logits.astype(dtype).reshape(*x.shape[:-1], -1)
    return _table_logits(x, table, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _table_logits(
    x: Float[Array, "B T D"], table: Float[Array, "vocab D"], dtype: DTypeLike
) -> Any:
    # A product of two matrices, also in the gradients: more axes take a tenth longer on a CPU.
    rows = x.reshape(-1, x.shape[-1])
    if is_in_bfloat16(table, x.dtype):
        rows = rounded(rows)
    table = table.astype(rows.dtype)
    logits = jnp.einsum("ND,VD->NV", rows, table, preferred_element_type=dtype)
    return logits.reshape(*x.shape[:-1], -1)


def _logits_forward(x, table, dtype):
    return _table_logits(x, table, dtype), (x, table)


def _logits_backward(_, kept, grad):
    x, table = kept
    rows, grad = x.reshape(-1, x.shape[-1]), grad.astype(x.dtype).reshape(-1, grad.shape[-1])
    x_grad = jnp.einsum("NV,VD->ND", grad, table.astype(x.dtype)).reshape(x.shape)
    return x_grad, jnp.einsum("NV,ND->VD", grad, rows, preferred_element_type=table.dtype)


_table_logits.defvjp(_logits_forward, _logits_backward)


def token_embedding(config: TransformerConfig) -> Embedding:
    """A vector per id."""
    return Embedding(
        config.vocabulary_rows,
        config.d_model,
        config.scale_embeddings,
        config.embedding_init,
        config.dtype,
    )


def token_output(embedding: Embedding, config: TransformerConfig) -> Output:
    """A logit per id."""
    return Output(embedding, config.scale_logits, config.output_bias)
