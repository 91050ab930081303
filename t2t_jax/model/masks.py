"""Which positions may attend to which. A mask is boolean; True means *may attend*.

Fused kernels rely on mask shapes: B 1 S is padding at the end; 1 T T, with several rows, is causal.

Axes: B batch, T query positions, S key positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

# Lowest finite score, not -inf: a fully masked row stays finite.
MASKED_SCORE = jnp.finfo(jnp.float32).min

PAD_ID = 0  # that of the data package, which is not imported here; a test keeps them equal


class Packing(NamedTuple):
    """Several sequences in one row that do not see each other.

    With `packing=None`, each row is one sequence, with positions counted from 0. A position beyond
    a learned table gives NaN: packed sequences must be shorter.
    """

    segments: Int[Array, "B T"]  # 1, 2, ...: the token's sequence in the row; 0 at padding
    positions: Int[Array, "B T"]  # counted from 0 in each sequence


def packing_of(segments: Int[Array, "B T"]) -> Packing:
    """The packing of rows whose sequences follow one another, padding last."""
    index = jnp.arange(segments.shape[1])[None]
    start = jax.lax.cummax(jnp.where(is_first(segments), index, 0), axis=1)
    # Position 0 at padding, which may be longer than a learned table.
    return Packing(segments, jnp.where(segments > 0, index - start, 0))


def is_first(segments: Int[Array, "B T"]) -> Bool[Array, "B T"]:
    """True where a sequence of a packed row begins, and at the first padding."""
    before = jnp.pad(segments, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    return segments != before


def is_token(ids: Int[Array, "B S"]) -> Bool[Array, "B S"]:
    """True at tokens, False at padding."""
    return ids != PAD_ID


def padding_mask(ids: Int[Array, "B S"]) -> Bool[Array, "B 1 S"]:
    """Every position may attend to every token, but not to padding."""
    return is_token(ids)[:, None, :]


def causal_mask(
    positions: Int[Array, "#B T"], key_positions: Int[Array, "#B S"]
) -> Bool[Array, "#B T S"]:
    """A position may attend to itself and those before it (paper section 3.1)."""
    return key_positions[:, None, :] <= positions[:, :, None]


def segment_mask(
    query_segments: Int[Array, "B T"], key_segments: Int[Array, "B S"]
) -> Bool[Array, "B T S"]:
    """A position may attend to the tokens of its own sequence; padding attends to nothing."""
    is_same = query_segments[:, :, None] == key_segments[:, None, :]
    return is_same & (key_segments > 0)[:, None, :]
