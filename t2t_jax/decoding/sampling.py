"""Chooses the next token: the likeliest, or one sampled after temperature and cuts.

In: scores of the next ids, logits or log-probabilities, -inf if an id may not come next. Out: the
chosen ids. Every function treats each row independently.

Axes: N rows, `vocab` the next ids.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from t2t_jax.config_checks import check_at_least, check_types, config_section
from t2t_jax.row_keys import GENERATOR

# All randomness is a function of (seed, purpose, ...): separates this use of the seed from others.
_PURPOSE = 2


@config_section
class Sampling:
    """How to choose the next token, checked once, on creation.

    Raises:
      ValueError: a value is not allowed.
      TypeError: a value has the wrong type.
    """

    temperature: float = 0.0  # divides the logits; 0 is greedy: the likeliest
    top_k: int = 0  # draw only from the k likeliest; 0: all
    top_p: float = 1.0  # draw only from the likeliest with this total probability; 1: all

    def __post_init__(self) -> None:
        check_types("sampling", self)
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"--temperature={self.temperature} must be finite and not negative")
        if 0 < self.temperature < (least := float(jnp.finfo(jnp.float32).tiny)):
            raise ValueError(f"--temperature={self.temperature} must be 0, or at least {least:.3g}")
        check_at_least("sampling", self, 0, ("top_k",))
        if not 0 < self.top_p <= 1:
            raise ValueError(f"--top_p={self.top_p} must be above 0 and at most 1")


def choose(
    scores: Float[Array, "N vocab"], keys: Key[Array, " N"], sampling: Sampling
) -> Int[Array, " N"]:
    """The next id of each row; among equally likely ids, greedy choice takes the lowest.

    For a row whose scores are all -inf, the result is meaningless.
    """
    if sampling.temperature == 0:
        return jnp.argmax(scores, axis=-1)
    return jax.vmap(jax.random.categorical)(keys, sampled_from(scores, sampling))


def sampled_from(scores: Float[Array, "N vocab"], sampling: Sampling) -> Float[Array, "N vocab"]:
    """Scores whose softmax is sampled from: temperature, then top-k, then nucleus.

    This is the order of Hugging Face's `generate`: the nucleus is measured in probabilities after
    temperature and top-k.
    """
    scores = with_temperature(scores, sampling.temperature)
    return with_top_p(with_top_k(scores, sampling.top_k), sampling.top_p)


def with_temperature(
    scores: Float[Array, "N vocab"], temperature: float
) -> Float[Array, "N vocab"]:
    """`scores` divided by the temperature, above 0: below 1, likely ids become likelier."""
    # Shifted to make the best 0, which no temperature can overflow.
    best = jnp.max(scores, axis=-1, keepdims=True)
    return jnp.where(scores > -jnp.inf, scores - best, -jnp.inf) / temperature


def with_top_k(scores: Float[Array, "N vocab"], k: int) -> Float[Array, "N vocab"]:
    """-inf where k or more ids are likelier; 0 keeps all. Fan et al. 2018.

    Ids as likely as the last one kept are kept too: no id is preferred for its number.
    """
    if not 0 < k < scores.shape[-1]:
        return scores
    least = jax.lax.top_k(scores, k)[0][:, -1:]
    return jnp.where(scores >= least, scores, -jnp.inf)


def with_top_p(scores: Float[Array, "N vocab"], p: float) -> Float[Array, "N vocab"]:
    """-inf where likelier ids already have total probability p. Holtzman et al. 2020.

    The likeliest id is always kept, however small p is, and 1 keeps all. Ids as likely as the last
    one kept are kept too: no id is preferred for its number.
    """
    if p == 1:  # sums of floats may reach 1 before their last term
        return scores
    sorted_scores = jnp.sort(scores, axis=-1, descending=True)
    probabilities = jax.nn.softmax(sorted_scores)
    of_likelier = jnp.pad(jnp.cumsum(probabilities, axis=-1)[:, :-1], ((0, 0), (1, 0)))
    least = jnp.where(of_likelier < p, sorted_scores, jnp.inf).min(axis=-1, keepdims=True)
    return jnp.where(scores >= least, scores, -jnp.inf)


def row_keys(
    seed: int | Int[Array, ""], row: Int[Array, " N"], sample: Int[Array, " N"]
) -> Key[Array, " N"]:
    """One key per row, from its prompt's index in the input and its sample number."""
    purpose = jax.random.fold_in(jax.random.key(seed, impl=GENERATOR), _PURPOSE)
    fold_in = jax.vmap(jax.random.fold_in)
    return fold_in(jax.vmap(lambda row: jax.random.fold_in(purpose, row))(row), sample)


def position_keys(keys: Key[Array, " N"], position: Int[Array, ""]) -> Key[Array, " N"]:
    """The rows' keys for the choice of the token at `position`."""
    return jax.vmap(lambda key: jax.random.fold_in(key, position))(keys)
