"""The steps of a config, as the devices compile them."""

from collections.abc import Callable
from typing import Any

import jax
import optax
from flax import linen as nn
from jaxtyping import PyTree

from t2t_jax.cli.batches import evaluation_batches
from t2t_jax.cli.sections import Sections
from t2t_jax.data.feed import feed
from t2t_jax.data.prepared import Prepared
from t2t_jax.devices import Devices
from t2t_jax.training.loss import LossFn, Metrics, make_loss_fn, sum_of
from t2t_jax.training.step import TrainStep, make_eval_step, make_train_step


def train_step_of(
    sections: Sections,
    devices: Devices,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    microbatches: int = 1,
) -> TrainStep:
    """The training step of a config, ready for `devices` to compile."""
    return make_train_step(
        _loss_fn(sections, devices, model),
        optimizer,
        microbatches=microbatches,
        **devices.step_options,
    )


def make_evaluate(
    sections: Sections,
    devices: Devices,
    model: nn.Module,
    prepared: Prepared,
    split: str,
    num_seeds: int = 1,
) -> Callable[[PyTree], Metrics]:
    """Builds `evaluate(params)`: the sums of the loss over every pair of `split`, once each.

    With several seeds parameters and sums have a first axis of them.
    """
    eval_step = make_eval_step(
        _loss_fn(sections, devices, model), devices.axis_name, devices.gather
    )
    if num_seeds > 1:
        eval_step = jax.vmap(eval_step, in_axes=(0, None))
    eval_step = devices.compile(eval_step)
    batches = evaluation_batches(prepared, split, sections, devices)

    def evaluate(params: PyTree[Any]) -> Metrics:
        fed = feed(batches, 0, batches.batches_per_epoch, devices.put_batch)
        return sum_of([eval_step(params, batch) for batch in fed])

    return evaluate


def _loss_fn(sections: Sections, devices: Devices, model: nn.Module) -> LossFn:
    training = sections.training
    return make_loss_fn(
        model.clone(row_groups=devices.row_groups),
        training.label_smoothing,
        training.loss_chunk_tokens,
        training.label_smoothing_mass,
    )
