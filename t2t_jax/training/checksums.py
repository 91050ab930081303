"""Checksums of arrays, computed where these lie.

A checksum is that of the bits, by integers modulo 2^32: it is the same however an array is cut over
devices and hosts. It sees with certainty that one number of an array is another, whichever bits of
it have changed, and all but one in 2^64 of other changes, such as two that have changed places.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, PyTree, Shaped, UInt32

# Multipliers of the finaliser of MurmurHash3; with an odd one a product can be undone.
_FIRST, _SECOND = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_OF_PLACE = np.uint32(0x9E3779B1)


class Checksums(NamedTuple):
    """What is known of the bits of a tree."""

    sums: dict[str, str]  # path of an array in the tree -> 16 hexadecimal digits
    not_finite: list[str]  # paths of the arrays with a number that is none, or an endless one


def checksums(tree: PyTree) -> Checksums:
    """The checksum of each array of `tree`, and which of them hold a number that is none.

    All hosts must ask at once.
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    found = jax.device_get([_compiled(_whole(leaf))(leaf) for _, leaf in leaves])
    sums, not_finite = {}, []
    for (path, _), (pair, is_finite) in zip(leaves, found, strict=True):
        name = path_name(path)
        sums[name] = "".join(f"{number:08x}" for number in pair.tolist())
        if not is_finite:
            not_finite.append(name)
    return Checksums(sums, not_finite)


def path_name(path: tuple) -> str:
    """A path in a tree as it is told, such as params/embedding/table."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _of_array(array: Shaped[Array, "..."]) -> tuple[UInt32[Array, " 2"], Bool[Array, ""]]:
    """Two sums of the bits, and whether every number is finite."""
    words = _words(array)
    place = jnp.zeros(words.shape, jnp.uint32)
    for axis, length in enumerate(words.shape):
        place = place * np.uint32(length) + jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    # A function of word and place that can be undone in the word.
    mixed = words ^ (place * _OF_PLACE)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint32(13))) * _SECOND
    mixed ^= mixed >> np.uint32(16)
    weighted = mixed * (place * np.uint32(2) + np.uint32(1))
    sums = jnp.stack([jnp.sum(each, dtype=jnp.uint32) for each in (mixed, weighted)])
    is_inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    return sums, jnp.isfinite(array).all() if is_inexact else jnp.bool_(True)


def _words(array: Shaped[Array, "..."]) -> UInt32[Array, "..."]:
    """The bits of each number as one word of 32, or several."""
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    bits = min(array.dtype.itemsize * 8, 32)
    return jax.lax.bitcast_convert_type(array, f"uint{bits}").astype(jnp.uint32)


def _whole(leaf: object) -> NamedSharding | None:
    """What tells every device all: a host can read only what it has."""
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, PartitionSpec())
    return None


@cache
def _compiled(whole: NamedSharding | None) -> Callable:
    """A small program for each shape and layout, of which a state has few."""
    compiled = jax.jit(_of_array, out_shardings=whole)
    if whole is None or whole.mesh.size == 1 or jax.default_backend() != "cpu":
        return compiled
    # On devices made of a CPU one at a time, as in compilation.py.
    return lambda leaf: jax.block_until_ready(compiled(leaf))
