"""A row's training, stretched over its new number of updates."""

import jax.numpy as jnp
import pytest

from configs import base as paper
from configs import tiny
from experiments.tables.ablation import Row, check_row
from experiments.tables.equal import is_stretched, stretched
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.schedule import learning_rate

ROW = Row("one_layer", {"model.num_encoder_layers": 1}, note="small")


def rates(row, base, places):
    """The rate at these shares of the training."""
    training = TrainingConfig(**row.config(base).training)
    return [
        float(learning_rate(jnp.asarray(round(s * training.steps)), training, 128)) for s in places
    ]


@pytest.mark.parametrize("steps", [550, 2_200])
def test_intervals_grow_with_the_training(steps):
    row = stretched(ROW, tiny.get_config(), steps)
    training = row.config(tiny.get_config()).training
    assert row.note == "small" and row.changes["model.num_encoder_layers"] == 1
    assert (training.steps, training.warmup_steps) == (steps, steps // 11)
    assert training.evaluate_every_steps == steps // 11
    assert training.checkpoint_every_steps == steps // 2
    assert training.log_every_steps == 50 and training.peak_learning_rate == 0.003


@pytest.mark.parametrize("base", [paper.get_config(), tiny.get_config()], ids=["paper", "linear"])
def test_the_rate_is_the_same_at_the_same_share_of_the_training(base):
    row = stretched(ROW, base, 2 * base.training.steps)
    places = (0.02, 0.04, 0.1, 0.5, 1.0)
    # The linear schedule ends a step above zero.
    assert rates(row, base, places) == pytest.approx(rates(ROW, base, places), rel=1e-3, abs=3e-6)


def test_a_row_with_its_own_steps_gets_what_it_is_given():
    row = stretched(Row("long", {"training.steps": 5_000}), tiny.get_config(), 2_500)
    training = row.config(tiny.get_config()).training
    assert (training.steps, training.warmup_steps) == (2_500, 50)


def test_checkpoints_by_the_clock_are_not_stretched():
    base = tiny.get_config()
    base.training.checkpoint_every_minutes = 10.0
    row = stretched(ROW, base, 2_200)
    assert "training.checkpoint_every_steps" not in row.changes
    check_row(row, base)


def test_as_many_updates_as_before_change_nothing():
    assert stretched(ROW, tiny.get_config(), 1_100) == ROW


def test_what_is_stretched_is_known_again():
    row = stretched(ROW, tiny.get_config(), 700)
    assert is_stretched(ROW, row.changes) and row.changes != ROW.changes
    assert not is_stretched(ROW, {**row.changes, "model.d_ff": 8})


@pytest.mark.parametrize("steps", [0, 1])
def test_too_few_updates_are_refused(steps):
    with pytest.raises(ValueError, match=f"row one_layer: base's budget allows {steps} of its"):
        stretched(ROW, tiny.get_config(), steps)
