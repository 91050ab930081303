"""The length penalty of the paper's beam search (section 6.1, from GNMT, Wu et al. 2016)."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int


def length_penalty(num_tokens: Int[Array, "..."] | int, alpha: ArrayLike) -> Float[Array, "..."]:
    """((5 + n) / 6)^alpha, GNMT equation 14: what the log-probability of n tokens is divided by.

    n counts every token that was generated and so has its share in the log-probability: the end
    token counts, the start token does not. tensor2tensor, whose decoder made the paper's numbers,
    counts so too, and the empty translation (the end token alone) has a penalty of exactly 1.
    """
    return ((5 + jnp.asarray(num_tokens, jnp.float32)) / 6) ** alpha
