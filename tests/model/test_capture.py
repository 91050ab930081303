"""Capturing is complete, true to what was computed, and free when not requested."""

import jax
import numpy as np
import pytest
from flax import linen as nn

from t2t_jax.model.capture import capture
from tests.model.configs import model_and_variables, some_ids
from tests.model.probes import assert_captured_alike, step_by_step

B, T, S = 2, 5, 7
FAMILIES = [
    {"family": "encoder_decoder"},
    {"family": "decoder_only"},
    {"family": "encoder_only"},
    {"family": "encoder_only", "pooling": "query"},
]


def inputs(model):
    num_sides = 2 if model.config.family == "encoder_decoder" else 1
    return [some_ids(B, length, seed) for seed, length in enumerate((S, T)[:num_sides])]


def test_every_layer_and_attention_of_a_translation_is_captured():
    model, variables = model_and_variables(num_self_attentions=2, norm="pre")
    logits, captured = capture(model, variables["params"], None, *inputs(model), deterministic=True)
    decoder_layer = {
        "self_attentions_0.weights": (B, 4, T, T),
        "self_attentions_1.weights": (B, 4, T, T),
        "cross_attention.weights": (B, 4, T, S),
        "output": (B, T, 12),
    }
    expected = {
        "encoder.embedded": (B, S, 12),
        "encoder.layers_0.self_attentions_0.weights": (B, 4, S, S),
        "encoder.layers_0.self_attentions_1.weights": (B, 4, S, S),
        "encoder.layers_0.output": (B, S, 12),
        "encoder.output": (B, S, 12),
        "decoder.embedded": (B, T, 12),
        "decoder.output": (B, T, 12),
        **{f"decoder.layers_0.{name}": shape for name, shape in decoder_layer.items()},
        **{f"decoder.layers_1.{name}": shape for name, shape in decoder_layer.items()},
    }
    assert {path: array.shape for path, array in captured.items()} == expected
    for path, array in captured.items():
        if path.endswith("weights"):
            np.testing.assert_allclose(array.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("changes", FAMILIES, ids=str)
def test_capturing_does_not_change_the_output(changes):
    model, variables = model_and_variables(**changes)
    output, captured = capture(model, variables["params"], None, *inputs(model), deterministic=True)
    expected = model.apply(variables, *inputs(model), deterministic=True)
    np.testing.assert_array_equal(output, expected)
    assert any(path.endswith("weights") for path in captured)


def test_the_last_output_gives_the_logits():
    model, variables = model_and_variables()
    logits, captured = capture(model, variables["params"], None, *inputs(model), deterministic=True)
    table = variables["params"]["embedding"]["table"]
    np.testing.assert_allclose(captured["decoder.layers_1.output"] @ table.T, logits, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}], ids=str)
def test_captured_steps_are_the_rows_of_the_captured_whole(changes):
    model, variables = model_and_variables(**changes, num_self_attentions=2)
    params = variables["params"]
    source, target = inputs(model)
    source = source.at[1, 4:].set(0)
    whole = jax.jit(lambda: capture(model, params, None, source, target, deterministic=True)[1])
    _, of_steps = step_by_step(model, variables, target, source)
    assert_captured_alike(of_steps, whole())


@pytest.mark.parametrize("changes", FAMILIES, ids=str)
def test_when_nobody_looks_the_program_has_no_trace_of_it(changes, monkeypatch):
    model, variables = model_and_variables(**changes)

    def program():
        def forward(variables, *ids):
            return model.apply(variables, *ids, deterministic=True)

        return str(jax.make_jaxpr(forward)(variables, *inputs(model)))

    with_sow = program()
    monkeypatch.setattr(nn.Module, "sow", lambda *arguments, **options: False)
    assert program() == with_sow
