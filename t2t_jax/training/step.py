"""One optimisation step, the same on one device and on many (paper section 5)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.families import initial_params
from t2t_jax.model.interface import Model
from t2t_jax.training.loss import LossFn, Metrics


class TrainState(NamedTuple):
    """All that a run needs to go on, hence all that a checkpoint holds."""

    seed: Int[Array, ""]
    step: Int[Array, ""]  # updates made
    params: PyTree[Array]
    opt_state: PyTree[Array]


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[PyTree, Batch], Metrics]
# (params, batch, dropout_key) -> (gradients, metrics), both summed over the rows.
Summed = Callable[[PyTree, Batch, Key[Array, ""]], tuple[PyTree, Metrics]]

# Every random thing is a function of (seed, purpose, step): the purposes.
_INITIALISATION, _DROPOUT = 0, 1


def make_train_state(
    model: Model, optimizer: optax.GradientTransformation, seed: int | Int[Array, ""]
) -> TrainState:
    """The state before the first step: parameters drawn from `seed`, nothing learned."""
    params = initial_params(model, _key(seed, _INITIALISATION, 0))
    return TrainState(
        seed=jnp.asarray(seed, jnp.int32),
        step=jnp.asarray(0, jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
    )


def make_train_step(
    loss_fn: LossFn,
    optimizer: optax.GradientTransformation,
    *,
    microbatches: int = 1,
    over_devices: Callable[[Summed], Summed] = lambda summed: summed,
) -> TrainStep:
    """Builds `train_step(state, batch)`, ready to be compiled.

    `loss_fn` gives the loss summed over tokens. Gradients are summed over the microbatches and
    devices and divided once by the global token count: however a batch is cut, the update is the
    same. So is dropout however devices share a batch; but each microbatch draws masks of its own.

    Args:
      microbatches: a batch goes through the model in so many parts, one after another.
      over_devices: makes of sums over some rows, one device's, those over all (`summed_over`).
    """
    grad_fn = jax.grad(loss_fn, has_aux=True)

    def summed(params: PyTree, batch: Batch, dropout_key: Key[Array, ""]):
        """Gradients and metrics of all rows at hand."""
        if microbatches == 1:
            return grad_fn(params, batch, dropout_key)

        def add(total, numbered):
            number, part = numbered
            grads, metrics = grad_fn(params, part, jax.random.fold_in(dropout_key, number))
            return jax.tree.map(jnp.add, total, (grads, metrics)), None

        parts = jax.tree.map(lambda rows: _in_parts(rows, microbatches), batch)
        first = jax.tree.map(lambda rows: rows[0], parts)
        shapes = jax.eval_shape(grad_fn, params, first, dropout_key)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(add, nothing, (jnp.arange(microbatches), parts))[0]

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        dropout_key = _key(state.seed, _DROPOUT, state.step)
        grads, metrics = over_devices(summed)(state.params, batch, dropout_key)
        grads = jax.tree.map(lambda g: g / metrics.tokens, grads)

        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return state._replace(step=state.step + 1, params=params, opt_state=opt_state), metrics

    return train_step


def make_eval_step(loss_fn: LossFn) -> EvalStep:
    """Builds `eval_step(params, batch)`: the sums of the loss without dropout."""
    return lambda params, batch: loss_fn(params, batch, None)[1]


def _in_parts(rows: Int[Array, "B ..."], microbatches: int) -> Int[Array, "microbatches b ..."]:
    # All sizes are told: of a language model's source there is nothing, of which none follows.
    num_rows, *inner = rows.shape
    return rows.reshape(microbatches, num_rows // microbatches, *inner)


def _key(seed: int | Int[Array, ""], purpose: int, step: int | Int[Array, ""]) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), step)
