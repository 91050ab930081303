"""One config key, one model; each gives training the same two factors of its logits."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from t2t_jax.model.classifier import Classifier
from t2t_jax.model.config import Family
from t2t_jax.model.families import make_model, num_parameters, parameter_shapes
from t2t_jax.model.interface import Inputs
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.model.masked_language_model import MaskedLanguageModel
from t2t_jax.model.recurrent import RecurrentTranslator
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.step import make_train_state
from tests.model.configs import logits_of, model_and_variables, small, some_ids

B, T = 2, 5
MODULES = [
    ({"family": "encoder_decoder"}, Transformer),
    ({"family": "decoder_only"}, LanguageModel),
    ({"family": "encoder_only"}, MaskedLanguageModel),
    ({"family": "encoder_only", "pooling": "mean"}, Classifier),
    ({"family": "recurrent"}, RecurrentTranslator),
]


@pytest.mark.parametrize(("changes", "module"), MODULES, ids=str)
def test_a_family_has_its_module(changes, module):
    assert type(make_model(small(**changes))) is module


@pytest.mark.parametrize(("changes", "_"), MODULES, ids=str)
def test_shapes_are_those_of_the_parameters_that_training_makes(changes, _):
    depths = {"num_encoder_layers": 3, "num_decoder_layers": 4}
    model = make_model(small(**changes, **depths, positions="relative", output_bias=True))
    made = jax.eval_shape(lambda: make_train_state(model, optax.identity(), 0)).params
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, parameter_shapes(model))
    count = sum(leaf.size for leaf in jax.tree.leaves(made))
    assert num_parameters(model.config) == count


@pytest.mark.parametrize(
    ("family", "output_bias", "scale_logits"),
    [
        *((family, both, both) for family in get_args(Family) for both in (False, True)),
        # What makes logits of a vector is one module of all families.
        ("decoder_only", True, False),
        ("decoder_only", False, True),
    ],
)
def test_features_are_factors_of_the_logits(family, output_bias, scale_logits):
    model, variables = model_and_variables(
        family=family, output_bias=output_bias, scale_logits=scale_logits
    )
    source, target = some_ids(B, T), some_ids(B, T, seed=1)
    read = {"decoder_only": [target], "encoder_only": [source]}.get(family, [source, target])
    logits = model.apply(variables, *read, deterministic=True)
    x, table = model.bind(variables).features(Inputs(source, target), deterministic=True)
    np.testing.assert_allclose(jnp.einsum("BTE,VE->BTV", x, table), logits, atol=1e-5)


def test_encoder_decoder_layers_may_differ_in_number():
    shapes = parameter_shapes(make_model(small(num_encoder_layers=3, num_decoder_layers=1)))
    assert len(shapes["encoder"]) == 3 and len(shapes["decoder"]) == 1


def test_the_bias_of_the_factors_is_exact_in_bfloat16_and_has_its_whole_gradient():
    model, variables = model_and_variables(
        family="decoder_only", output_bias=True, dtype="bfloat16"
    )
    bias = variables["params"]["output"]["bias"] = jnp.linspace(9.9, 10.1, 11)
    target = some_ids(B, T)

    def logits(bias):
        params = {**variables["params"], "output": {"bias": bias}}
        return logits_of(model, {"params": params}, target, target)

    expected = model.apply(variables, target, deterministic=True)
    # bfloat16 alone would be off by up to 0.03.
    np.testing.assert_allclose(logits(bias), expected, atol=1e-3)
    compiled = jax.jit(logits)  # which may round elsewhere
    np.testing.assert_allclose(
        compiled(bias) - compiled(0 * bias), np.broadcast_to(bias, (B, T, 11)), atol=1e-3
    )
    # Compilers for GPUs leave out a cast to bfloat16 and back, not this.
    assert "reduce_precision" in str(jax.make_jaxpr(logits)(bias))
    grads = jax.grad(lambda bias: logits(bias).sum())(bias)
    np.testing.assert_allclose(grads, np.full(11, B * T), rtol=1e-6)
