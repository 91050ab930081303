"""float32 where it must be, and how far computing in bfloat16 is from computing in float32.

bfloat16 keeps 8 bits: every rounding is wrong by up to 2^-8 = 0.4 % of the number. What becomes of
that in the log-probabilities of a whole small model is measured: over eight kinds of positions,
three families and six draws of parameters (all of them random, 12 wide, up to 2 layers) the largest
difference was 0.075, in a model 64 wide as it is drawn for training 0.045 with 2 + 2 layers and
0.068 with 6 + 6. The bound is twice the largest: 0.15 nats.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.attention import scaled_dot_product_attention
from t2t_jax.model.capture import capture
from t2t_jax.model.embedding import table_logits
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.model.linear import affine
from t2t_jax.training.loss import make_loss_fn
from tests.model.configs import POSITION_CHANGES, model_and_variables, run, small, some_ids
from tests.model.probes import step_by_step

B, T, S = 2, 5, 7

BOUND = 0.15  # nats


@pytest.mark.parametrize("changes", POSITION_CHANGES, ids=lambda changes: changes["positions"])
@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only", "encoder_only"])
def test_log_probabilities_in_bfloat16_are_close_to_those_in_float32(family, changes):
    model, variables = model_and_variables(family=family, **changes)
    half = make_model(small(family=family, dtype="bfloat16", **changes))
    ids = [some_ids(4, 8)] * (2 if family == "encoder_decoder" else 1)
    expected, actual = (m.apply(variables, *ids, deterministic=True) for m in (model, half))
    assert actual.dtype == jnp.float32
    difference = np.abs(jax.nn.log_softmax(actual) - jax.nn.log_softmax(expected)).max()
    assert 0 < difference < BOUND


@pytest.mark.parametrize(
    "changes",
    [{}, {"family": "decoder_only"}, {"family": "encoder_only", "pooling": "query"}],
    ids=str,
)
def test_parameters_are_float32_whatever_the_compute_dtype(changes):
    model = make_model(small(dtype="bfloat16", positions="relative", output_bias=True, **changes))
    types = {leaf.dtype for leaf in jax.tree.leaves(parameter_shapes(model))}
    assert types == {jnp.dtype("float32")}


def test_a_classifiers_logits_are_float32():
    model, variables = model_and_variables(
        family="encoder_only", pooling="query", positions="rotary", d_k=6, dtype="bfloat16"
    )
    assert model.apply(variables, some_ids(2, 4), deterministic=True).dtype == jnp.float32


def test_scores_of_bfloat16_are_summed_in_float32():
    rng = np.random.default_rng(0)
    query, key = (jnp.asarray(rng.normal(size=(B, 4, T, 6)), jnp.bfloat16) for _ in range(2))

    def weights(query, key):
        return scaled_dot_product_attention(query, key, key, jnp.ones((1, T, T), bool))[1]

    expected = weights(query.astype(jnp.float32), key.astype(jnp.float32))
    np.testing.assert_allclose(weights(query, key), expected, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_whatever_lies_between_layers_is_of_the_computes_type(norm):
    model, variables = model_and_variables(dtype="bfloat16", norm=norm)
    ids = some_ids(B, T)
    _, captured = capture(model, variables["params"], None, ids, ids, deterministic=True)
    types = {array.dtype for path, array in captured.items() if not path.endswith("weights")}
    assert types == {jnp.dtype("bfloat16")}


def test_gradients_of_a_matrix_product_are_summed_in_float32():
    rng = np.random.default_rng(0)
    x, grad = (jnp.asarray(rng.normal(size=(300, n)), jnp.bfloat16) for n in (4, 3))
    _, pulled_back = jax.vjp(affine, x, jnp.zeros((4, 3)), jnp.zeros(3))
    _, kernel_grad, bias_grad = pulled_back(grad)
    x, grad = np.asarray(x, np.float32), np.asarray(grad, np.float32)
    np.testing.assert_allclose(kernel_grad, x.T @ grad, atol=1e-4)
    np.testing.assert_allclose(bias_grad, grad.sum(0), atol=1e-4)


def test_the_gradient_of_the_table_by_the_logits_is_summed_in_float32():
    rng = np.random.default_rng(0)
    x, grad = (jnp.asarray(rng.normal(size=(1, 300, n)), jnp.bfloat16) for n in (4, 3))
    _, pulled_back = jax.vjp(table_logits, x, jnp.zeros((3, 4)))
    _, table_grad = pulled_back(grad.astype(jnp.float32))
    x, grad = np.asarray(x, np.float32)[0], np.asarray(grad, np.float32)[0]
    np.testing.assert_allclose(table_grad, grad.T @ x, atol=1e-4)


@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only", "recurrent"])
def test_decoding_step_by_step_in_bfloat16_is_the_forward_pass(family):
    model, variables = model_and_variables(family=family, dtype="bfloat16")
    target = some_ids(B, T, seed=1)
    source = [] if family == "decoder_only" else [some_ids(B, S)]
    expected = run(model, variables, *source, target)
    actual, _ = step_by_step(model, variables, target, *source)
    np.testing.assert_allclose(actual, expected, atol=0.1)


@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only", "encoder_only"])
def test_no_product_of_a_step_in_bfloat16_is_one_of_float32(family):
    model = make_model(small(family=family, dtype="bfloat16", dropout_rate=0.1))
    params = parameter_shapes(model)
    batch = Batch(some_ids(2, 4), some_ids(2, 4))
    loss = make_loss_fn(model, 0.1)
    step = jax.make_jaxpr(jax.grad(loss, has_aux=True))(params, batch, jax.random.key(0))
    types = {
        tuple(str(operand.aval.dtype) for operand in equation.invars)
        for equation in equations(step.jaxpr)
        if equation.primitive.name == "dot_general"
    }
    assert types == {("bfloat16", "bfloat16")}


def equations(jaxpr):
    """Those of a program and of all programs in it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)
