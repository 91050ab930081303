"""Products of rounded operands, which a CPU trains with if asked, and a search anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.embedding import table_logits
from t2t_jax.model.families import initial_params, make_model, parameter_shapes
from t2t_jax.model.layouts import computed_once
from t2t_jax.model.linear import affine
from t2t_jax.model.products import in_bfloat16, product, rounded
from t2t_jax.training.loss import make_loss_fn
from tests.model.configs import small

IDS = np.arange(4, 20).reshape(2, 8).astype(np.int32)


def of_a_model(precision, change=lambda params: params, **changes):
    """Loss and gradients in training."""
    model = make_model(small(vocabulary_rows=20, **changes))
    params = change(initial_params(model, jax.random.key(0)))
    loss_fn = jax.value_and_grad(make_loss_fn(model, 0.1), has_aux=True)
    with jax.default_matmul_precision(precision):
        (loss, _), found = jax.jit(loss_fn)(params, Batch(IDS, IDS), jax.random.key(1))
    return loss, found


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "bfloat16"},
        {"dtype": "bfloat16", "scale_logits": True},
        {"dtype": "bfloat16", "family": "recurrent"},
    ],
    ids=str,
)
def test_a_model_in_bfloat16_is_as_it_is_without(changes):
    (exact, one), (rounded, other) = (
        of_a_model(precision, **changes) for precision in (None, "bfloat16")
    )
    assert exact == rounded
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_models_output_bias_is_not_rounded():
    def only_bias(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        bias = params["output"]["bias"]
        zeros["output"]["bias"] = jnp.linspace(-9, 3, bias.size)
        return zeros

    exact, rounded = (
        of_a_model(precision, only_bias, output_bias=True)[0] for precision in (None, "bfloat16")
    )
    np.testing.assert_allclose(exact, rounded, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"scan_layers": True}, {"rematerialise": True}], ids=str)
def test_layers_in_a_loop_or_computed_again_are_rounded_alike(changes):
    exact, plain, other = (
        jax.tree.leaves(of_a_model(precision, **each))
        for precision, each in ((None, {}), ("bfloat16", {}), ("bfloat16", changes))
    )

    def distance(these):
        return sum(float(np.sum((a - b) ** 2)) for a, b in zip(these, plain, strict=True)) ** 0.5

    assert distance(other) < 0.3 * distance(exact)


def test_what_is_computed_once_is_in_the_program_once():
    def program(wrap):
        def of(angles, x):
            sines = wrap(jnp.sin(angles))
            return [jnp.tanh(x * number) * sines[None] for number in range(2, 5)]

        arrays = jnp.ones((8, 64)), jnp.ones((5, 8, 64))
        return jax.jit(of).lower(*arrays).compile().as_text()

    assert program(computed_once).count(" sine(") == 1
    assert program(lambda x: x).count(" sine(") > 1


def test_a_bias_and_its_gradient_are_not_rounded():
    x, kernel, bias = np.zeros((8, 4), np.float32), *draws((4, 5), (5,))
    with jax.default_matmul_precision("bfloat16"):
        value, (_, _, of_bias) = gradients(affine, x, kernel, bias)
    rows = np.sin(np.arange(8))
    np.testing.assert_allclose(of_bias, np.full(5, rows.sum()), rtol=1e-5)
    np.testing.assert_allclose(value, rows.sum() * bias.sum(), rtol=1e-5)


def test_a_search_rounds_where_its_weights_are_in_bfloat16(function_and_inputs):
    function, (x, weights, *bias) = function_and_inputs
    found = jax.jit(function)(x, rounded(jnp.asarray(weights)), *bias)
    assert found.dtype == jnp.float32
    of_weights = rounded_to_8_bits(weights)
    of_weights = of_weights if len(of_weights) == x.shape[1] else of_weights.T
    wanted = rounded_to_8_bits(x) @ of_weights + sum(bias)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert (found != jax.jit(function)(x, weights, *bias)).any()
    narrow = rounded(jnp.asarray(x))  # a model in bfloat16 is as it was
    one, other = (
        jax.jit(function)(narrow, each, *bias) for each in (weights, rounded(jnp.asarray(weights)))
    )
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "of_logits, changes",
    [
        ("output_embedding", {"positions": "learned", "tied_embeddings": "none"}),
        ("embedding", {"output_bias": True, "tied_embeddings": "decoder"}),
        ("embedding", {"positions": "relative", "ensemble_size": 2}),
        ("embedding", {"family": "recurrent", "recurrent_cell": "gru"}),
    ],
    ids=str,
)
def test_matrices_and_the_table_of_logits_alone_are_in_bfloat16(of_logits, changes):
    shapes = jax.eval_shape(in_bfloat16, parameter_shapes(make_model(small(**changes))))
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
        *modules, name = (key.key for key in path)
        is_matrix = name == "kernel" and "cell" not in modules
        is_one = is_matrix or [*modules[-1:], name] == [of_logits, "table"]
        assert leaf.dtype == (jnp.bfloat16 if is_one else jnp.float32), path
