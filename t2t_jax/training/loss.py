"""Label-smoothed cross-entropy in float32, as sums over target tokens (paper section 5.4).

Axes: B batch, T target positions, D d_model, G groups of rows (`model.embedding`).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from t2t_jax.data.batches.batches import Batch
from t2t_jax.data.vocabulary.vocabulary import PAD_ID, START_ID
from t2t_jax.model.embedding import table_logits
from t2t_jax.model.interface import Inputs, Model
from t2t_jax.model.masks import is_first, packing_of
from t2t_jax.training.config import LabelSmoothingMass

Sum = Float[Array, ""] | np.floating  # on devices, and once fetched


class Metrics(NamedTuple):
    """Sums over target tokens: they add up over devices and batches before any division."""

    loss: Sum  # nats, label-smoothed: what is minimised
    negative_log_likelihood: Sum  # nats, unsmoothed: what perplexity is made of
    correct: Sum  # tokens whose highest logit is the right one
    tokens: Sum


def sum_of(metrics: Sequence[Metrics]) -> Metrics:
    """All added up, in float64 on the host, where no small loss is lost beside a large one.

    Of several seeds, on an axis of the sums, each by itself.
    """
    columns: Any = zip(*jax.device_get(metrics), strict=True)
    sums: Any = (np.sum(column, axis=0, dtype=np.float64) for column in columns)
    return Metrics(*sums)


def perplexity(total: Metrics) -> float:
    """exp of the unsmoothed negative log-likelihood per token; inf where no float can hold it.

    Raises:
      ValueError: there are no tokens.
    """
    if total.tokens <= 0:
        raise ValueError("perplexity needs at least one token, but there are none")
    try:
        return math.exp(float(total.negative_log_likelihood) / float(total.tokens))
    except OverflowError:
        return math.inf


LossFn = Callable[[PyTree, Batch, Key[Array, ""] | None], tuple[Sum, Metrics]]


def shift_right(
    target_ids: Int[Array, "B T"], segments: Int[Array, "B T"] | None = None
) -> Int[Array, "B T"]:
    """What the decoder reads to write `target_ids`: the start token, then all but the last.

    With `segments` a row is several sequences, each of which has a start token of its own.
    """
    shifted = jnp.pad(target_ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]
    return shifted if segments is None else jnp.where(is_first(segments), START_ID, shifted)


def cross_entropy(
    logits: Float[Array, "B T vocab"],
    target_ids: Int[Array, "B T"],
    label_smoothing: float,
    mass: LabelSmoothingMass = "others",
) -> Metrics:
    """Cross-entropy with a smoothed target; padding counts for nothing.

    The paper leaves open which of the V rows of the vocabulary share the smoothing mass eps:

    - mass="others": each but the right one gets eps / (V - 1), as in tensor2tensor and fairseq;
    - mass="all": each gets eps / V, the right one too, as in PyTorch and optax;
    - mass="others_but_padding": each but the right one and padding's gets eps / (V - 2), as in
      JoeyNMT and the Annotated Transformer.

    The negative log-likelihood, of which perplexity is made, knows nothing of smoothing.
    """
    num_rows = logits.shape[-1]
    rows = jnp.arange(num_rows)[None, None]
    log_normaliser = jax.nn.logsumexp(logits, axis=-1)
    # A sum over a comparison, not a gather: its gradient needs no scatter.
    right_logit = jnp.where(rows == target_ids[..., None], logits, 0).sum(-1)
    negative_log_likelihood = log_normaliser - right_logit
    match mass:
        case "others":
            num_sharing = num_rows - 1
            of_sharing = num_sharing * log_normaliser - (logits.sum(-1) - right_logit)
        case "all":
            num_sharing = num_rows
            of_sharing = num_rows * log_normaliser - logits.sum(-1)
        case "others_but_padding":
            num_sharing = num_rows - 2
            # Left out of the sum, not subtracted: a classifier's row of padding is near -infinity.
            pieces = jnp.where(rows == PAD_ID, 0, logits)
            of_sharing = num_sharing * log_normaliser - (pieces.sum(-1) - right_logit)
    share = label_smoothing / max(num_sharing, 1)  # a vocabulary of one piece has no others
    loss = (1 - label_smoothing) * negative_log_likelihood + share * of_sharing

    is_token = target_ids != PAD_ID
    correct = right_logit >= logits.max(-1)
    return Metrics(
        loss=jnp.where(is_token, loss, 0).sum(),
        negative_log_likelihood=jnp.where(is_token, negative_log_likelihood, 0).sum(),
        correct=(is_token & correct).sum().astype(jnp.float32),
        tokens=is_token.sum().astype(jnp.float32),
    )


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def chunked_cross_entropy(
    x: Float[Array, "B T D"],
    tables: Float[Array, "G vocab D"],
    target_ids: Int[Array, "B T"],
    label_smoothing: float,
    mass: LabelSmoothingMass,
    tokens_per_chunk: int,
) -> Metrics:
    """`cross_entropy` of the logits x table^T, of which only a chunk is ever held.

    The gradient with respect to `x` and `tables` is made along with the loss, chunk by chunk, so
    that no logits are kept for it nor computed again. Only `loss` has a gradient.

    Each of the G groups of rows has a table and sums of its own over all chunks.
    """

    def of_group(table, x, target_ids):
        logits = table_logits(x, table[None])
        return cross_entropy(logits, target_ids, label_smoothing, mass)

    def add_chunk(total, chunk):
        return jax.tree.map(jnp.add, total, jax.vmap(of_group)(tables, *chunk)), None

    chunks = _chunks(x, target_ids, tokens_per_chunk, len(tables))
    return _summed(jax.lax.scan(add_chunk, _nothing(len(tables)), chunks)[0])


def _chunked_forward(x, tables, target_ids, label_smoothing, mass, tokens_per_chunk):
    def loss(logits, target_ids):
        metrics = cross_entropy(logits, target_ids, label_smoothing, mass)
        return metrics.loss, metrics

    def of_group(table, x, target_ids):
        logits, pulled_back = jax.vjp(table_logits, x, table[None])
        logits_grad, metrics = jax.grad(loss, has_aux=True)(logits, target_ids)
        x_grad, table_grad = pulled_back(logits_grad)
        return (metrics, table_grad[0]), x_grad

    def add_chunk(total, chunk):
        sums, x_grad = jax.vmap(of_group)(tables, *chunk)
        return jax.tree.map(jnp.add, total, sums), x_grad

    start = (_nothing(len(tables)), jnp.zeros(tables.shape, jnp.float32))
    chunks = _chunks(x, target_ids, tokens_per_chunk, len(tables))
    (metrics, table_grad), x_grads = jax.lax.scan(add_chunk, start, chunks)
    # chunks groups B t D -> B T D
    x_grad = jnp.moveaxis(x_grads, 0, 2).reshape(x.shape[0], -1, x.shape[2])[:, : x.shape[1]]
    return _summed(metrics), (x_grad, table_grad.astype(tables.dtype))


def _chunked_backward(label_smoothing, mass, tokens_per_chunk, grads, cotangent):
    x_grad, table_grad = grads
    scale = cotangent.loss
    return x_grad * scale.astype(x_grad.dtype), table_grad * scale, None


chunked_cross_entropy.defvjp(_chunked_forward, _chunked_backward)


def _nothing(row_groups: int) -> Metrics:
    return Metrics(*jnp.zeros((4, row_groups), jnp.float32))


def _summed(of_groups: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: leaf.sum(axis=0), of_groups)


def _chunks(
    x: Float[Array, "B T D"],
    target_ids: Int[Array, "B T"],
    tokens_per_chunk: int,
    row_groups: int,
) -> tuple[Float[Array, "chunks groups b t D"], Int[Array, "chunks groups b t"]]:
    """Slices along T, not B: the rows of a batch lie on different devices."""
    rows, length, _ = x.shape
    wanted = -(-rows * length // tokens_per_chunk)
    slice_length = -(-length // wanted)
    num_slices = -(-length // slice_length)
    padding = (0, num_slices * slice_length - length)
    x = jnp.pad(x, ((0, 0), padding, (0, 0)))
    target_ids = jnp.pad(target_ids, ((0, 0), padding))
    sliced = (row_groups, rows // row_groups, num_slices, slice_length)
    return (
        jnp.moveaxis(x.reshape(*sliced, -1), 2, 0),
        jnp.moveaxis(target_ids.reshape(sliced), 2, 0),
    )


def make_loss_fn(
    model: Model,
    label_smoothing: float,
    tokens_per_chunk: int = 0,
    mass: LabelSmoothingMass = "others",
) -> LossFn:
    """Builds `loss_fn(params, batch, dropout_key)`: the summed loss, and all sums.

    Every family of models gives its logits by `features`, as the two factors of `table_logits`; a
    bias of the logits is in them. On several devices the model has as many `row_groups`, or
    gradients of its table cross them several times.

    Without a key nothing is dropped. With `tokens_per_chunk` the logits of about so many target
    tokens are held at once, else those of the whole batch; the result is the same. `mass` is that
    of `cross_entropy`.
    """

    def loss_fn(
        params: PyTree, batch: Batch, dropout_key: Key[Array, ""] | None
    ) -> tuple[Sum, Metrics]:
        # Arrays of numpy where the function is not compiled.
        arrays: Any = jax.tree.map(jnp.asarray, batch)
        source_ids, target_ids, source_segments, target_segments = arrays
        inputs = Inputs(source_ids, shift_right(target_ids, target_segments))
        if source_segments is not None:
            packings = (packing_of(source_segments), packing_of(target_segments))
            inputs = inputs._replace(packings=packings)
        rngs = {} if dropout_key is None else {"dropout": dropout_key}
        bound = model.bind({"params": params}, rngs=rngs)
        factors = bound.features(inputs, deterministic=dropout_key is None)
        if tokens_per_chunk == 0:
            metrics = cross_entropy(table_logits(*factors), target_ids, label_smoothing, mass)
        else:
            metrics: Any = chunked_cross_entropy(
                *factors, target_ids, label_smoothing, mass, tokens_per_chunk
            )
        return metrics.loss, metrics

    return loss_fn
