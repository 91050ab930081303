"""Rows of a table, and the sum of their gradients: the same in any order."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.look_up import look_up, sum_by_id
from tests.model.configs import logits_of, model_and_variables, some_ids


@pytest.mark.parametrize(
    "ids", [[0], [4], [3, 3, 3, 3], [0, 4, 0, 4, 1], [2, 1, 0], list(range(5)) * 7, [1] * 64 + [0]]
)
def test_a_sum_by_id_has_every_value_once(ids):
    values = np.random.default_rng(0).integers(-9, 9, (len(ids), 3)).astype(np.float32)
    expected = np.zeros((5, 3), np.float32)
    np.add.at(expected, ids, values)
    actual = jax.jit(sum_by_id, static_argnums=2)(values, jnp.array(ids), 5)
    np.testing.assert_array_equal(actual, expected)


def test_arrays_of_numpy_are_read_too():
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(look_up(table, np.array([[2, 0]])), table[[[2, 0]]])


def test_on_a_cpu_gradients_are_to_the_bit_those_of_take():
    draws = np.random.default_rng(0)
    table = draws.normal(size=(7, 4)).astype(np.float32)
    ids = jnp.asarray(draws.integers(0, 7, (5, 30)))
    weights = draws.normal(size=(5, 30, 4)).astype(np.float32)

    def gradient(rows_of):
        return jax.jit(jax.grad(lambda table: (rows_of(table, ids) * weights).sum()))(table)

    expected = gradient(lambda table, ids: jnp.take(table, ids, axis=0))
    np.testing.assert_array_equal(gradient(look_up), expected)


def _places_that_may_meet(lowered: str) -> int:
    """Scatters that do not promise to write to each place once."""
    scatters = re.findall(r"stablehlo\.scatter.*?unique_indices = (\w+)", lowered, re.DOTALL)
    return scatters.count("false")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "learned"},
        {"positions": "relative"},
        {"family": "decoder_only"},
        {"family": "encoder_only", "pooling": "cls"},
        # Not recurrent: what Flax's RNN scatters besides has a place of its own each.
    ],
    ids=str,
)
def test_on_a_gpu_no_two_gradients_are_added_to_one_place_at_once(monkeypatch, changes):
    model, variables = model_and_variables(**changes)
    inputs = some_ids(2, 5), some_ids(2, 5)

    def places():
        gradient = jax.jit(jax.grad(lambda given: logits_of(model, given, *inputs).sum()))
        traced = gradient.trace(variables)
        return _places_that_may_meet(traced.lower(lowering_platforms=("cuda",)).as_text())

    assert places() > 0  # as it is without sorting, so that the pattern finds them
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert places() == 0
