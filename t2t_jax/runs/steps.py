"""The training and evaluation steps of a config, compiled for its devices."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import Array, Int, PyTree

from t2t_jax import hosts
from t2t_jax.compilation import (
    compile_ahead,
    compile_sums,
    compile_train_step,
    memory_needed,
    summed_over,
)
from t2t_jax.data.batches.batches import Batches
from t2t_jax.data.batches.feed import feed
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.devices import Devices
from t2t_jax.made_once import made_once
from t2t_jax.model.ensemble import stacked
from t2t_jax.model.families import make_model
from t2t_jax.model.interface import Model
from t2t_jax.runs.batches import (
    describe_cut,
    empty_batches,
    evaluation_batches,
    largest_batches,
    train_batches,
)
from t2t_jax.runs.sections import Sections
from t2t_jax.runs.state_form import has_members_at_once
from t2t_jax.training.config import LogitsDtype
from t2t_jax.training.loss import LossFn, Metrics, make_loss_fn, sum_of
from t2t_jax.training.optimizer import make_optimizer, members_at_once
from t2t_jax.training.step import (
    Gradients,
    TrainState,
    TrainStep,
    make_eval_step,
    make_gradients,
    make_train_state,
    make_train_step,
)

_CHUNK_OF_EVALUATION = 4_096  # target tokens of a device: 0.6 GiB of base's logits
_PARTS = "training.microbatches=0, which makes as many parts as it takes, or "
_ADVICE = (
    "training.loss_chunk_tokens, or model.rematerialise=True, or lower "
    "data.source_tokens_per_batch and target_tokens_per_batch, in another --workdir"
)


def batches_and_step(
    prepared: Prepared,
    sections: Sections,
    devices: Devices,
    model: Model,
    optimizer: optax.GradientTransformation,
    shapes: TrainState,
) -> tuple[Batches, TrainStep, int]:
    """The batches of train, their step and its microbatches; logs how an update is split.

    If `training.microbatches` is 0, there are as few as fit a device's memory: 1, 2, 4, ...

    Args:
      shapes: of the state.

    Raises:
      ValueError: not even microbatches of one row fit, or a sentence is too long for a batch.
    """
    fixed = sections.training.microbatches
    limit = None if fixed else devices.memory_limit()
    microbatches = fixed or 1
    while True:
        batches = train_batches(prepared, sections, devices, microbatches)
        step = train_step_of(sections, devices, model, optimizer, microbatches)
        largest = largest_batches(batches)
        needed = 0
        if limit is not None:
            needed = max(memory_needed(devices, step, shapes, each) for each in largest)
        if limit is None or not hosts.any_of(needed > limit):
            hosts.log(describe_cut(batches, devices, microbatches))
            return batches, step, microbatches
        if max(len(each.target_ids) for each in largest) <= microbatches * devices.num_data:
            # The largest int stands for a step that the compiler itself has refused.
            needs = "more" if needed == sys.maxsize else f"{needed / 2**30:.2f} GiB"
            raise ValueError(
                f"training.microbatches=0: row by row a step still needs {needs}, and a device has "
                f"{limit / 2**30:.2f} GiB: make the model smaller, or lower data.max_length"
            )
        microbatches *= 2


def state_and_step(
    sections: Sections, devices: Devices
) -> tuple[Callable[[int | Int[Array, ""]], TrainState], TrainStep]:
    """How training begins, given a seed, and its step; both not yet compiled.

    Without `training.microbatches` there is one. The state is that of the step.
    """
    model = make_model(sections.model)
    optimizer = optimizer_on(devices, sections)
    microbatches = sections.training.microbatches or 1

    make_state = make_first_state(model, optimizer, has_members_at_once(sections, devices))
    return make_state, train_step_of(sections, devices, model, optimizer, microbatches)


@made_once
def make_first_state(
    model: Model, optimizer: optax.GradientTransformation, members_at_once: bool
) -> Callable[[int | Int[Array, ""]], TrainState]:
    """Builds the state before the first step, given a seed; compiled when it is called."""

    @jax.jit
    def make_state(seed: int | Int[Array, ""]) -> TrainState:
        state = make_train_state(model, optimizer, seed)
        return stacked(state) if members_at_once else state

    return make_state


def optimizer_on(devices: Devices, sections: Sections) -> optax.GradientTransformation:
    """The optimizer of the config as these devices compute it best."""
    return make_optimizer(
        sections.training, sections.model.d_model, matrices_at_once=devices.are_accelerators
    )


def train_step_of(
    sections: Sections,
    devices: Devices,
    model: Model,
    optimizer: optax.GradientTransformation,
    microbatches: int = 1,
) -> TrainStep:
    """The training step of a config, ready for `devices` to compile.

    Its state is `stacked` if the config `has_members_at_once`.
    """
    at_once = has_members_at_once(sections, devices)
    return make_train_step(
        _loss_fn(sections, model, members_at_once=at_once),
        members_at_once(optimizer) if at_once else optimizer,
        max_bad_steps=sections.training.max_bad_steps,
        microbatches=microbatches,
        over_devices=summed_over(devices),
    )


def compiled_step(
    devices: Devices,
    train_step: TrainStep,
    state: TrainState,
    batches: Batches,
    microbatches: int = 1,
) -> TrainStep:
    """The compiled step: on accelerators, all shapes are compiled at once, before the first step.

    A CPU compiles each shape on demand, since its few cores gain nothing (docs/LOG.md), and so do
    several hosts, which may have to compile each program together.

    Args:
      microbatches: as in the config; 0 is no advice if a shape does not fit all the same.
    """
    if not devices.are_accelerators or hosts.are_several() or len(batches.shapes) == 1:
        return compile_train_step(devices, train_step, state)
    advice = f"; set {_PARTS * (microbatches > 0)}{_ADVICE}"
    return compile_ahead(devices, train_step, state, empty_batches(batches), advice)


def gradients_of(
    sections: Sections, devices: Devices, model: Model, microbatches: int = 1
) -> Gradients:
    """The gradients of the training step alone; the members of an ensemble one after another."""
    return make_gradients(
        _loss_fn(sections, model),
        microbatches=microbatches,
        over_devices=summed_over(devices),
    )


def make_evaluate(
    sections: Sections,
    devices: Devices,
    model: Model,
    prepared: Prepared,
    split: str,
) -> Callable[[PyTree], Metrics]:
    """Builds `evaluate(params)`: the sums of the loss over every pair of `split`, once each.

    If the config `has_members_at_once`, parameters may be `stacked`.

    A batch goes through the model whole. Where training cuts it in microbatches, its logits, most
    of what it takes without gradients, are held in chunks. They are in float32, whatever training
    stores: rounded ones are often equal, and more tokens would count as right.
    """
    chunk = sections.training.loss_chunk_tokens
    if not chunk and sections.training.microbatches != 1:
        chunk = _CHUNK_OF_EVALUATION
    at_once = has_members_at_once(sections, devices)
    loss_fn = _loss_fn(sections, model, chunk, "float32", at_once)
    eval_step = compile_sums(devices, make_eval_step(loss_fn))
    batches = evaluation_batches(prepared, split, sections, devices)

    def evaluate(params: PyTree[Any]) -> Metrics:
        fed = feed(batches, 0, batches.batches_per_epoch, devices.put_batch)
        return sum_of([eval_step(params, batch) for batch in fed])

    return evaluate


def _loss_fn(
    sections: Sections,
    model: Model,
    tokens_per_chunk: int | None = None,
    logits_dtype: LogitsDtype | None = None,
    members_at_once: bool = False,
) -> LossFn:
    """The loss that training minimises, unless another chunk or type is given."""
    training = sections.training
    return make_loss_fn(
        model,
        training.label_smoothing,
        training.loss_chunk_tokens if tokens_per_chunk is None else tokens_per_chunk,
        training.label_smoothing_mass,
        logits_dtype or training.logits_dtype,
        members_at_once,
    )
