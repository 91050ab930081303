"""Models of one config side by side: trained apart, they translate together.

Axes: B batch, N decoded rows, T target positions, S source positions, E features whose products are
logits.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.interface import Inputs, TranslationModel


class Ensemble(nn.Module):
    """Translation models whose logits are averaged: `TranslationModel` says what methods do.

    The softmax of the mean is the geometric mean of the members' probabilities, normalised. Members
    differ in their initial parameters and dropout; they see the same batches.
    """

    config: TransformerConfig
    members: tuple[TranslationModel, ...]  # `ensemble_size` of them

    def __call__(
        self,
        source_ids: Int[Array, "B S"],
        target_inputs: Int[Array, "B T"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T vocab"]:
        """The mean of the members' logits."""
        return _mean(
            [each(source_ids, target_inputs, deterministic=deterministic) for each in self.members]
        )

    def features(
        self, inputs: Inputs, *, deterministic: bool
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """Two factors of the mean of the members' logits: theirs, side by side."""
        factors = [each.features(inputs, deterministic=deterministic) for each in self.members]
        x, table = (jnp.concatenate(each, axis=-1) for each in zip(*factors, strict=True))
        return x.astype(jnp.float32) / len(factors), table  # as bfloat16, a third is 0.2 % off

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool) -> list[Any]:
        """The source, encoded by each member."""
        return [each.encode(source_ids, deterministic=deterministic) for each in self.members]

    def start_cache(
        self, encoded: list[Any], num_rows: int, max_length: int
    ) -> list[PyTree[Array]]:
        """The cache of each member."""
        pairs = zip(self.members, encoded, strict=True)
        return [each.start_cache(source, num_rows, max_length) for each, source in pairs]

    def decode_step(
        self,
        cache: list[PyTree[Array]],
        encoded: list[Any],
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], list[PyTree[Array]]]:
        """The mean of the members' logits, and the cache of each."""
        members = zip(self.members, cache, encoded, strict=True)
        steps = [each.decode_step(own, source, last_ids, position) for each, own, source in members]
        logits, caches = zip(*steps, strict=True)
        return _mean(logits), [*caches]


class MembersAtOnce:
    """An ensemble and its parameters whose members are one computation, of larger arrays.

    The methods are those of a bound `Ensemble`, and so are their results, up to rounding; without
    dropout. `params` may be `stacked`. Members lie along the second axis of `encoded` and of the
    cache, after the rows.
    """

    def __init__(self, ensemble: Ensemble, params: PyTree[Array]) -> None:
        self._member = ensemble.members[0]
        self._params = stacked(params)

    def features(
        self, inputs: Inputs, *, deterministic: bool = True
    ) -> tuple[Float[Array, "B T E"], Float[Array, "vocab E"]]:
        """See `Ensemble`."""

        def of_member(own: PyTree) -> tuple[Array, Array]:
            return self._bound(own).features(inputs, deterministic=deterministic)

        factors = jax.vmap(of_member)(self._params)
        x, table = (jnp.moveaxis(each, 0, -2) for each in factors)  # member by member, as there
        scaled = x.astype(jnp.float32) / x.shape[-2]
        return scaled.reshape(*x.shape[:-2], -1), table.reshape(*table.shape[:-2], -1)

    def encode(self, source_ids: Int[Array, "B S"], *, deterministic: bool = True) -> PyTree[Array]:
        """See `Ensemble`."""

        def of_member(own: PyTree) -> PyTree[Array]:
            return self._bound(own).encode(source_ids, deterministic=deterministic)

        return jax.vmap(of_member, out_axes=1)(self._params)

    def start_cache(self, encoded: PyTree[Array], num_rows: int, max_length: int) -> PyTree[Array]:
        """See `Ensemble`."""

        def of_member(own: PyTree, source: PyTree) -> PyTree[Array]:
            return self._bound(own).start_cache(source, num_rows, max_length)

        return jax.vmap(of_member, in_axes=(0, 1), out_axes=1)(self._params, encoded)

    def decode_step(
        self,
        cache: PyTree[Array],
        encoded: PyTree[Array],
        last_ids: Int[Array, " N"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "N vocab"], PyTree[Array]]:
        """See `Ensemble`."""

        def of_member(own: PyTree, cache: PyTree, source: PyTree) -> tuple[Array, PyTree[Array]]:
            return self._bound(own).decode_step(cache, source, last_ids, position)

        of_all = jax.vmap(of_member, in_axes=(0, 1, 1), out_axes=(0, 1))
        logits, cache = of_all(self._params, cache, encoded)
        return _mean([*logits]), cache

    def _bound(self, params: PyTree[Array]) -> TranslationModel:
        return self._member.bind({"params": params})


def params_of_members(params: PyTree) -> list[PyTree]:
    """The parameters of each member, from those of an ensemble."""
    return [params[f"members_{number}"] for number in range(len(params))]


def stacked(tree: PyTree) -> PyTree:
    """A tree in which members lie along a first axis: a fifth of the arrays, if there are five.

    Members are wherever parameters are, or what an optimizer keeps for each of them. A tree that is
    stacked stays as it is.
    """

    def of_node(node: Any) -> PyTree:
        if not _has_members(node):
            return node
        return jax.tree.map(lambda *leaves: _stack(*leaves), *params_of_members(node))

    return jax.tree.map(of_node, tree, is_leaf=_has_members)


def unstacked(tree: PyTree, like: PyTree) -> PyTree:
    """The tree in the form of `like`, from that of `stacked`."""
    nodes, structure = jax.tree.flatten(like, is_leaf=_has_members)

    def of_node(node: Any, before: Any) -> PyTree:
        if not _has_members(before):
            return node
        numbers = range(len(before))
        return {f"members_{n}": jax.tree.map(lambda leaf, at=n: leaf[at], node) for n in numbers}

    return structure.unflatten(map(of_node, structure.flatten_up_to(tree), nodes))


def member_axes(tree: PyTree) -> PyTree[int | None]:
    """For `jax.vmap`, the axis of members in what `stacked` makes of a tree: 0, or None."""
    return jax.tree.map(lambda node: 0 if _has_members(node) else None, tree, is_leaf=_has_members)


def _stack(*leaves: Array | np.ndarray) -> Array | np.ndarray:
    return np.stack(leaves) if isinstance(leaves[0], np.ndarray) else jnp.stack(leaves)


def _has_members(node: Any) -> bool:
    return isinstance(node, dict) and "members_0" in node


def _mean(logits: Sequence[Array]) -> Array:
    return functools.reduce(jnp.add, logits) / len(logits)
