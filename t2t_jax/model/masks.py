"""Who may look where. A mask is boolean, True means *may look*.

Axes: B batch, T query positions, S key positions.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

PAD_ID = 0  # that of the data room, which this one does not import; a test keeps them equal


def is_token(ids: Int[Array, "B S"]) -> Bool[Array, "B S"]:
    """True at tokens, False at padding."""
    return ids != PAD_ID


def padding_mask(source_is_token: Bool[Array, "B S"]) -> Bool[Array, "B 1 S"]:
    """Every position may look at every token, at no padding."""
    return source_is_token[:, None, :]


def causal_mask(length: int) -> Bool[Array, "1 T T"]:
    """Position t may look at itself and what is before it (paper section 3.1)."""
    return jnp.tril(jnp.ones((1, length, length), bool))
