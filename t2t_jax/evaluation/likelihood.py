"""The log-likelihood of given translations under a model (teacher forcing).

Axes: B pairs, T positions, the same for source and target.
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
from t2t_jax.made_once import made_once
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
      sources: one sentence each.
      targets: a translation of each source.
      model: of any family that translates.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      compile: compiles the forward pass, such as `jax.jit`. Rows are independent, so it may also
        shard them over devices.
      tokens_per_batch: rows of a batch times its longest side, padding included: logits at once.
      row_multiple: the rows of every batch are a multiple of it, for a `compile` that shards them.

    Raises:
      ValueError: not as many targets as sources, or a sentence is longer than the model's learned
        positions.
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


@made_once
def _log_likelihood(model: TranslationModel) -> _LogLikelihood:
    def log_likelihood(params: PyTree, pairs: _Pairs) -> Float[Array, " B"]:
        source_ids, target_ids = pairs
        inputs = shift_right(target_ids)
        logits = model.bind({"params": params})(source_ids, inputs, deterministic=True)
        of_tokens = optax.softmax_cross_entropy_with_integer_labels(logits, target_ids)
        return -jnp.where(target_ids == PAD_ID, 0, of_tokens).sum(1)

    return log_likelihood
