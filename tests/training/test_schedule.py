"""The learning rate against the paper's formula, and Adam against its published update."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.schedule import learning_rate, paper_peak
from tests.training.configs import short


def rate(step, config, d_model=512):
    return float(learning_rate(jnp.asarray(step), config, d_model))


@pytest.mark.parametrize("step", [1, 2, 3999, 4000, 4001, 100_000])
def test_paper_schedule_is_equation_3(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert rate(step, short(schedule="paper", warmup_steps=4000)) == pytest.approx(expected)


def test_the_papers_peak_is_what_everyone_quotes():
    assert paper_peak(512, 4000) == pytest.approx(6.99e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 0.005 / 2000), (1000, 0.0025), (2000, 0.005), (8000, 0.0025)]
)
def test_peak_schedule_rises_to_its_peak_and_falls_as_the_square_root(step, expected):
    config = short(schedule="peak", warmup_steps=2000, peak_learning_rate=0.005)
    assert rate(step, config) == pytest.approx(expected)


@pytest.mark.parametrize(("step", "expected"), [(5, 0.005), (10, 0.01), (60, 0.01 * 51 / 101)])
def test_linear_schedule_rises_and_falls_in_straight_lines(step, expected):
    config = short(schedule="linear", warmup_steps=10, steps=110, peak_learning_rate=0.01)
    assert rate(step, config) == pytest.approx(expected, rel=1e-5)


def test_linear_schedule_still_learns_at_the_last_step():
    config = short(schedule="linear", warmup_steps=10, steps=110, peak_learning_rate=0.01)
    assert 0 < rate(110, config) < 0.0002


def test_updates_equal_adam_written_out():
    config = short(warmup_steps=3)
    optimizer = make_optimizer(config, d_model=16)
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=4), jnp.float32)}
    state = optimizer.init(params)
    first, second = np.zeros(4), np.zeros(4)
    for step in range(1, 6):
        gradient = rng.normal(size=4)
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        corrected = first / (1 - 0.9**step), second / (1 - 0.98**step)
        expected = -rate(step, config, 16) * corrected[0] / (np.sqrt(corrected[1]) + 1e-9)
        updates, state = optimizer.update({"w": jnp.asarray(gradient, jnp.float32)}, state)
        np.testing.assert_allclose(updates["w"], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, r"training\.steps=0 must be at least 1"),
        ({"schedule": "cosine"}, r"training\.schedule='cosine' is not one of 'paper', 'peak'"),
        ({"label_smoothing": 1.0}, r"training\.label_smoothing=1\.0 must be in \[0, 1\)"),
        ({"peak_learning_rate": 0.0}, r"training\.peak_learning_rate=0\.0 must be above 0"),
        ({"schedule": "linear", "warmup_steps": 6}, r"warmup_steps=6 must be below steps=6"),
        ({"patience": -1}, r"training\.patience=-1 must be at least 0"),
    ],
)
def test_a_wrong_value_is_refused_in_words(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        short(**changes)


def test_the_papers_schedule_can_be_scaled():
    config = short(warmup_steps=4000, learning_rate_scale=2.0)
    assert rate(100, config) == pytest.approx(2 * 512**-0.5 * 100 * 4000**-1.5)


NUMBERS = [each for each in dataclasses.fields(TrainingConfig) if each.type in (int, float)]


@pytest.mark.parametrize("field", NUMBERS, ids=lambda each: each.name)
def test_no_number_is_below_zero(field):
    with pytest.raises(ValueError, match=rf"training\.{field.name}=-1"):
        short(**{field.name: field.type(-1)})


@pytest.mark.parametrize("beta", ["adam_beta1", "adam_beta2"])
def test_betas_are_below_one(beta):
    with pytest.raises(ValueError, match=rf"training\.{beta}=1\.0 must be in \[0, 1\)"):
        short(**{beta: 1.0})


@pytest.mark.parametrize("steps", [1, 30])
def test_a_warm_up_longer_than_the_training_is_refused_with_what_to_type(steps):
    with pytest.raises(
        ValueError, match="falls to nearly 0 at the last step: add --config"
    ) as refusal:
        short(schedule="linear", warmup_steps=40, steps=steps)
    ways = re.findall(r"--config\.training\.(\w+)=(\d+)", str(refusal.value))
    assert len(ways) == (1 if steps == 1 else 2)
    for key, value in ways:
        short(**{"schedule": "linear", "warmup_steps": 40, "steps": steps, key: int(value)})
