"""A search as a tree: every hypothesis it kept, and what ended each.

The actual search runs, one step at a time, with its candidates recorded at each step.

Axes: N rows of the cache, W beams, C candidates of a step, L output positions; one sentence.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID
from t2t_jax.decoding.beam_search import BeamSearch, BeamState, Candidates, best_continuations
from t2t_jax.decoding.length_penalty import length_penalty
from t2t_jax.decoding.step import likeliest_next
from t2t_jax.decoding.translate import TranslationDecoder

# What ended a hypothesis:
#   "end"          it reached the end token
#   "limit"        it had to end, having as many tokens as allowed
#   "crowded_out"  the likeliest W continuations all belonged to other hypotheses
#   "cannot_win"   no continuation could score better than a finished hypothesis
Ending = Literal["end", "limit", "crowded_out", "cannot_win"]
_Ids = tuple[int, ...]  # of a hypothesis so far


class Node(NamedTuple):
    """A token that the search kept, after those of its parents."""

    parent: int  # index in the list; -1 for a first token
    id: int
    log_prob: float  # of all tokens up to this one, nats
    ending: Ending | None = None  # for the last token of a hypothesis
    score: float | None = None  # for an end token: log_prob over the length penalty


class SearchTree(NamedTuple):
    """Everything the search kept; parents come before their children."""

    beam_size: int  # W
    nodes: list[Node]
    best: int  # index of the end token of the search's result

    def path(self, place: int) -> list[int]:
        """The indices of the nodes from the first token to this one."""
        places = []
        while place >= 0:
            places.append(place)
            place = self.nodes[place].parent
        return places[::-1]

    @property
    def best_ids(self) -> list[int]:
        """The tokens of the search's result, including the end token."""
        return [self.nodes[place].id for place in self.path(self.best)]


def search_tree(decoder: TranslationDecoder, params: PyTree, source_ids: list[int]) -> SearchTree:
    """The search of `decoder` for one sentence, whose ids include the end token.

    Raises:
      ValueError: the model diverged: no sentence has a probability.
    """
    search, config = decoder.search, decoder.config
    limit = decoder.most_tokens(len(source_ids))
    places: dict[_Ids, int] = {}
    nodes: list[Node] = []

    def add(ids: _Ids, log_prob: float, **facts: Any) -> None:
        places[ids] = len(nodes)
        nodes.append(Node(places.get(ids[:-1], -1), ids[-1], log_prob, **facts))

    beams: list[_Ids] = [()]
    for position, candidates, state in _steps(decoder, params, source_ids, limit):
        length = position + 1
        now = _beams(state, length)
        alive = {ids for ids, log_prob in now if log_prob > -np.inf}
        cut = {ids for ids, _ in now} - alive
        over = length_penalty(length, config.length_penalty, config.length_penalty_formula)
        for rank, (beam, token_id, log_prob) in enumerate(candidates):
            if log_prob == -np.inf:
                continue
            ids = (*beams[beam], token_id)
            if token_id == END_ID and rank < search.beam_size:
                ending = "limit" if length == limit else "end"
                add(ids, log_prob, ending=ending, score=log_prob / float(over))
            elif token_id != END_ID and ids in alive | cut:
                add(ids, log_prob, ending="cannot_win" if ids in cut else None)
        beams = [ids for ids, _ in now]
    finished = {place: node.score for place, node in enumerate(nodes) if node.score is not None}
    if not finished:
        raise ValueError(
            "the model's probabilities are NaN: it diverged in training and cannot translate"
        )
    best = max(finished, key=finished.__getitem__)
    has_child = {node.parent for node in nodes}
    nodes = [
        node._replace(ending="crowded_out")
        if node.ending is None and place not in has_child
        else node
        for place, node in enumerate(nodes)
    ]
    return SearchTree(search.beam_size, nodes, best)


def _steps(
    decoder: TranslationDecoder, params: PyTree, source_ids: list[int], limit: int
) -> Iterator[tuple[int, list[tuple[int, int, float]], Any]]:
    """For each step: its position, its candidates (beam, id, log-probability), the state after."""
    search = decoder.search

    def start(params: PyTree) -> Any:
        return decoder.start(params, jnp.asarray([source_ids], jnp.int32), limit)

    def extend(params: PyTree, encoded: PyTree, state: Any, position: Any) -> Any:
        seen = []
        decode_step = decoder.decode_step(params, encoded)

        def seen_step(*arguments: Any) -> Any:
            logits, cache = decode_step(*arguments)
            seen.append(logits)
            return logits, cache

        after = search.extend(seen_step, state, position)
        must_end = jnp.repeat(position + 1 >= state.limits, search.beam_size)
        num_per_beam = min(2 * search.beam_size, seen[0].shape[-1])
        likeliest = likeliest_next(seen[0], must_end, decoder.vocabulary_size, num_per_beam)
        before = state.alive_log_probs if isinstance(search, BeamSearch) else state.log_probs[None]
        return after, best_continuations(before, *likeliest), search.is_going(after)

    rows = jax.jit(start)(params)
    extend = jax.jit(extend)
    state, is_going = rows.state, bool(search.is_going(rows.state)[0])
    position = 0
    while is_going and position < limit:
        state, found, goes_on = extend(params, rows.encoded, state, jnp.int32(position))
        yield position, _listed(found), state
        is_going = bool(goes_on[0])
        position += 1


def _listed(found: Candidates) -> list[tuple[int, int, float]]:
    beams, ids, log_probs = (np.asarray(leaf)[0].tolist() for leaf in found)
    return list(zip(beams, ids, log_probs, strict=True))


def _beams(state: Any, length: int) -> list[tuple[_Ids, float]]:
    """The tokens of each beam, and their log-probability; -inf if it is not alive."""
    if isinstance(state, BeamState):
        ids, log_probs = state.alive_ids[0], state.alive_log_probs[0]
    else:
        ids, log_probs = state.ids, jnp.where(state.is_going, state.log_probs, -jnp.inf)
    rows = map(tuple, np.asarray(ids)[:, :length].tolist())
    return list(zip(rows, np.asarray(log_probs).tolist(), strict=True))
