"""Label-smoothed cross-entropy in float32, as sums over target tokens (paper section 5.4).

Axes: B batch, T target positions.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int, Key, PyTree

from t2t_jax.data.batches import Batch
from t2t_jax.data.vocabulary import PAD_ID, START_ID


class Metrics(NamedTuple):
    """Sums over target tokens: they add up over devices and batches before any division."""

    loss: Float[Array, ""]  # nats, label-smoothed: what is minimised
    negative_log_likelihood: Float[Array, ""]  # nats, unsmoothed: what perplexity is made of
    correct: Float[Array, ""]  # tokens whose highest logit is the right one
    tokens: Float[Array, ""]


LossFn = Callable[[PyTree, Batch, Key[Array, ""] | None], tuple[Float[Array, ""], Metrics]]


def shift_right(target_ids: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """What the decoder reads to write `target_ids`: the start token, then all but the last."""
    return jnp.pad(target_ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]


def cross_entropy(
    logits: Float[Array, "B T vocab"], target_ids: Int[Array, "B T"], label_smoothing: float
) -> Metrics:
    """Cross-entropy with a target of 1 - eps on the right token; padding counts for nothing.

    The mass eps is spread evenly over the other rows of the vocabulary, eps / (V - 1) each, as
    tensor2tensor does; the paper leaves open where it goes.
    """
    num_rows = logits.shape[-1]
    is_target = jnp.arange(num_rows)[None, None] == target_ids[..., None]
    log_normaliser = jax.nn.logsumexp(logits, axis=-1)
    # A sum over a comparison, not a gather: its gradient needs no scatter.
    right_logit = jnp.where(is_target, logits, 0).sum(-1)
    negative_log_likelihood = log_normaliser - right_logit
    others = num_rows * log_normaliser - logits.sum(-1) - negative_log_likelihood
    smoothing = label_smoothing / (num_rows - 1)
    loss = (1 - label_smoothing) * negative_log_likelihood + smoothing * others

    is_token = target_ids != PAD_ID
    correct = right_logit >= logits.max(-1)
    return Metrics(
        loss=jnp.where(is_token, loss, 0).sum(),
        negative_log_likelihood=jnp.where(is_token, negative_log_likelihood, 0).sum(),
        correct=(is_token & correct).sum().astype(jnp.float32),
        tokens=is_token.sum().astype(jnp.float32),
    )


def make_loss_fn(model: nn.Module, label_smoothing: float) -> LossFn:
    """Builds `loss_fn(params, batch, dropout_key)`: the summed loss, and all sums.

    Without a key nothing is dropped.
    """

    def loss_fn(params, batch, dropout_key):
        logits = model.apply(
            {"params": params},
            batch.source_ids,
            shift_right(batch.target_ids),
            deterministic=dropout_key is None,
            rngs={} if dropout_key is None else {"dropout": dropout_key},
        )
        metrics = cross_entropy(logits, batch.target_ids, label_smoothing)
        return metrics.loss, metrics

    return loss_fn
