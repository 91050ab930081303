"""What every search takes, asks at each step, and returns.

Axes: N rows (one per sentence or per beam), B sentences, W hypotheses, L output positions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID
from t2t_jax.decoding.top import top

# (cache, last ids, position of the last ids) -> (logits of the next ids, cache).
# Every leaf of the cache has the leading axis N; its contents are the model's business.
DecodeStep = Callable[
    [PyTree, Int[Array, " N"], Int[Array, ""]], tuple[Float[Array, "N vocab"], PyTree]
]


class Hypotheses(NamedTuple):
    """Finished outputs of each sentence, best first.

    An unused place has the score -inf and only padding ids.
    """

    ids: Int[Array, "B W L"]  # the end token included, padding after it, no start token
    scores: Float[Array, "B W"]  # log-probability in nats, divided by the length penalty


@runtime_checkable
class Search(Protocol):
    """A search for outputs, token by token.

    A state has `limits`, and all its leaves have a leading axis of B sentences or N rows. A
    sentence's result depends on its own rows alone: rows may leave a batch or join another one
    between two steps.
    """

    @property
    def beam_size(self) -> int:
        """W."""
        ...

    def start(self, cache: PyTree, limits: Int[Array, " B"], room: int) -> Any:
        """The state before the first step, with room for outputs of `room` tokens.

        `limits` are the most tokens of each sentence, the end token included; 0 for a row without a
        sentence, which has no hypotheses and costs no step.
        """
        ...

    def extend(self, decode_step: DecodeStep, state: Any, position: Int[Array, ""]) -> Any:
        """The state with one more token, the one after `position`."""
        ...

    def is_going(self, state: Any) -> Bool[Array, " B"]:
        """Whether another step could change a sentence's result."""
        ...

    def found(self, state: Any) -> Hypotheses:
        """The outputs finished so far; complete for sentences that are not going."""
        ...


def searched(
    search: Search,
    decode_step: DecodeStep,
    state: Any,
    first: Int[Array, ""] | int,
    stop: Int[Array, ""] | int,
) -> Any:
    """`state` after the positions from `first` up to `stop`, or until no sentence is going."""

    def goes_on(at: tuple[Int[Array, ""], Any]) -> Bool[Array, ""]:
        position, state = at
        return (position < stop) & jnp.any(search.is_going(state))

    def extend(at: tuple[Int[Array, ""], Any]) -> tuple[Int[Array, ""], Any]:
        position, state = at
        return position + 1, search.extend(decode_step, state, position)

    return jax.lax.while_loop(goes_on, extend, (jnp.asarray(first, jnp.int32), state))[1]


def next_log_probs(
    logits: Float[Array, "N vocab"], vocabulary_size: int | None
) -> Float[Array, "N vocab"]:
    """The model's log-probability of each id, -inf if the id may not come next.

    Padding, the start token and embedding rows without a vocabulary piece are never generated.
    Probabilities are not renormalised over the rest, so that their sum is the model's
    log-probability of the sentence. If they are NaN (a diverged model), nothing may come next: its
    sentences have no hypotheses.
    """
    may_follow = _may_follow(logits.shape[-1], vocabulary_size)[None]
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return jnp.where(may_follow & ~jnp.isnan(log_probs), log_probs, -jnp.inf)


def likeliest_next(
    logits: Float[Array, "N vocab"],
    must_end: Bool[Array, " N"],
    vocabulary_size: int | None,
    num_ids: int,
) -> tuple[Float[Array, "N {num_ids}"], Int[Array, "N {num_ids}"]]:
    """The largest `num_ids` of `next_log_probs` and their ids; the lowest id first among equals.

    After a row that `must_end` only the end token may come. If fewer may come next, the rest is
    -inf and the padding id. No other probability is computed:
    over a whole vocabulary, that costs more than the logits.
    """
    logits = logits.astype(jnp.float32)
    best = jnp.max(logits, axis=-1, keepdims=True)
    log_sum = jnp.log(jnp.sum(jnp.exp(logits - best), axis=-1, keepdims=True))
    chosen, ids = top(logits, num_ids, _may_follow(logits.shape[-1], vocabulary_size))
    is_first = jnp.arange(num_ids)[None] == 0
    ids = jnp.where(must_end[:, None] & is_first, END_ID, ids)
    end = jnp.where(is_first, logits[:, END_ID, None], -jnp.inf)
    log_probs = jnp.where(must_end[:, None], end, chosen) - best - log_sum
    log_probs = jnp.where(jnp.isnan(log_probs), -jnp.inf, log_probs)
    return log_probs, jnp.where(log_probs > -jnp.inf, ids, PAD_ID)


def _may_follow(num_ids: int, vocabulary_size: int | None) -> Bool[np.ndarray, " vocab"]:
    ids = np.arange(num_ids)
    may_follow = (ids != PAD_ID) & (ids != START_ID)
    return may_follow if vocabulary_size is None else may_follow & (ids < vocabulary_size)
