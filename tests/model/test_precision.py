"""float32 where it must be, and how far computing in bfloat16 is from computing in float32.

bfloat16 keeps 8 bits: every rounding is wrong by up to 2^-8 = 0.4 % of the number. What becomes of
that in the log-probabilities of a whole small model is measured: over the eight kinds of positions,
three families and six draws of parameters (all of them random, 12 wide, up to 2 layers) the largest
difference was 0.075, in a model 64 wide as it is drawn for training 0.045 with 2 + 2 layers and
0.068 with 6 + 6. The bound is twice the largest: 0.15 nats.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.families import make_model, parameter_shapes
from tests.model.configs import POSITION_CHANGES, model_and_variables, small, some_ids

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
