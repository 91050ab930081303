import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.decoding.length_penalty import length_penalty


def test_it_is_the_table_of_gnmt_equation_14():
    table = {  # n: ((5 + n) / 6)^0.6, by pocket calculator
        1: 1.0,
        7: 1.515717,
        13: 1.933182,
        25: 2.626528,
        55: 3.981072,
    }
    penalties = length_penalty(jnp.array(list(table)), 0.6)
    np.testing.assert_allclose(penalties, list(table.values()), rtol=1e-6)


def test_the_power_formula_is_the_length_to_the_alpha():
    table = {1: 1.0, 2: 1.515717, 10: 3.981072, 32: 8.0}  # n: n^0.6, by pocket calculator
    penalties = length_penalty(jnp.array(list(table)), 0.6, "power")
    np.testing.assert_allclose(penalties, list(table.values()), rtol=1e-6)


def test_alpha_0_penalises_nothing_and_alpha_1_is_linear():
    lengths = jnp.array([1, 2, 7])
    np.testing.assert_array_equal(length_penalty(lengths, 0.0), [1, 1, 1])
    np.testing.assert_array_equal(length_penalty(lengths, 0.0, "power"), [1, 1, 1])
    np.testing.assert_allclose(length_penalty(lengths, 1.0), [1, 7 / 6, 2], rtol=1e-6)
    np.testing.assert_allclose(length_penalty(lengths, 1.0, "power"), [1, 2, 7], rtol=1e-6)


@pytest.mark.parametrize("formula", ["gnmt", "power"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_the_end_token_alone_has_penalty_1(alpha, formula):
    assert length_penalty(1, alpha, formula) == 1
