"""Adam with the schedule (paper section 5.3), and its alternatives.

In: the section `training`. Out: a pair of pure functions; their state is saved, and laid out over
devices, by the parameter names in it.
"""

import math
from typing import Any, assert_never

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree
from optax.contrib import MuonDimensionNumbers, scale_by_muon

from t2t_jax.made_once import made_once
from t2t_jax.model.ensemble import member_axes
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.schedule import learning_rate
from t2t_jax.trees import path_name

_MUON_MOMENTUM = 0.95  # Jordan et al. 2024, at all sizes
_MUON_RMS = 0.2  # that of Adam's updates in Liu et al. 2025: Adam's rate and decay then fit


@made_once
def make_optimizer(
    config: TrainingConfig, d_model: int, *, matrices_at_once: bool = False
) -> optax.GradientTransformation:
    """The optimizer of `config`; its first update is step 1 of the schedule.

    `gradient_clip_norm` bounds the joint norm of all per-token gradients, before the optimizer sees
    them. `weight_decay`, times the rate, is the share subtracted from every matrix inside the model
    in a step: decoupled from the gradient, as in Loshchilov and Hutter 2019, and with the same
    meaning for every optimizer. Norms and biases do not decay, as in BERT and nanoGPT; nor do
    embeddings and the output layer, which Jordan et al. 2024 also leave to Adam.

    adam, adamw   betas and epsilon of `config`, with bias correction
    adafactor     Shazeer and Stern 2018: updates scaled by the size of the parameter, times the
                  rate; second moments of a matrix by row and column if both of its two longest
                  sides have 128 or more. Reads neither betas nor epsilon.
    lion          Chen et al. 2023: the sign of a mean of gradients; beta1 is for the update,
                  beta2 for the stored mean
    muon          Jordan et al. 2024: orthogonalised momentum of every matrix inside the model, all
                  heads of a projection together; the rest by Adam with Nesterov momentum, as in
                  optax, with the betas and epsilon of `config`

    With `matrices_at_once`, muon orthogonalises matrices of one shape as one computation; the state
    is the same. One by one, they are half of the kernels of a small model's step on a GPU. A CPU
    takes them one by one, while gradients of others are still being computed.
    """

    def rate(updates_so_far) -> Float[Array, ""]:
        return learning_rate(jnp.asarray(updates_so_far) + 1, config, d_model)

    optimizer = _make(config, rate, matrices_at_once)
    if config.gradient_clip_norm > 0:
        return optax.chain(optax.clip_by_global_norm(config.gradient_clip_norm), optimizer)
    return optimizer


@made_once
def members_at_once(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same for the `stacked` members of an ensemble, whose updates become one computation.

    The optimizer must treat every parameter by itself, which `gradient_clip_norm` does not. Its
    state is `stacked`, too, after `init`.
    """

    def update(
        updates: PyTree, state: PyTree, params: PyTree | None = None
    ) -> tuple[PyTree, PyTree]:
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)
        axes = member_axes(jax.eval_shape(optimizer.init, {"members_0": one}))
        of_all = jax.vmap(optimizer.update, in_axes=(0, axes, 0), out_axes=(0, axes))
        return of_all(updates, state, params)

    return optax.GradientTransformation(optimizer.init, update)


def _make(
    config: TrainingConfig, rate: optax.Schedule, matrices_at_once: bool
) -> optax.GradientTransformation:
    beta1, beta2, epsilon = config.adam_beta1, config.adam_beta2, config.adam_epsilon
    decay = config.weight_decay
    match config.optimizer:
        case "adam":
            return optax.adam(rate, b1=beta1, b2=beta2, eps=epsilon)
        case "adamw":
            return optax.adamw(
                rate, b1=beta1, b2=beta2, eps=epsilon, weight_decay=decay, mask=_are_matrices
            )
        case "adafactor":
            # The only decay in optax that is not multiplied by the rate.
            return optax.adafactor(
                rate,
                weight_decay_rate=lambda updates_so_far: decay * rate(updates_so_far),
                weight_decay_mask=_are_matrices,
            )
        case "lion":
            return optax.lion(rate, b1=beta1, b2=beta2, weight_decay=decay, mask=_are_matrices)
        case "muon":
            of_matrices = optax.chain(
                scale_by_muon(
                    ns_steps=0,  # see `_orthogonalised`
                    beta=_MUON_MOMENTUM,
                    eps=epsilon,
                    weight_dimension_numbers=_sides,
                ),
                optax.stateless(lambda updates, _: _orthogonalised(updates, matrices_at_once)),
                optax.add_decayed_weights(decay),
                optax.scale_by_learning_rate(rate),
            )
            of_others = optax.adamw(
                rate, b1=beta1, b2=beta2, eps=epsilon, weight_decay=0, nesterov=True
            )
            return optax.partition({"muon": of_matrices, "adam": of_others}, _muon_or_adam)
        case _:
            assert_never(config.optimizer)


def _are_matrices(params: PyTree) -> PyTree[bool]:
    """Which parameters are matrices inside the model."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path_name(path).endswith("kernel"), params
    )


def _muon_or_adam(params: PyTree) -> PyTree[str]:
    return jax.tree.map(lambda is_matrix: "muon" if is_matrix else "adam", _are_matrices(params))


def _orthogonalised(updates: PyTree[Array], at_once: bool) -> PyTree[Array]:
    """Every matrix orthogonalised by optax's Newton-Schulz iteration, and scaled to `_MUON_RMS`.

    `at_once`: those that have the same axes, and are split over devices in the same way, together.
    """
    leaves, structure = jax.tree.flatten(updates)
    alike: dict[Any, list[int]] = {}
    for place, sides in enumerate(structure.flatten_up_to(_sides(updates))):
        inputs = math.prod(leaves[place].shape[axis] for axis in sides.reduction_axis)
        kind = leaves[place].shape if at_once else place
        alike.setdefault((kind, inputs), []).append(place)
    iterate = scale_by_muon(
        beta=0, nesterov=False, weight_dimension_numbers=MuonDimensionNumbers(1, 2)
    )
    for (_, inputs), places in alike.items():
        matrices = jnp.stack([leaves[place].reshape(inputs, -1) for place in places])
        found: Any = iterate.update(matrices, iterate.init(matrices))[0]
        found *= _MUON_RMS * max(found.shape[1:]) ** 0.5
        for place, matrix in zip(places, found, strict=True):
            leaves[place] = matrix.reshape(leaves[place].shape)
    return structure.unflatten(leaves)


def _sides(params: PyTree) -> PyTree[MuonDimensionNumbers | None]:
    """The input axes of each matrix, which come first, and its output axes; else None."""

    def sides(path: tuple, leaf: Array) -> MuonDimensionNumbers | None:
        name = path_name(path)
        if not name.endswith("kernel"):
            return None
        if name.endswith("output/kernel") and leaf.ndim == 3:  # H K D
            return MuonDimensionNumbers((0, 1), 2)
        return MuonDimensionNumbers((0,), tuple(range(1, leaf.ndim)))  # D H K, D F

    return jax.tree_util.tree_map_with_path(sides, params)
