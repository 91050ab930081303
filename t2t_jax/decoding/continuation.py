"""What a language model writes after prompts: one loop for prompts of all lengths.

In: a `decode_step`, its cache, prompts. Out: every chosen token and the model's likeliest tokens,
before any temperature or cut.

Axes: B rows, P prompt positions, L positions, M best next tokens.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID
from t2t_jax.decoding.sampling import Sampling, choose, position_keys
from t2t_jax.decoding.step import DecodeStep, next_log_probs


class Prompts(NamedTuple):
    """Texts to continue, one per row."""

    ids: Int[Array, "B P"]  # everything the model reads, its start token included; padded
    num_tokens: Int[Array, " B"]  # of `ids`; 0 for a row without a prompt
    keys: Key[Array, " B"]  # the only randomness of the row's choices


class Continuations(NamedTuple):
    """Index l holds what follows position l; after a prompt of p tokens, new ones start at p - 1.

    The prompt's own tokens have their numbers too. After a row's end, everything is 0.
    """

    ids: Int[Array, "B L"]
    logits: Float[Array, "B L"]
    probs: Float[Array, "B L"]
    best_ids: Int[Array, "B L M"]  # likeliest first, of those that may come next
    best_logits: Float[Array, "B L M"]
    best_probs: Float[Array, "B L M"]


class _State(NamedTuple):
    """What one position passes to the next."""

    position: Int[Array, ""]
    last_ids: Int[Array, " B"]  # the tokens at `position`
    is_going: Bool[Array, " B"]
    written: Continuations
    cache: PyTree


def continue_prompts(
    decode_step: DecodeStep,
    cache: PyTree,
    prompts: Prompts,
    *,
    max_new_tokens: int,
    sampling: Sampling,
    top_n: int = 0,
    vocabulary_size: int | None = None,
) -> Continuations:
    """Continues each prompt until its end token, or for `max_new_tokens` tokens.

    A token depends only on its row's prompt, its row's key and its position: neither other rows nor
    padding change it. If the model's probabilities are NaN, a row ends, and the numbers of its last
    token are NaN too.

    Args:
      decode_step: returns the next logits of B rows, from position 0 on.
      cache: for `decode_step` before the first step, with room for L = P + max_new_tokens - 1
        positions: the last token is never read.
      prompts: P at least 1.
      max_new_tokens: at least 1, the end token included.
      sampling: how to choose a token.
      top_n: M, the best next tokens to record at every position.
      vocabulary_size: ids from here on are never generated.
    """
    num_rows, prompt_length = prompts.ids.shape
    num_positions = prompt_length + max_new_tokens - 1
    prompt_ids = jnp.pad(prompts.ids, ((0, 0), (0, max_new_tokens)))
    last_position = prompts.num_tokens + max_new_tokens - 2

    def extend(state: _State) -> _State:
        logits, cache = decode_step(state.cache, state.last_ids, state.position)
        logits = logits.astype(jnp.float32)
        log_probs = next_log_probs(logits, vocabulary_size)
        position = state.position + 1
        chosen = choose(log_probs, position_keys(prompts.keys, position), sampling)
        is_forced = position < prompts.num_tokens
        ids = jnp.where(is_forced, prompt_ids[:, position], chosen)
        found = _with_numbers(ids, logits, log_probs, top_n)
        goes_on = is_forced | ((ids != END_ID) & ~jnp.isnan(found.probs))
        return _State(
            position=position,
            last_ids=ids,
            is_going=state.is_going & goes_on & (state.position < last_position),
            written=_recorded(state.written, found, state.position, state.is_going),
            cache=cache,
        )

    start = _State(
        position=jnp.zeros((), jnp.int32),
        last_ids=prompts.ids[:, 0],
        is_going=prompts.num_tokens > 0,
        written=_nothing(num_rows, num_positions, top_n),
        cache=cache,
    )
    return jax.lax.while_loop(lambda state: jnp.any(state.is_going), extend, start).written


def _with_numbers(
    ids: Int[Array, " B"],
    logits: Float[Array, "B vocab"],
    log_probs: Float[Array, "B vocab"],
    top_n: int,
) -> Continuations:
    """The record of one position's choice, without the axis L."""
    # Over all ids, even those that may not come next: the model's own probabilities.
    probs = jax.nn.softmax(logits)
    _, best_ids = jax.lax.top_k(log_probs, top_n)

    def at(values: Float[Array, "B vocab"], places: Int[Array, "B _"]) -> Float[Array, "B _"]:
        return jnp.take_along_axis(values, places, axis=1)

    return Continuations(
        ids=ids,
        logits=at(logits, ids[:, None])[:, 0],
        probs=at(probs, ids[:, None])[:, 0],
        best_ids=best_ids,
        best_logits=at(logits, best_ids),
        best_probs=at(probs, best_ids),
    )


def _recorded(
    written: Continuations,
    found: Continuations,
    position: Int[Array, ""],
    is_going: Bool[Array, " B"],
) -> Continuations:
    def put(all_positions: Array, here: Array) -> Array:
        going = is_going.reshape(-1, *[1] * (here.ndim - 1))
        return all_positions.at[:, position].set(jnp.where(going, here, 0))

    return jax.tree.map(put, written, found)


def _nothing(num_rows: int, num_positions: int, top_n: int) -> Continuations:
    places, best = (num_rows, num_positions), (num_rows, num_positions, top_n)
    return Continuations(
        ids=jnp.full(places, PAD_ID, jnp.int32),
        logits=jnp.zeros(places),
        probs=jnp.zeros(places),
        best_ids=jnp.full(best, PAD_ID, jnp.int32),
        best_logits=jnp.zeros(best),
        best_probs=jnp.zeros(best),
    )
