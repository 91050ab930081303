"""Properties of the two encoder-only models: predicting masked tokens, and classification."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from t2t_jax.model.capture import capture
from t2t_jax.model.classifier import Pooling
from t2t_jax.model.masks import Packing
from t2t_jax.model.positions import sinusoids
from tests.model.configs import (
    POSITION_CHANGES,
    logits_of,
    model_and_variables,
    random_variables,
    small,
    some_ids,
)
from tests.model.probes import dropped_shapes, reached_positions

B, T = 3, 6
POOLINGS = ("cls", "mean", "query")


def encoder_only(**changes):
    return model_and_variables(family="encoder_only", **changes)


def padded_ids():
    return some_ids(B, T).at[1, 4:].set(0).at[2, 2:].set(0)


def test_every_token_is_guessed_from_all_tokens_of_its_sentence():
    model, variables = encoder_only()
    ids = some_ids(1, T).at[0, 4:].set(0)
    reached = reached_positions(
        lambda: model.apply(variables, ids, deterministic=True), ids, model.config.vocabulary_rows
    )
    assert reached[:4, :4].all()
    assert not reached[:4, 4:].any()


@pytest.mark.parametrize(
    "changes",
    [*POSITION_CHANGES, *({"pooling": pooling} for pooling in POOLINGS)],
    ids=str,
)
def test_more_padding_changes_nothing(changes):
    model, variables = encoder_only(**changes)
    ids = padded_ids()
    more = jnp.pad(ids, ((0, 1), (0, 2)))
    expected, actual = (model.apply(variables, x, deterministic=True) for x in (ids, more))
    assert np.isfinite(actual).all()  # of a row of nothing but padding too
    is_pooled = "pooling" in changes
    actual = actual[:B] if is_pooled else actual[:B, :T]
    is_told = slice(None) if is_pooled else np.asarray(ids) > 0
    np.testing.assert_allclose(actual[is_told], expected[is_told], atol=1e-5)


def test_the_transform_before_the_logits_is_berts():
    """logits = LayerNorm(gelu(x W + b)) table^T + bias, with the exact gelu."""
    model, variables = encoder_only(activation="gelu", output_bias=True, norm_epsilon=1e-3)
    ids = padded_ids()
    params = jax.tree.map(np.asarray, variables["params"])
    x = np.asarray(
        model.apply(
            variables, ids, deterministic=True, method=lambda m, *a, **k: m.encoder(*a, **k)
        )
    )
    x = x @ params["transform"]["kernel"] + params["transform"]["bias"]
    x = x * 0.5 * (1 + erf(x / np.sqrt(2)))
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    x = x * params["transform_norm"]["scale"] + params["transform_norm"]["bias"]
    expected = x @ params["embedding"]["table"].T + params["output"]["bias"]
    actual = model.apply(variables, ids, deterministic=True)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def pooled(pooling, x, ids):
    module = Pooling(small(pooling=pooling))
    variables = module.init(jax.random.key(0), x, ids, deterministic=True)
    return module.apply(variables, x, ids, deterministic=True)[:, 0], variables


def hidden_states():
    return jax.random.normal(jax.random.key(1), (B, T, 12))


def test_cls_is_the_first_position():
    x = hidden_states()
    np.testing.assert_array_equal(pooled("cls", x, padded_ids())[0], x[:, 0])


def test_mean_is_over_tokens_alone():
    x = hidden_states()
    expected = [x[0].mean(0), x[1, :4].mean(0), x[2, :2].mean(0)]
    np.testing.assert_allclose(pooled("mean", x, padded_ids())[0], jnp.stack(expected), atol=1e-6)


def test_query_sees_tokens_alone_in_whatever_order():
    x, ids = hidden_states(), padded_ids()
    vectors, variables = pooled("query", x, ids)
    assert variables["params"]["query"].shape == (1, 1, 12)
    order = jnp.asarray([3, 1, 0, 2, 5, 4])
    changed = jnp.where((ids > 0)[..., None], x, 9.0)[:, order]
    module = Pooling(small(pooling="query"))
    actual = module.apply(variables, changed, ids[:, order], deterministic=True)[:, 0]
    np.testing.assert_allclose(actual, vectors, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu", "none"])
def test_classes_are_told_from_the_pooled_vector(activation):
    model, variables = encoder_only(pooling="cls", pooler_activation=activation)
    ids, params = padded_ids(), jax.tree.map(np.asarray, variables["params"])
    x = model.apply(
        variables, ids, deterministic=True, method=lambda m, *a, **k: m.encoder(*a, **k)
    )
    x = np.asarray(x)[:, 0]
    assert ("pooler" in params) == (activation != "none")
    if activation != "none":
        x = x @ params["pooler"]["kernel"] + params["pooler"]["bias"]
        x = np.tanh(x) if activation == "tanh" else np.maximum(x, 0)
    expected = x @ params["classes"]["table"].T + params["output"]["bias"]
    actual = model.apply(variables, ids, deterministic=True)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_features_of_a_classifier_have_a_row_for_no_class(pooling):
    model, variables = encoder_only(pooling=pooling)
    ids = padded_ids()
    logits = logits_of(model, variables, ids, jnp.ones((B, 1), jnp.int32))[:, 0]
    expected = model.apply(variables, ids, deterministic=True)
    np.testing.assert_allclose(logits[:, 1:], expected, atol=1e-5)
    np.testing.assert_array_equal(jax.nn.softmax(logits)[:, 0], 0)


def test_without_positions_order_is_nothing_and_with_them_it_is_something():
    for changes in POSITION_CHANGES:
        model, variables = encoder_only(pooling="mean", **changes)
        ids = some_ids(B, T)
        logits, swapped = (
            model.apply(variables, x, deterministic=True) for x in (ids, ids[:, ::-1])
        )
        # Reversed, every distance is as long as before: ALiBi cannot tell either.
        is_blind = changes["positions"] in ("none", "alibi")
        assert np.allclose(logits, swapped, atol=1e-5) == is_blind, changes


def test_rows_of_several_sentences_have_no_one_class():
    model, variables = encoder_only(pooling="mean")
    ids = padded_ids()
    packing = Packing(jnp.ones_like(ids), jnp.ones_like(ids))
    with pytest.raises(ValueError, match=r"model\.pooling='mean' gives each row one class"):
        logits_of(model, variables, ids, ids, (packing, packing))


def test_both_models_have_the_same_encoder():
    """So that one trained to guess masked tokens can go on as a classifier."""
    guesser, teller = (
        random_variables(encoder_only(pooling=pooling)[0])["params"] for pooling in ("none", "cls")
    )
    for part in ("embedding", "encoder"):
        assert jax.tree.structure(guesser[part]) == jax.tree.structure(teller[part])


def test_a_classifier_drops_of_what_it_pooled():
    model, variables = model_and_variables(family="encoder_only", pooling="mean", dropout_rate=0.5)
    of_encoder, of_pooled = [(B, T, 12)] * (1 + 1 * 2), [(B, 1, 12)]
    assert dropped_shapes(model, variables, some_ids(B, T)) == of_encoder + of_pooled


def test_the_norm_of_an_embedding_is_of_vectors_and_positions():
    model, variables = model_and_variables(family="encoder_only", embedding_norm=True)
    ids = some_ids(B, T)
    _, captured = capture(model, variables["params"], None, ids, deterministic=True)
    params = variables["params"]
    x = np.asarray(params["embedding"]["table"][ids] * 12**0.5 + sinusoids(jnp.arange(T), 12)[None])
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    norm = params["encoder"]["embedding_norm"]
    expected = x * np.asarray(norm["scale"]) + np.asarray(norm["bias"])
    np.testing.assert_allclose(captured["encoder.embedded"], expected, atol=1e-4)


def test_the_mean_over_many_tokens_is_exact_in_bfloat16():
    pooling = Pooling(small(family="encoder_only", pooling="mean", dtype="bfloat16"))
    x, ids = jnp.full((1, 259, 12), 3.0, jnp.bfloat16), jnp.full((1, 259), 5)
    y = pooling.apply({}, x, ids, deterministic=True)
    np.testing.assert_array_equal(np.asarray(y, np.float32), np.full((1, 1, 12), 3.0))
