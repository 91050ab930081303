"""Label-smoothed cross-entropy in float32, as sums over target tokens (paper section 5.4).

Axes: B batch, T target positions.
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
from t2t_jax.made_once import made_once
from t2t_jax.model.embedding import table_logits
from t2t_jax.model.ensemble import Ensemble, MembersAtOnce, params_of_members
from t2t_jax.model.interface import Inputs, Model
from t2t_jax.model.masks import is_first, packing_of
from t2t_jax.training.config import LabelSmoothingMass, LogitsDtype
from t2t_jax.training.logits_in_chunks import sums_over_chunks

Sum = Float[Array, ""] | np.floating  # on devices, or fetched


class Metrics(NamedTuple):
    """Sums over target tokens, added up over devices and batches before any division."""

    loss: Sum  # nats, label-smoothed: what is minimised
    negative_log_likelihood: Sum  # nats, unsmoothed: for perplexity
    correct: Sum  # tokens for which no logit is above the right one: ties count
    tokens: Sum


def sum_of(metrics: Sequence[Metrics]) -> Metrics:
    """The total, in float64 on the host: small losses are not lost beside large ones."""
    columns: Any = zip(*jax.device_get(metrics), strict=True)
    sums: Any = (np.sum(column, dtype=np.float64) for column in columns)
    return Metrics(*sums)


def perplexity(total: Metrics) -> float:
    """exp of the unsmoothed negative log-likelihood per token; inf if too large for a float.

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
    """The decoder's input for `target_ids`: the start token, then all but the last.

    With `segments`, a row is several sequences, each with its own start token.
    """
    shifted = jnp.pad(target_ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]
    return shifted if segments is None else jnp.where(is_first(segments), START_ID, shifted)


def cross_entropy(
    logits: Float[Array, "B T vocab"],
    target_ids: Int[Array, "B T"],
    label_smoothing: float,
    mass: LabelSmoothingMass = "others",
) -> Metrics:
    """Cross-entropy with a smoothed target; padding is ignored.

    The paper leaves open which of the V rows of the vocabulary share the smoothing mass eps:

    - mass="others": each but the right one gets eps / (V - 1), as in tensor2tensor and fairseq;
    - mass="all": each gets eps / V, the right one too, as in PyTorch and optax;
    - mass="others_but_padding": each but the right one and padding gets eps / (V - 2), as in
      JoeyNMT and the Annotated Transformer.

    The negative log-likelihood, used for perplexity, is not smoothed. Whatever the type of the
    logits, all sums are in float32.
    """
    logits = logits.astype(jnp.float32)
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
            # Left out of the sum, not subtracted: a classifier's padding logit is near -infinity.
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


@made_once
def make_loss_fn(
    model: Model,
    label_smoothing: float,
    tokens_per_chunk: int = 0,
    mass: LabelSmoothingMass = "others",
    logits_dtype: LogitsDtype = "float32",
    members_at_once: bool = False,
) -> LossFn:
    """Builds `loss_fn(params, batch, dropout_key)`: the summed loss, and all sums.

    Every model family returns its logits through `features`, as the two factors of `table_logits`,
    including any bias.

    Without a key, nothing is dropped. With `tokens_per_chunk`, the logits of about that many target
    tokens are held at once, else those of the whole batch; the result is the same. `mass` is that
    of `cross_entropy`. Logits are stored in `logits_dtype`, but never in fewer bits than the
    activations.

    The members of an ensemble are trained apart: with a key, the summed loss is that of all, and
    all other sums are the members' means. Without one, they are those of the mean of the logits.
    With `members_at_once`, they are one computation of larger arrays instead of one after another;
    with a key, `params` is then `stacked`.
    """
    options = (label_smoothing, tokens_per_chunk, mass, logits_dtype)
    together = _loss_of_logits(model, *options, members_at_once)
    if not isinstance(model, Ensemble):
        return together
    of_members = [make_loss_fn(each, *options) for each in model.members]

    def loss_fn(
        params: PyTree, batch: Batch, dropout_key: Key[Array, ""] | None
    ) -> tuple[Sum, Metrics]:
        if dropout_key is None:
            return together(params, batch, None)
        if members_at_once:
            keys = [jax.random.fold_in(dropout_key, number) for number in range(len(of_members))]
            at_once = jax.vmap(of_members[0], in_axes=(0, None, 0))
            loss, metrics = at_once(params, batch, jnp.stack(keys))
            return loss.sum(), jax.tree.map(jnp.mean, metrics)
        each = zip(of_members, params_of_members(params), strict=True)
        sums = [
            of_member(own, batch, jax.random.fold_in(dropout_key, number))
            for number, (of_member, own) in enumerate(each)
        ]
        loss, metrics = jax.tree.map(lambda *of_each: sum(of_each), *sums)
        return loss, jax.tree.map(lambda total: total / len(sums), metrics)

    return loss_fn


def _loss_of_logits(
    model: Model,
    label_smoothing: float,
    tokens_per_chunk: int,
    mass: LabelSmoothingMass,
    logits_dtype: LogitsDtype,
    members_at_once: bool,
) -> LossFn:
    of_logits = partial(cross_entropy, label_smoothing=label_smoothing, mass=mass)

    def loss_fn(
        params: PyTree, batch: Batch, dropout_key: Key[Array, ""] | None
    ) -> tuple[Sum, Metrics]:
        # NumPy arrays if the function is not compiled.
        arrays: Any = jax.tree.map(jnp.asarray, batch)
        source_ids, target_ids, source_segments, target_segments = arrays
        inputs = Inputs(source_ids, shift_right(target_ids, target_segments))
        if source_segments is not None:
            packings = (packing_of(source_segments), packing_of(target_segments))
            inputs = inputs._replace(packings=packings)
        bound: Any
        if members_at_once and isinstance(model, Ensemble):
            bound = MembersAtOnce(model, params)  # without a key
        else:
            rngs = {} if dropout_key is None else {"dropout": dropout_key}
            bound = model.bind({"params": params}, rngs=rngs)
        x, table = bound.features(inputs, deterministic=dropout_key is None)
        dtype = jnp.promote_types(x.dtype, logits_dtype)
        if tokens_per_chunk == 0:
            metrics = of_logits(table_logits(x, table, dtype), target_ids)
        else:
            metrics: Any = sums_over_chunks(
                of_logits, x, table, target_ids, tokens_per_chunk, dtype
            )
        return metrics.loss, metrics

    return loss_fn
