"""Attention against loops written like the paper's equations, and against printed examples."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.attention import make_attention, scaled_dot_product_attention
from tests.model.configs import small

EXAMPLES = json.loads((Path(__file__).parent / "worked_examples.json").read_text())
B, T, S, H, K, V, D = 2, 3, 5, 4, 6, 7, 10


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def weights_of(query, key, mask, bias=None):
    return scaled_dot_product_attention(query, key, key, mask, bias)[1]


def everything_visible(num_queries, num_keys):
    return jnp.ones((1, num_queries, num_keys), bool)


@pytest.mark.parametrize("case", EXAMPLES["softmax"]["cases"], ids=str)
def test_softmax_gives_the_printed_numbers(case):
    scores = jnp.asarray(case["x"], jnp.float32)
    key = scores[None, None, :, None]  # one query of 1 over these keys, d_k = 1
    weights = weights_of(jnp.ones((1, 1, 1, 1)), key, everything_visible(1, 3))
    np.testing.assert_allclose(weights[0, 0, 0], case["expected"], atol=case["atol"])


def unscaled_self_attention(embeddings):
    """softmax(X X^T) X, as these examples have it."""
    x = jnp.asarray(embeddings, jnp.float32)[None, None]  # one head
    mask = everything_visible(x.shape[2], x.shape[2])
    context, weights = scaled_dot_product_attention(x, x, x, mask, divisor=1.0)
    return np.asarray(weights[0, 0]), np.asarray(context[0, 0])


def test_attention_as_weighted_mean_gives_the_printed_row():
    example = EXAMPLES["attention_as_weighted_mean"]
    _, context = unscaled_self_attention(example["x"])
    np.testing.assert_allclose(context[1], example["expected_row_2"], atol=example["atol"])


def test_self_attention_gives_the_printed_weights_and_contexts():
    example = EXAMPLES["self_attention_unscaled"]
    weights, context = unscaled_self_attention(example["embeddings"])
    np.testing.assert_allclose(weights, example["expected_weights"], atol=example["atol"])
    np.testing.assert_allclose(context, example["expected_context"], atol=example["atol"])


def test_contexts_have_the_printed_cosines():
    example = EXAMPLES["self_attention_unscaled"]
    _, context = unscaled_self_attention(example["embeddings"])
    unit = dict(
        zip(example["tokens"], context / np.linalg.norm(context, axis=1)[:, None], strict=True)
    )
    for one, cosines in example["expected_cosine_of_context_vectors"].items():
        for other, cosine in cosines.items():
            assert unit[one] @ unit[other] == pytest.approx(cosine, abs=example["atol"])


def printed_multi_head_attention():
    example = EXAMPLES["multi_head_attention"]
    num_heads, d_model, d_k = np.shape(example["w_q"])
    module = make_attention(
        small(num_heads=num_heads, d_model=d_model, d_k=d_k, d_v=d_k, attention_biases=False)
    )
    kernels = {
        name: np.moveaxis(np.asarray(example[key], np.float32), 0, 1)  # D H K
        for name, key in (("query", "w_q"), ("key", "w_k"), ("value", "w_v"))
    }
    kernels["output"] = np.asarray(example["w_o"], np.float32).reshape(num_heads, d_k, d_model)
    params = {name: {"kernel": jnp.asarray(kernel)} for name, kernel in kernels.items()}
    return example, module, params


def test_multi_head_attention_gives_the_printed_output():
    example, module, params = printed_multi_head_attention()
    x = jnp.asarray(example["embeddings"], jnp.float32)[None]
    mask = everything_visible(x.shape[1], x.shape[1])
    output = module.apply({"params": params}, x, x, mask, deterministic=True)
    np.testing.assert_allclose(output[0], example["expected_output"], atol=example["atol"])


def test_multi_head_attention_gives_the_printed_weights():
    example, _, params = printed_multi_head_attention()
    x = jnp.asarray(example["embeddings"], jnp.float32)[None]
    query, key = (
        jnp.einsum("BTD,DHK->BHTK", x, params[name]["kernel"]) for name in ("query", "key")
    )
    weights = weights_of(query, key, everything_visible(6, 6))
    np.testing.assert_allclose(weights[0], example["expected_weights"], atol=example["atol"])


def test_equals_a_loop_over_sentences_heads_and_queries():
    query, key, value = arrays((B, H, T, K), (B, H, S, K), (B, H, S, V))
    mask = np.random.default_rng(1).random((B, T, S)) < 0.6
    mask[:, :, 0] = True  # every query may look somewhere
    expected = np.zeros((B, H, T, V), np.float32)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                visible = np.flatnonzero(mask[b, t])
                scores = key[b, h, visible] @ query[b, h, t] / np.sqrt(K)
                weights = np.exp(scores) / np.exp(scores).sum()
                expected[b, h, t] = weights @ value[b, h, visible]
    actual, _ = scaled_dot_product_attention(*map(jnp.asarray, (query, key, value, mask)))
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("named", "divisor"), [("sqrt_d_k", 5**0.5), ("sqrt_d_model", 12**0.5), ("none", 1)]
)
def test_a_model_divides_its_scores_by_what_the_config_says(named, divisor):
    x = jnp.asarray(arrays((B, T, 12))[0])
    mask = everything_visible(T, T)
    module = make_attention(small(score_divisor=named))
    variables = module.init(jax.random.key(0), x, x, mask, deterministic=True)
    query, (key, _) = module.apply(variables, x, method=module.of_itself)
    _, found = module.apply(*(variables, x, x, mask), deterministic=True, mutable=["intermediates"])
    [weights] = found["intermediates"]["weights"]
    expected = jax.nn.softmax(np.einsum("bhtk,bhsk->bhts", query, key) / divisor)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_a_query_that_may_look_nowhere_stays_finite():
    query, key, value = map(jnp.asarray, arrays((B, H, T, K), (B, H, S, K), (B, H, S, V)))
    nothing = jnp.zeros((B, T, S), bool)

    def total(query):
        return scaled_dot_product_attention(query, key, value, nothing)[0].sum()

    assert np.isfinite(total(query))
    assert np.isfinite(jax.grad(total)(query)).all()


def test_keys_hidden_by_the_mask_change_nothing():
    query, key, value = map(jnp.asarray, arrays((B, H, T, K), (B, H, S, K), (B, H, S, V)))
    mask = jnp.arange(S)[None, None] < 3
    expected, _ = scaled_dot_product_attention(query, key, value, mask)
    changed, _ = scaled_dot_product_attention(query, key.at[:, :, 3:].set(9.0), value, mask)
    np.testing.assert_array_equal(changed, expected)


def test_number_of_weights_is_the_papers_formula():
    module = make_attention(small(num_heads=H, d_model=D, d_k=K, d_v=V))
    x = jnp.zeros((1, 2, D))
    variables = module.init(jax.random.key(0), x, x, everything_visible(2, 2), deterministic=True)
    count = sum(leaf.size for leaf in jax.tree.leaves(variables))
    assert count == 2 * D * H * K + 2 * D * H * V + 2 * H * K + H * V + D


def test_bfloat16_softmax_is_taken_in_float32():
    query, key = (jnp.asarray(a, jnp.bfloat16) for a in arrays((B, H, T, K), (B, H, S, K)))
    assert weights_of(query, key, everything_visible(T, S)).dtype == jnp.float32


def initial_kernels(init, d_v=8):
    module = make_attention(small(num_heads=8, d_model=64, d_k=8, d_v=d_v, attention_init=init))
    x = jnp.zeros((1, 2, 64))
    variables = module.init(jax.random.key(0), x, x, everything_visible(2, 2), deterministic=True)
    return {name: leaf["kernel"] for name, leaf in variables["params"].items()}


def test_separate_initialisation_is_glorots_of_each_matrix():
    for kernel in initial_kernels("separate").values():
        assert np.var(kernel) == pytest.approx(2 / (64 + 64), rel=0.05)


def test_fused_initialisation_is_glorots_of_query_key_and_value_as_one_matrix():
    kernels = initial_kernels("fused")
    for name in ("query", "key", "value"):
        # With d_k = d_v = d_model / h the standard deviation is sqrt(2) smaller.
        assert np.var(kernels[name]) == pytest.approx(2 / (64 + 3 * 64), rel=0.05)
    assert np.var(kernels["output"]) == pytest.approx(2 / (64 + 64), rel=0.05)
    wide = initial_kernels("fused", d_v=24)
    for name in ("query", "key", "value"):
        assert np.var(wide[name]) == pytest.approx(2 / (64 + 8 * (2 * 8 + 24)), rel=0.05)


def test_a_bias_is_added_to_the_scaled_scores():
    query, key = map(jnp.asarray, arrays((B, H, T, K), (B, H, S, K)))
    (bias,) = map(jnp.asarray, arrays((1, H, T, S)))
    weights = weights_of(query, key, everything_visible(T, S), bias)
    scores = np.einsum("BHTK,BHSK->BHTS", query, key) / np.sqrt(K) + bias
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_dropout_is_of_the_weights_that_values_are_gathered_with():
    query, key, value = map(jnp.asarray, arrays((B, H, T, K), (B, H, S, K), (B, H, S, V)))
    mask = everything_visible(T, S)
    heads, weights = scaled_dot_product_attention(
        query, key, value, mask, dropout=lambda weights: weights.at[..., 1:].set(0)
    )
    np.testing.assert_allclose(heads, weights[..., :1] * value[:, :, :1], atol=1e-6)
    np.testing.assert_allclose(weights, weights_of(query, key, mask), atol=1e-6)
