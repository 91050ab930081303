"""What a search saw, step by step: a forward pass over the tokens that it found.

Nothing can be asked of a search while it runs, nor need it be: given the same tokens, a forward
pass makes the numbers that `decode_step` made one position after the other.

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
    """At place t, what the search saw when it chose the token at t; after a row's end nothing."""

    log_probs: Float[Array, "B T vocab"]  # of every token, those too that no search may choose
    captured: Captured  # attention weights and hidden states, by the names of `capture`


def replay(
    model: Model,
    params: PyTree,
    found_ids: Int[Array, "B T"],
    source_ids: Int[Array, "B S"] | None = None,
    *,
    first_ids: Int[Array, " B"] | None = None,
) -> Replay:
    """What `model` said and made on the way to `found_ids`.

    Args:
      found_ids: of one output a row, such as `Hypotheses.ids[:, 0]`, or `Continuations.ids` with
        the prompt that they go on from.
      source_ids: of the sentences that were translated; a language model has none.
      first_ids: what the model read first; the start token, unless it was a prompt's own first
        token, as with GPT-2.
    """
    first = jnp.full(found_ids.shape[0], START_ID) if first_ids is None else first_ids
    inputs = jnp.concatenate([first[:, None], found_ids[:, :-1]], axis=1)
    ids = (inputs,) if source_ids is None else (source_ids, inputs)
    logits, captured = capture(model, params, None, *ids, deterministic=True)
    return Replay(jax.nn.log_softmax(logits), captured)
