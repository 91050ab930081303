"""What a search saw, step by step: a forward pass over the tokens it found.

A running search cannot be captured, and need not be: given the same tokens, a forward pass computes
the same numbers that `decode_step` computed position by position.

Axes: B rows, T output positions, S source positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import START_ID
from t2t_jax.model.capture import Captured, capture
from t2t_jax.model.interface import Model


class Replay(NamedTuple):
    """Index t holds what the search saw when choosing token t; meaningless after a row's end."""

    log_probs: Float[Array, "B T vocab"]  # of every token, even those no search may choose
    captured: Captured  # attention weights and hidden states, under the names of `capture`


def replay(
    model: Model,
    params: PyTree,
    found_ids: Int[Array, "B T"],
    source_ids: Int[Array, "B S"] | None = None,
    *,
    first_ids: Int[Array, " B"] | None = None,
) -> Replay:
    """The log-probabilities and internals of `model` on the way to `found_ids`.

    Args:
      found_ids: one output per row, such as `Hypotheses.ids[:, 0]`, or `Continuations.ids`, which
        include the prompt.
      source_ids: of the translated sentences; a language model has none.
      first_ids: what the model read first: the start token, unless it was the prompt's own first
        token, as with GPT-2.
    """
    first = jnp.full(found_ids.shape[0], START_ID) if first_ids is None else first_ids
    inputs = jnp.concatenate([first[:, None], found_ids[:, :-1]], axis=1)
    ids = (inputs,) if source_ids is None else (source_ids, inputs)
    logits, captured = capture(model, params, None, *ids, deterministic=True)
    return Replay(jax.nn.log_softmax(logits), captured)
