"""Beam search with a length penalty (paper section 6.1, GNMT, tensor2tensor).

In: a `decode_step`, its cache, the most tokens each sentence may have. Out: the best finished
hypotheses of every sentence.

Axes: B sentences, W beams, N = B * W rows of the cache (the beams of sentence b are rows b * W to
b * W + W - 1), L output positions, C = 2 * W candidates.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from t2t_jax.decoding.config import LengthPenaltyFormula
from t2t_jax.decoding.length_penalty import length_penalty as penalty
from t2t_jax.decoding.step import DecodeStep, Hypotheses, likeliest_next


class BeamState(NamedTuple):
    """What one step passes to the next. A beam with log-probability -inf is not alive."""

    limits: Int[Array, " B"]
    alive_ids: Int[Array, "B W L"]
    last_ids: Int[Array, "B W"]
    alive_log_probs: Float[Array, "B W"]  # best first
    finished: Hypotheses
    cache: PyTree


class Candidates(NamedTuple):
    """The best continuations of each sentence's alive beams, best first."""

    beams: Int[Array, "B C"]  # the beam to continue
    ids: Int[Array, "B C"]  # the token to continue it with
    log_probs: Float[Array, "B C"]  # of the whole hypothesis


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """The `n_best` finished hypotheses of each sentence, by penalised log-probability.

    Each step considers the 2 W likeliest continuations of a sentence's W alive beams. Those among
    the first W that are the end token are finished; the W likeliest others stay alive (2 W ensure
    that there always are W). A sentence is done when its W likeliest continuations all end, or when
    no alive beam can score better than the worst hypothesis to return: the result can then no
    longer change.

    Departs from tensor2tensor: there, an end token anywhere among the 2 W finishes a hypothesis,
    and a sentence whose W likeliest continuations all end continues. Here, a beam of one is greedy
    search whatever the length penalty. And a sentence at its limit must end, so that every
    hypothesis is a whole sentence and its score the likelihood of one.
    """

    beam_size: int  # W
    n_best: int  # at most W; the first of those that n_best = W finds, perhaps in fewer steps
    length_penalty: float  # alpha, not negative
    length_penalty_formula: LengthPenaltyFormula = "gnmt"  # what alpha is the exponent of
    vocabulary_size: int | None = None  # ids from here on are never generated

    def start(self, cache: PyTree, limits: Int[Array, " B"], room: int) -> BeamState:
        """See `Search`. One beam per sentence is alive: W equal ones would stay equal."""
        num_sentences = limits.shape[0]
        is_alive = (jnp.arange(self.beam_size) == 0)[None] & (limits > 0)[:, None]
        return BeamState(
            limits=limits,
            alive_ids=jnp.full((num_sentences, self.beam_size, room), PAD_ID, jnp.int32),
            last_ids=jnp.full((num_sentences, self.beam_size), START_ID, jnp.int32),
            alive_log_probs=jnp.where(is_alive, 0.0, -jnp.inf).astype(jnp.float32),
            finished=Hypotheses(
                ids=jnp.full((num_sentences, self.n_best, room), PAD_ID, jnp.int32),
                scores=jnp.full((num_sentences, self.n_best), -jnp.inf, jnp.float32),
            ),
            cache=cache,
        )

    def extend(
        self, decode_step: DecodeStep, state: BeamState, position: Int[Array, ""]
    ) -> BeamState:
        """See `Search`."""
        logits, cache = decode_step(state.cache, state.last_ids.reshape(-1), position)
        must_end = jnp.repeat(position + 1 >= state.limits, self.beam_size)
        # No beam supplies more than 2 W candidates: first the best per beam, then of all beams.
        num_per_beam = min(2 * self.beam_size, logits.shape[-1])
        likeliest = likeliest_next(logits, must_end, self.vocabulary_size, num_per_beam)
        candidates = best_continuations(state.alive_log_probs, *likeliest)
        finished = _with_finished(state, candidates, position, self._penalty(position + 1))
        alive = _alive(candidates, self.beam_size)

        # Log-probabilities only fall and the penalty only grows, so no alive beam can score better
        # than its current log-probability over the penalty of the longest output.
        bound = alive.log_probs / self._penalty(state.limits)[:, None]
        can_win = bound > finished.scores[:, -1:]
        return BeamState(
            limits=state.limits,
            alive_ids=_extended_ids(state, alive, position),
            last_ids=alive.ids,
            alive_log_probs=jnp.where(can_win, alive.log_probs, -jnp.inf),
            finished=finished,
            cache=_reordered(cache, alive.beams),
        )

    def is_going(self, state: BeamState) -> Bool[Array, " B"]:
        """See `Search`."""
        return jnp.any(state.alive_log_probs > -jnp.inf, axis=1)

    def found(self, state: BeamState) -> Hypotheses:
        """See `Search`. Sorted best first, no two equal."""
        return state.finished

    def _penalty(self, num_tokens: Int[Array, "..."]) -> Float[Array, "..."]:
        return penalty(num_tokens, self.length_penalty, self.length_penalty_formula)


def best_continuations(
    alive_log_probs: Float[Array, "B W"],
    gains: Float[Array, "N per_beam"],
    ids: Int[Array, "N per_beam"],
) -> Candidates:
    """The 2 W likeliest continuations of each sentence, among those of its W beams."""
    num_sentences, beam_size = alive_log_probs.shape
    num_per_beam = gains.shape[1]
    totals = alive_log_probs[:, :, None] + gains.reshape(num_sentences, beam_size, num_per_beam)
    totals, places = jax.lax.top_k(totals.reshape(num_sentences, -1), 2 * beam_size)
    return Candidates(
        beams=places // num_per_beam,
        ids=jnp.take_along_axis(ids.reshape(num_sentences, -1), places, axis=1),
        log_probs=totals,
    )


def _with_finished(
    state: BeamState,
    candidates: Candidates,
    position: Int[Array, ""],
    this_penalty: Float[Array, ""],
) -> Hypotheses:
    """The best of earlier finished hypotheses and the end tokens among the first W candidates."""
    _, beam_size = state.alive_log_probs.shape
    first = jax.tree.map(lambda leaf: leaf[:, :beam_size], candidates)
    new_scores = jnp.where(first.ids == END_ID, first.log_probs / this_penalty, -jnp.inf)
    scores = jnp.concatenate([state.finished.scores, new_scores], axis=1)
    ids = jnp.concatenate([state.finished.ids, _extended_ids(state, first, position)], axis=1)
    scores, places = jax.lax.top_k(scores, state.finished.scores.shape[1])
    ids = jnp.take_along_axis(ids, places[:, :, None], axis=1)
    return Hypotheses(jnp.where((scores > -jnp.inf)[:, :, None], ids, PAD_ID), scores)


def _alive(candidates: Candidates, beam_size: int) -> Candidates:
    """The W likeliest candidates that do not end; none if a sentence's first W all end."""
    goes_on = (candidates.ids != END_ID) & (candidates.log_probs > -jnp.inf)
    any_goes_on = jnp.any(goes_on[:, :beam_size], axis=1, keepdims=True)
    log_probs, places = jax.lax.top_k(
        jnp.where(goes_on & any_goes_on, candidates.log_probs, -jnp.inf), beam_size
    )
    return Candidates(
        beams=jnp.take_along_axis(candidates.beams, places, axis=1),
        ids=jnp.take_along_axis(candidates.ids, places, axis=1),
        log_probs=log_probs,
    )


def _extended_ids(
    state: BeamState, candidates: Candidates, position: Int[Array, ""]
) -> Int[Array, "B C L"]:
    """All tokens of each candidate."""
    ids = jnp.take_along_axis(state.alive_ids, candidates.beams[:, :, None], axis=1)
    return ids.at[:, :, position].set(candidates.ids)


def _reordered(cache: PyTree, beams: Int[Array, "B W"]) -> PyTree:
    """The cache with beam w of each sentence replaced by its beam `beams[:, w]`.

    Sentence by sentence: indexing all N rows at once would first gather a cache that is split over
    devices by sentence.
    """

    def reordered(leaf: Array) -> Array:
        by_sentence = leaf.reshape(*beams.shape, *leaf.shape[1:])
        taken = jax.vmap(lambda rows, beam: rows.at[beam].get(mode="promise_in_bounds"))(
            by_sentence, beams
        )
        return taken.reshape(leaf.shape)

    return jax.tree.map(reordered, cache)
