"""Checksums of arrays, computed on their devices.

A checksum is taken over the bits, in integers modulo 2^32: it does not depend on how an array is
split over devices and hosts. It always detects a change of a single number, whichever bits of it
have changed, and all but one in 2^64 of other changes, such as two swapped numbers.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, PyTree, Shaped, UInt32

from t2t_jax.trees import path_name

# Multipliers of the finaliser of MurmurHash3; with an odd one a product can be undone.
_FIRST, _SECOND = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_OF_PLACE = np.uint32(0x9E3779B1)


class Checksums(NamedTuple):
    """Facts about the bits of a tree."""

    sums: dict[str, str]  # path of an array in the tree -> 16 hexadecimal digits
    not_finite: list[str]  # paths of the arrays with a NaN or an infinite number


def checksums(tree: PyTree) -> Checksums:
    """The checksum of each array of `tree`, and which arrays are not finite.

    All hosts must call this together.
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


def _of_array(array: Shaped[Array, "..."]) -> tuple[UInt32[Array, " 2"], Bool[Array, ""]]:
    """Two sums of the bits, and whether every number is finite."""
    words = _words(array)
    place = jnp.zeros(words.shape, jnp.uint32)
    for axis, length in enumerate(words.shape):
        place = place * np.uint32(length) + jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    # A function of word and place that is invertible in the word.
    mixed = words ^ (place * _OF_PLACE)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint32(13))) * _SECOND
    mixed ^= mixed >> np.uint32(16)
    weighted = mixed * (place * np.uint32(2) + np.uint32(1))
    sums = jnp.stack([jnp.sum(each, dtype=jnp.uint32) for each in (mixed, weighted)])
    is_inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    return sums, jnp.isfinite(array).all() if is_inexact else jnp.bool_(True)


def _words(array: Shaped[Array, "..."]) -> UInt32[Array, "..."]:
    """The bits of each number as one or more 32-bit words."""
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    bits = min(array.dtype.itemsize * 8, 32)
    return jax.lax.bitcast_convert_type(array, f"uint{bits}").astype(jnp.uint32)


def _whole(leaf: object) -> NamedSharding | None:
    """A sharding that replicates on every device: a host can read only what it holds."""
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, PartitionSpec())
    return None


@cache
def _compiled(whole: NamedSharding | None) -> Callable:
    """A small program per shape and layout; a state has few of them."""
    compiled = jax.jit(_of_array, out_shardings=whole)
    if whole is None or whole.mesh.size == 1 or jax.default_backend() != "cpu":
        return compiled
    # One at a time on devices made from a CPU, as in compilation.py.
    return lambda leaf: jax.block_until_ready(compiled(leaf))
