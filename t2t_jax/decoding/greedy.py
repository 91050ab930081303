"""Greedy search: the likeliest token at every step.

Axes: B sentences, L output positions.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from t2t_jax.decoding.config import LengthPenaltyFormula
from t2t_jax.decoding.length_penalty import length_penalty as penalty
from t2t_jax.decoding.step import DecodeStep, Hypotheses, likeliest_next


class GreedyState(NamedTuple):
    """What one step passes to the next."""

    limits: Int[Array, " B"]
    last_ids: Int[Array, " B"]
    ids: Int[Array, "B L"]
    log_probs: Float[Array, " B"]
    is_going: Bool[Array, " B"]
    cache: PyTree


@dataclasses.dataclass(frozen=True)
class GreedySearch:
    """One hypothesis per sentence (W = 1), the same as `BeamSearch` with a beam of one."""

    length_penalty: float = 0.0  # alpha, which affects only the score, no choice
    length_penalty_formula: LengthPenaltyFormula = "gnmt"  # what alpha is the exponent of
    vocabulary_size: int | None = None  # ids from here on are never generated
    beam_size: int = dataclasses.field(default=1, init=False)

    def start(self, cache: PyTree, limits: Int[Array, " B"], room: int) -> GreedyState:
        """See `Search`."""
        num_sentences = limits.shape[0]
        return GreedyState(
            limits=limits,
            last_ids=jnp.full(num_sentences, START_ID, jnp.int32),
            ids=jnp.full((num_sentences, room), PAD_ID, jnp.int32),
            log_probs=jnp.zeros(num_sentences),
            is_going=limits > 0,
            cache=cache,
        )

    def extend(
        self, decode_step: DecodeStep, state: GreedyState, position: Int[Array, ""]
    ) -> GreedyState:
        """See `Search`."""
        logits, cache = decode_step(state.cache, state.last_ids, position)
        # At its last position, a sentence must end.
        must_end = position + 1 >= state.limits
        gains, likeliest = likeliest_next(logits, must_end, self.vocabulary_size, 1)
        ids = jnp.where(state.is_going, likeliest[:, 0], PAD_ID)
        total = jnp.where(state.is_going, state.log_probs + gains[:, 0], state.log_probs)
        return state._replace(
            last_ids=ids,
            ids=state.ids.at[:, position].set(ids),
            log_probs=total,
            is_going=state.is_going & (ids != END_ID) & (total > -jnp.inf),
            cache=cache,
        )

    def is_going(self, state: GreedyState) -> Bool[Array, " B"]:
        """See `Search`."""
        return state.is_going

    def found(self, state: GreedyState) -> Hypotheses:
        """See `Search`."""
        is_finished = jnp.any(state.ids == END_ID, axis=-1)
        num_tokens = jnp.sum(state.ids != PAD_ID, axis=-1)
        over = penalty(num_tokens, self.length_penalty, self.length_penalty_formula)
        return Hypotheses(
            ids=jnp.where(is_finished[:, None], state.ids, PAD_ID)[:, None],
            scores=jnp.where(is_finished, state.log_probs / over, -jnp.inf)[:, None],
        )
