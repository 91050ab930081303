"""How likely a model finds given translations, each by itself (teacher forcing).

Axes: B pairs, T positions of source and target alike.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, Vocabulary
from t2t_jax.decoding.length_batches import (
    LengthBatch,
    batches_by_length,
    check_lengths,
    padded_ids,
    worked_ahead,
)
from t2t_jax.model.interface import TranslationModel
from t2t_jax.training.loss import shift_right

_Pairs = tuple[Int[Array, "B T"], Int[Array, "B T"]]
_LogLikelihood = Callable[[PyTree, _Pairs], Float[Array, " B"]]


def log_likelihoods(
    sources: Sequence[str],
    targets: Sequence[str],
    model: TranslationModel,
    params: PyTree,
    vocabulary: Vocabulary,
    *,
    compile: Callable[[_LogLikelihood], _LogLikelihood],
    tokens_per_batch: int = 2_048,
    row_multiple: int = 1,
) -> Float[np.ndarray, " pairs"]:
    """The log-probability of each target given its source, in nats, end token included.

    Args:
      sources: a sentence each.
      targets: a translation of each source.
      model: of any family that translates.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      compile: what compiles the forward pass, such as `jax.jit`. Rows know nothing of each other,
        so it may also cut them over devices.
      tokens_per_batch: longest side times rows at once, padding included: so many rows of logits.
      row_multiple: every batch has a multiple of so many rows, for a `compile` that cuts them.

    Raises:
      ValueError: not as many targets as sources, or one that is longer than the model has learned
        positions for.
    """
    if len(sources) != len(targets):
        raise ValueError(
            f"there are {len(sources)} sources and {len(targets)} targets, but they are pairs"
        )
    source_ids = [[*ids, END_ID] for ids in vocabulary.encode(list(sources))]
    target_ids = [[*ids, END_ID] for ids in vocabulary.encode_target(list(targets))]
    max_positions = model.config.longest_sequence
    for side in (source_ids, target_ids):
        check_lengths(side, max_positions, counted="end token")
    batches = batches_by_length(
        [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)],
        tokens_per_batch=tokens_per_batch,
        row_multiple=row_multiple,
        max_length=max_positions,
    )
    compiled = compile(_log_likelihood(model))

    def start(batch: LengthBatch) -> Float[Array, " B"]:
        source, target = (jnp.asarray(padded_ids(batch, ids)) for ids in (source_ids, target_ids))
        return compiled(params, (source, target))

    found = np.zeros(len(sources))
    for batch, values in worked_ahead(batches, start):
        found[batch.places] = np.asarray(values)[: len(batch.places)]
    return found


def _log_likelihood(model: TranslationModel) -> _LogLikelihood:
    def log_likelihood(params: PyTree, pairs: _Pairs) -> Float[Array, " B"]:
        source_ids, target_ids = pairs
        inputs = shift_right(target_ids)
        logits = model.bind({"params": params})(source_ids, inputs, deterministic=True)
        of_tokens = optax.softmax_cross_entropy_with_integer_labels(logits, target_ids)
        return -jnp.where(target_ids == PAD_ID, 0, of_tokens).sum(1)

    return log_likelihood
