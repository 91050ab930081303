"""Who may look where. A mask is boolean, True means *may look*.

A fused kernel goes by their shapes: B 1 S is padding at the end, 1 T T is causal.

Axes: B batch, T query positions, S key positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

PAD_ID = 0  # that of the data room, which this one does not import; a test keeps them equal


class Packing(NamedTuple):
    """Several sequences in one row, none of which sees the others.

    Where a function takes `packing=None`, each row is one sequence, its positions count from 0.
    A position beyond a learned table gives NaN: what packs must keep each sequence shorter.
    """

    segments: Int[Array, "B T"]  # 1, 2, ...: which sequence of the row a token is of; 0 at padding
    positions: Int[Array, "B T"]  # counted from 0 in each sequence


def packing_of(segments: Int[Array, "B T"]) -> Packing:
    """The packing of rows whose sequences follow one another, padding last."""
    index = jnp.arange(segments.shape[1])[None]
    start = jax.lax.cummax(jnp.where(is_first(segments), index, 0), axis=1)
    # Padding may be longer than a learned table, and is at none of its positions.
    return Packing(segments, jnp.where(segments > 0, index - start, 0))


def is_first(segments: Int[Array, "B T"]) -> Bool[Array, "B T"]:
    """True where a sequence of a packed row begins, and at the first padding."""
    before = jnp.pad(segments, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    return segments != before


def is_token(ids: Int[Array, "B S"]) -> Bool[Array, "B S"]:
    """True at tokens, False at padding."""
    return ids != PAD_ID


def padding_mask(ids: Int[Array, "B S"]) -> Bool[Array, "B 1 S"]:
    """Every position may look at every token, at no padding."""
    return is_token(ids)[:, None, :]


def causal_mask(
    positions: Int[Array, "#B T"], key_positions: Int[Array, "#B S"]
) -> Bool[Array, "#B T S"]:
    """A position may look at itself and what is before it (paper section 3.1)."""
    return key_positions[:, None, :] <= positions[:, :, None]


def segment_mask(
    query_segments: Int[Array, "B T"], key_segments: Int[Array, "B S"]
) -> Bool[Array, "B T S"]:
    """A position may look at the tokens of its own sequence; padding looks nowhere."""
    is_same = query_segments[:, :, None] == key_segments[:, None, :]
    return is_same & (key_segments > 0)[:, None, :]
