"""Every key of the training section that a run may not change reaches the update."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from t2t_jax.data.batches.feed import feed
from t2t_jax.devices import make_devices
from t2t_jax.model.families import make_model
from t2t_jax.runs.batches import train_batches
from t2t_jax.runs.keys import may_change
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.steps import gradients_of, train_step_of
from t2t_jax.runs.train import train
from t2t_jax.runs.workdir import load_trained
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import make_train_state
from tests.runs.configs import smallest

# Another value of each key, with what it takes for the key to be read.
OTHERS = {
    "steps": (40, {"training.schedule": "linear", "training.warmup_steps": 1}),
    "label_smoothing": (0.3, {}),
    "label_smoothing_mass": ("all", {}),
    "schedule": ("peak", {"training.schedule": "paper"}),
    "warmup_steps": (4, {}),
    "learning_rate_scale": (3.0, {"training.schedule": "paper"}),
    "peak_learning_rate": (0.01, {}),
    "optimizer": ("lion", {}),
    "adam_beta1": (0.5, {}),
    "adam_beta2": (0.5, {}),
    "adam_epsilon": (1e-2, {}),
    "weight_decay": (0.5, {"training.optimizer": "adamw"}),
    "gradient_clip_norm": (1e-3, {"training.adam_epsilon": 1e-2}),  # else Adam undoes the scale
    "logits_dtype": ("bfloat16", {"model.dtype": "bfloat16"}),
}


def parameters_after_two_steps(cache, **changes):
    sections = smallest(cache, **{"data.num_buckets": 1, "model.dropout_rate": 0.0} | changes)
    devices = make_devices(**dataclasses.asdict(sections.devices))
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    batches = train_batches(prepare(sections), sections, devices)
    state = make_train_state(model, optimizer, sections.seed)
    step = jax.jit(train_step_of(sections, devices, model, optimizer))
    for batch in feed(batches, 0, 2, devices.put_batch):
        state, _ = step(state, batch)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.params)])


@functools.cache
def parameters_before(cache, where):
    """Those of the config as it is but for the pairs `where`."""
    return parameters_after_two_steps(cache, **dict(where))


def test_a_run_makes_the_steps_of_its_config(cache, tmp_path):
    changes = {
        **{"seed": 3, "training.schedule": "paper", "training.learning_rate_scale": 0.01},
        **{"model.d_ff": 32, "model.attention_biases": False, "model.dropout_rate": 0.0},
        **{"training.steps": 2, "data.num_buckets": 1},
    }
    train(smallest(cache, **changes), tmp_path)
    leaves = jax.tree.leaves(load_trained(tmp_path).params)
    ours = np.concatenate([np.ravel(leaf) for leaf in leaves])
    np.testing.assert_allclose(ours, parameters_after_two_steps(cache, **changes), atol=5e-5)


def test_another_seed_reads_other_batches(cache):
    sections = smallest(cache)
    prepared, devices = prepare(sections), make_devices(1)
    first, second = (
        train_batches(prepared, sections._replace(seed=seed), devices)[0] for seed in (0, 1)
    )
    assert not np.array_equal(first.source_ids, second.source_ids)


def test_every_key_that_a_run_may_not_change_has_another_value_here():
    fields = {field.name for field in dataclasses.fields(TrainingConfig)}
    assert {name for name in fields if not may_change(f"training.{name}")} == OTHERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_key_of_training_changes_the_update(cache, name):
    value, where = OTHERS[name]
    before = parameters_before(cache, tuple(where.items()))
    after = parameters_after_two_steps(cache, **where | {f"training.{name}": value})
    assert not np.array_equal(before, after)


def test_gradients_are_of_the_mean_loss_of_a_token(cache):
    """Adam does not see their scale, but clipping and epsilon do."""
    sections = smallest(cache, **{"data.num_buckets": 1, "model.dropout_rate": 0.0})
    devices = make_devices(**dataclasses.asdict(sections.devices))
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    state = make_train_state(model, optimizer, 0)
    gradients = jax.jit(gradients_of(sections, devices, model))
    [batch] = feed(train_batches(prepare(sections), sections, devices), 0, 1, devices.put_batch)
    twice = jax.tree.map(lambda rows: np.concatenate([rows, rows]), jax.device_get(batch))
    once, (doubled, metrics) = gradients(state, batch)[0], gradients(state, twice)
    assert metrics.tokens == 2 * np.count_nonzero(batch.target_ids)
    for ours, theirs in zip(jax.tree.leaves(doubled), jax.tree.leaves(once), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)
