"""What a language model writes after prompts: one loop, in which prompts of all lengths run.

Comes in: a `decode_step`, its cache, prompts. Goes out: every token that was chosen and, beside
it, what the model would have liked best, as it says itself: before any temperature or cut.

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
    """Beginnings to be continued, one a row."""

    ids: Int[Array, "B P"]  # all that the model is to read, its start token included; padded
    num_tokens: Int[Array, " B"]  # of `ids`; 0 for a row that holds no prompt
    keys: Key[Array, " B"]  # of the row's choices: all that chance knows


class Continuations(NamedTuple):
    """At place l what follows position l of a row; for a prompt of p tokens the new are from p - 1.

    A forced token of the prompt has its numbers too. After a row's end everything is 0.
    """

    ids: Int[Array, "B L"]
    logits: Float[Array, "B L"]
    probs: Float[Array, "B L"]
    best_ids: Int[Array, "B L M"]  # likeliest first, of those that may come next
    best_logits: Float[Array, "B L M"]
    best_probs: Float[Array, "B L M"]


class _State(NamedTuple):
    """What one position hands to the next."""

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
    """Each prompt goes on until its end token, or until `max_new_tokens` were chosen.

    A token is a function of its row's prompt, its row's key and its position, and of nothing else:
    neither other rows nor padding change it. Where the model's probabilities are no numbers
    a row ends, and what is recorded of its last token is no number either.

    Args:
      decode_step: asked for the next logits of B rows, from position 0 on.
      cache: as `decode_step` wants it before the first step, with room for
        L = P + max_new_tokens - 1 positions: the last token is never read.
      prompts: P at least 1.
      max_new_tokens: at least 1, the end token counted.
      sampling: how a token is chosen.
      top_n: M, the best next tokens to be recorded at every position.
      vocabulary_size: ids from here on are never generated.
    """
    num_rows, prompt_length = prompts.ids.shape
    num_positions = prompt_length + max_new_tokens - 1
    prompt_ids = jnp.pad(prompts.ids, ((0, 0), (0, max_new_tokens)))
    last_position = prompts.num_tokens + max_new_tokens - 2

    def extend(state: _State) -> _State:
        logits, cache = decode_step(state.cache, state.last_ids, state.position)
        logits = logits.astype(jnp.float32)
        log_probs = next_log_probs(logits, jnp.zeros(num_rows, bool), vocabulary_size)
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
    """What is to be known of one position's choice: without the axis L."""
    # Of all ids, those that may not come next included: what the model says, undisturbed.
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
