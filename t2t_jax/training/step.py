"""One optimisation step, the same on one device and on many (paper section 5)."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from t2t_jax.data.batches.batches import Batch
from t2t_jax.made_once import made_once
from t2t_jax.model.families import initial_params
from t2t_jax.model.interface import Model
from t2t_jax.row_keys import GENERATOR
from t2t_jax.training.loss import LossFn, Metrics


class TrainState(NamedTuple):
    """Everything a run needs to resume, hence everything in a checkpoint."""

    seed: Int[Array, ""]
    step: Int[Array, ""]  # steps done, including skipped ones
    params: PyTree[Array]
    opt_state: PyTree[Array]
    bad_steps: Int[Array, ""]  # in a row, with a non-finite loss or gradient norm
    skipped: Int[Array, ""]  # bad steps, which made no update
    rewinds: Int[Array, ""]  # times the run went back to a checkpoint
    left_out: Int[Array, ""]  # batches skipped by that: step i, from 0, reads batch i + left_out


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[PyTree, Batch], Metrics]
# (params, batch, dropout_key) -> (gradients, metrics), both summed over the rows.
Summed = Callable[[PyTree, Batch, Key[Array, ""]], tuple[PyTree, Metrics]]
Gradients = Callable[[TrainState, Batch], tuple[PyTree, Metrics]]

# All randomness is a function of (seed, purpose, step); the purposes:
_INITIALISATION, _DROPOUT = 0, 1


def make_train_state(
    model: Model, optimizer: optax.GradientTransformation, seed: int | Int[Array, ""]
) -> TrainState:
    """The state before the first step, with parameters drawn from `seed`."""
    params = initial_params(model, _key(seed, _INITIALISATION, 0))
    counts = ("step", "bad_steps", "skipped", "rewinds", "left_out")
    return TrainState(
        seed=jnp.asarray(seed, jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        **{name: jnp.asarray(0, jnp.int32) for name in counts},
    )


def make_gradients(
    loss_fn: LossFn,
    *,
    microbatches: int = 1,
    over_devices: Callable[[Summed], Summed] = lambda summed: summed,
) -> Gradients:
    """Builds `gradients(state, batch)`: gradients of the mean loss per token, and all sums.

    `loss_fn` returns the loss summed over tokens. Gradients are summed over microbatches and
    devices and divided once by the global token count, so the update does not depend on how a batch
    is split. Nor does dropout depend on how devices share it, unless there are microbatches: each
    draws its own masks, for rows that depend on the devices.

    Args:
      microbatches: number of parts of a batch that go through the model one after another.
      over_devices: turns sums over one device's rows into sums over all (`summed_over`).
    """
    grad_fn = jax.grad(loss_fn, has_aux=True)

    def summed(params: PyTree, batch: Batch, dropout_key: Key[Array, ""]):
        """Gradients and metrics of the given rows."""
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

    def gradients(state: TrainState, batch: Batch) -> tuple[PyTree, Metrics]:
        dropout_key = _key(state.seed, _DROPOUT, state.step)
        grads, metrics = over_devices(summed)(state.params, batch, dropout_key)
        return jax.tree.map(lambda g: g / metrics.tokens, grads), metrics

    return gradients


@made_once
def make_train_step(
    loss_fn: LossFn,
    optimizer: optax.GradientTransformation,
    *,
    max_bad_steps: int = 0,
    microbatches: int = 1,
    over_devices: Callable[[Summed], Summed] = lambda summed: summed,
) -> TrainStep:
    """Builds `train_step(state, batch)`, ready to compile.

    A step with a non-finite loss or gradient norm is skipped: it makes no update and adds nothing
    to the sums. After more than `max_bad_steps` in a row, the state no longer changes: its `step`
    then equals the index, from 0, of the last bad one.

    `microbatches` and `over_devices` are those of `make_gradients`.
    """
    gradients = make_gradients(loss_fn, microbatches=microbatches, over_devices=over_devices)

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        grads, metrics = gradients(state, batch)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)

        is_running = state.bad_steps <= max_bad_steps
        is_finite = jnp.isfinite(metrics.loss) & jnp.isfinite(global_norm(grads))
        is_good = is_running & is_finite
        bad_steps = jnp.where(is_good, 0, state.bad_steps + is_running)
        is_counted = bad_steps <= max_bad_steps  # else the state stays as it is
        new_state = state._replace(
            step=state.step + is_counted,
            # Selected as they are computed, which moves no more memory than the update itself.
            params=_either(is_good, params, state.params),
            opt_state=_either(is_good, opt_state, state.opt_state),
            bad_steps=bad_steps,
            skipped=state.skipped + (is_counted & ~is_good),
        )
        return new_state, jax.tree.map(lambda total: jnp.where(is_good, total, 0), metrics)

    return train_step


def global_norm(grads: PyTree[Array]) -> Float[Array, ""]:
    """sqrt of the sum of all squares: the norm of the gradients as one vector."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(grads)))


def count_like(old: Any, value: int) -> Int[Array, ""]:
    """`value` as an array placed like `old`, so that no step is recompiled."""
    number = np.asarray(value, np.int32)
    sharding = getattr(old, "sharding", None)
    if sharding is None:
        return jnp.asarray(number)
    return jax.make_array_from_callback((), sharding, lambda _: number)


@made_once
def make_eval_step(loss_fn: LossFn) -> EvalStep:
    """Builds `eval_step(params, batch)`: the loss's sums, without dropout."""
    return lambda params, batch: loss_fn(params, batch, None)[1]


def _either(condition: Bool[Array, ""], if_true: PyTree, if_false: PyTree) -> PyTree:
    return jax.tree.map(partial(jnp.where, condition), if_true, if_false)


def _in_parts(rows: Int[Array, "B ..."], microbatches: int) -> Int[Array, "microbatches b ..."]:
    # No -1: a language model's source is empty, which leaves that size undetermined.
    num_rows, *inner = rows.shape
    return rows.reshape(microbatches, num_rows // microbatches, *inner)


def _key(seed: int | Int[Array, ""], purpose: int, step: int | Int[Array, ""]) -> Key[Array, ""]:
    start = jax.random.key(seed, impl=GENERATOR)
    return jax.random.fold_in(jax.random.fold_in(start, purpose), step)
