"""Products of rounded operands, which a CPU trains with if asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.embedding import table_logits
from t2t_jax.model.linear import affine
from t2t_jax.model.products import product, rounded

SIZES = [(1, 1, 1), (1, 7, 3), (2, 1, 5), (5, 3, 1), (33, 17, 65), (64, 128, 256), (300, 96, 40)]


def rounded_to_8_bits(x):
    return np.asarray(rounded(jnp.asarray(x)).astype(jnp.float32), np.float64)


def draws(*shapes):
    draw = np.random.default_rng(0).standard_normal
    return [draw(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("transposed", ["", "x", "y", "xy"])
@pytest.mark.parametrize("size", SIZES)
def test_a_product_rounds_its_operands_alone(size, transposed):
    x, y = draws(size[:2], size[1:])
    wanted = rounded_to_8_bits(x) @ rounded_to_8_bits(y)

    @jax.jit
    def of(x, y):
        x = x.T if "x" in transposed else x
        y = y.T if "y" in transposed else y
        return product(rounded(x), rounded(y))

    found = of(x.T if "x" in transposed else x, y.T if "y" in transposed else y)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    of_result = jax.jit(lambda x, y: product(rounded(x), rounded(y)).T + 1)
    np.testing.assert_allclose(of_result(x, y), wanted.T + 1, rtol=1e-5, atol=1e-5)


def gradients(function, *inputs):
    def summed(*inputs):
        return (jnp.sin(jnp.arange(inputs[0].shape[0]))[:, None] * function(*inputs)).sum()

    return jax.jit(jax.value_and_grad(summed, tuple(range(len(inputs)))))(*inputs)


@pytest.fixture(params=["affine", "no bias", "logits"])
def function_and_inputs(request):
    x, kernel, bias, table = draws((24, 16), (16, 40), (40,), (40, 16))
    return {
        "affine": (affine, (x, kernel, bias)),
        "no bias": (lambda x, kernel: affine(x, kernel, None), (x, kernel)),
        "logits": (lambda x, table: table_logits(x[:, None], table)[:, 0], (x, table)),
    }[request.param]


def test_training_rounds_and_nothing_else_does(function_and_inputs):
    function, inputs = function_and_inputs
    exact, exact_gradients = gradients(function, *inputs)
    outside = jax.jit(function)(*inputs)
    with jax.default_matmul_precision("bfloat16"):
        value, found = gradients(function, *inputs)
        np.testing.assert_array_equal(jax.jit(function)(*inputs), outside)
    assert value != exact
    for rough, fine in zip(found, exact_gradients, strict=True):
        assert rough.dtype == jnp.float32
        scale = np.abs(fine).max()
        np.testing.assert_allclose(rough, fine, atol=0.02 * scale)
    assert any((rough != fine).any() for rough, fine in zip(found, exact_gradients, strict=True))


def test_a_bias_and_its_gradient_are_not_rounded():
    x, kernel, bias = np.zeros((8, 4), np.float32), *draws((4, 5), (5,))
    with jax.default_matmul_precision("bfloat16"):
        value, (_, _, of_bias) = gradients(affine, x, kernel, bias)
    rows = np.sin(np.arange(8))
    np.testing.assert_allclose(of_bias, np.full(5, rows.sum()), rtol=1e-5)
    np.testing.assert_allclose(value, rows.sum() * bias.sum(), rtol=1e-5)
