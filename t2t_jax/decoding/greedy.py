"""Greedy search: the likeliest token at every step.

Axes: B sentences, L output positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from t2t_jax.decoding.config import LengthPenaltyFormula
from t2t_jax.decoding.length_penalty import length_penalty as penalty
from t2t_jax.decoding.step import DecodeStep, Hypotheses, next_log_probs


class _State(NamedTuple):
    position: Int[Array, ""]
    last_ids: Int[Array, " B"]
    ids: Int[Array, "B L"]
    log_probs: Float[Array, " B"]
    is_going: Bool[Array, " B"]
    cache: PyTree


def greedy_search(
    decode_step: DecodeStep,
    cache: PyTree,
    limits: Int[Array, " B"],
    *,
    max_length: int,
    length_penalty: float = 0.0,
    length_penalty_formula: LengthPenaltyFormula = "gnmt",
    vocabulary_size: int | None = None,
) -> Hypotheses:
    """One hypothesis per sentence (W = 1): what `beam_search` finds with a beam of one.

    Args:
      decode_step: asked for the next logits of N = B rows.
      cache: as `decode_step` wants it before the first step.
      limits: most tokens each sentence may have, the end token included; 0 for a row that holds
        no sentence. In the last place a sentence has, it must end.
      max_length: L, the positions that `cache` has room for; limits above it count as it.
      length_penalty: alpha, which no choice depends on, only the score.
      length_penalty_formula: what alpha is the exponent of, see `length_penalty`.
      vocabulary_size: ids from here on are never generated.
    """
    limits = jnp.minimum(limits, max_length)

    def extend(state: _State) -> _State:
        logits, cache = decode_step(state.cache, state.last_ids, state.position)
        log_probs = next_log_probs(logits, state.position + 1 >= limits, vocabulary_size)
        ids = jnp.where(state.is_going, jnp.argmax(log_probs, axis=-1), PAD_ID)
        gains = jnp.take_along_axis(log_probs, ids[:, None], axis=-1)[:, 0]
        total = jnp.where(state.is_going, state.log_probs + gains, state.log_probs)
        return _State(
            position=state.position + 1,
            last_ids=ids,
            ids=state.ids.at[:, state.position].set(ids),
            log_probs=total,
            is_going=state.is_going & (ids != END_ID) & (total > -jnp.inf),
            cache=cache,
        )

    num_sentences = limits.shape[0]
    start = _State(
        position=jnp.zeros((), jnp.int32),
        last_ids=jnp.full(num_sentences, START_ID, jnp.int32),
        ids=jnp.full((num_sentences, max_length), PAD_ID, jnp.int32),
        log_probs=jnp.zeros(num_sentences),
        is_going=limits > 0,
        cache=cache,
    )
    end = jax.lax.while_loop(lambda state: jnp.any(state.is_going), extend, start)

    is_finished = jnp.any(end.ids == END_ID, axis=-1)
    num_tokens = jnp.sum(end.ids != PAD_ID, axis=-1)
    scores = end.log_probs / penalty(num_tokens, length_penalty, length_penalty_formula)
    return Hypotheses(
        ids=jnp.where(is_finished[:, None], end.ids, PAD_ID)[:, None],
        scores=jnp.where(is_finished, scores, -jnp.inf)[:, None],
    )
