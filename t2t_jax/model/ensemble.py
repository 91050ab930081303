"""Models of one config side by side: trained apart, they translate together.

Axes: B batch, N decoded rows, T target positions, S source positions, E features whose products are
logits.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
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


def params_of_members(params: PyTree) -> list[PyTree]:
    """The parameters of each member, from those of an ensemble."""
    return [params[f"members_{number}"] for number in range(len(params))]


def stacked(tree: PyTree) -> PyTree:
    """A tree in which members lie along a first axis: a fifth of the arrays, if there are five.

    Members are wherever parameters are, or what an optimizer keeps for each of them.
    """

    def of_node(node: Any) -> PyTree:
        if not _has_members(node):
            return node
        return jax.tree.map(lambda *leaves: _stack(leaves), *params_of_members(node))

    return jax.tree.map(of_node, tree, is_leaf=_has_members)


def unstacked(tree: PyTree, like: PyTree) -> PyTree:
    """The tree in the form of `like`, from that of `stacked`."""
    nodes, structure = jax.tree.flatten(like, is_leaf=_has_members)

    def of_node(node: Any, before: Any) -> PyTree:
        if not _has_members(before):
            return node
        leaves, of_member = jax.tree.flatten(node)
        members = zip(*map(_unstack, leaves), strict=True)
        return {f"members_{n}": of_member.unflatten(own) for n, own in enumerate(members)}

    return structure.unflatten(map(of_node, structure.flatten_up_to(tree), nodes))


def member_axes(tree: PyTree) -> PyTree[int | None]:
    """For `jax.vmap`, the axis of members in what `stacked` makes of a tree: 0, or None."""
    return jax.tree.map(lambda node: 0 if _has_members(node) else None, tree, is_leaf=_has_members)


# Small programs, one per shape, of which a state has few: as one, they take longer to compile.
_stack = jax.jit(lambda leaves: jnp.stack(leaves))
_unstack = jax.jit(lambda leaf: [*leaf])


def _has_members(node: Any) -> bool:
    return isinstance(node, dict) and "members_0" in node


def _mean(logits: Sequence[Array]) -> Array:
    return functools.reduce(jnp.add, logits) / len(logits)
