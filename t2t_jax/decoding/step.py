"""What every search is handed, asks at each step, and gives back.

Axes: N rows (one per sentence or per beam), B sentences, W hypotheses, L output positions.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID

# (cache, last ids, position of the last ids) -> (logits of the next ids, cache).
# Every leaf of the cache has the leading axis N; what it holds is the model's affair.
DecodeStep = Callable[
    [PyTree, Int[Array, " N"], Int[Array, ""]], tuple[Float[Array, "N vocab"], PyTree]
]


class Hypotheses(NamedTuple):
    """Finished outputs of each sentence, best first.

    A place that no hypothesis took has the score -inf and ids that are all padding.
    """

    ids: Int[Array, "B W L"]  # the end token included, padding after it, no start token
    scores: Float[Array, "B W"]  # log-probability in nats, over the length penalty


def next_log_probs(
    logits: Float[Array, "N vocab"], must_end: Bool[Array, " N"], vocabulary_size: int | None
) -> Float[Array, "N vocab"]:
    """The model's log-probability of each id, -inf where the id may not come next.

    Nothing may generate the padding or the start token, nor an id that is a row of the embedding
    but no piece of the vocabulary; a row that `must_end` may generate the end token only.
    The probabilities are not renormalised over what is left, so that a sum of them is what the
    model says of the sentence. Where they are no numbers (a model that diverged), nothing may
    come next: its sentences have no hypotheses.
    """
    ids = jnp.arange(logits.shape[-1])
    may_follow = (ids != PAD_ID) & (ids != START_ID)
    if vocabulary_size is not None:
        may_follow &= ids < vocabulary_size
    may_follow = jnp.where(must_end[:, None], (ids == END_ID)[None], may_follow[None])
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return jnp.where(may_follow & ~jnp.isnan(log_probs), log_probs, -jnp.inf)
