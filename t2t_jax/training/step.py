"""One optimisation step, the same on one device and on many (paper section 5)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jaxtyping import Array, Int, Key, PyTree

from t2t_jax.data.batches import Batch
from t2t_jax.training.loss import LossFn, Metrics


class TrainState(NamedTuple):
    """All that a run needs to go on, hence all that a checkpoint holds."""

    seed: Int[Array, ""]
    step: Int[Array, ""]  # updates made
    params: PyTree[Array]
    opt_state: PyTree[Array]


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[PyTree, Batch], Metrics]

# Every random thing is a function of (seed, purpose, step): the purposes.
_INITIALISATION, _DROPOUT = 0, 1


def make_train_state(
    model: nn.Module, optimizer: optax.GradientTransformation, seed: int | Int[Array, ""]
) -> TrainState:
    """The state before the first step: parameters drawn from `seed`, nothing learned."""
    ids = jnp.zeros((1, 1), jnp.int32)
    key = _key(seed, _INITIALISATION, 0)
    params = model.init(key, ids, ids, deterministic=True, method="features")["params"]
    return TrainState(
        seed=jnp.asarray(seed, jnp.int32),
        step=jnp.asarray(0, jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
    )


def make_train_step(
    loss_fn: LossFn, optimizer: optax.GradientTransformation, axis_name: str | None = None
) -> TrainStep:
    """Builds `train_step(state, batch)`, ready to be compiled, with `axis_name` for each device.

    `loss_fn` gives the loss summed over tokens. Gradients are summed over the batch, with
    `axis_name` over its parts on all devices, and divided once by the global token count: n
    devices make the very update of one.
    """

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        dropout_key = _key(state.seed, _DROPOUT, state.step)
        if axis_name is not None:
            dropout_key = jax.random.fold_in(dropout_key, jax.lax.axis_index(axis_name))
        grads, metrics = jax.grad(loss_fn, has_aux=True)(state.params, batch, dropout_key)
        if axis_name is not None:
            grads, metrics = jax.lax.psum((grads, metrics), axis_name)
        grads = jax.tree.map(lambda g: g / metrics.tokens, grads)

        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return state._replace(step=state.step + 1, params=params, opt_state=opt_state), metrics

    return train_step


def make_eval_step(loss_fn: LossFn) -> EvalStep:
    """Builds `eval_step(params, batch)`: the sums of the loss without dropout."""

    def eval_step(params: PyTree, batch: Batch) -> Metrics:
        return loss_fn(params, batch, None)[1]

    return eval_step


def _key(seed: int | Int[Array, ""], purpose: int, step: int | Int[Array, ""]) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), step)
