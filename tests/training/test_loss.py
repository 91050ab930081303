"""The loss against a loop over tokens."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.batches.batches import Batch
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.loss import (
    Metrics,
    cross_entropy,
    make_loss_fn,
    perplexity,
    shift_right,
    sum_of,
)
from tests.model.configs import random_variables, run, small

B, T, VOCAB = 3, 5, 7
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(B, T, VOCAB)).astype(np.float32)
TARGET_IDS = np.array([[4, 5, 2, 0, 0], [6, 3, 5, 4, 2], [0, 0, 0, 0, 0]], np.int32)


# Where the smoothing mass goes: what a row other than the right one is given, and the right one.
SHARES = {
    "others": lambda eps, row, right: 1 - eps if row == right else eps / (VOCAB - 1),
    "all": lambda eps, row, right: (1 - eps if row == right else 0) + eps / VOCAB,
    "others_but_padding": lambda eps, row, right: (
        1 - eps if row == right else 0 if row == 0 else eps / (VOCAB - 2)
    ),
}
MASSES = list(SHARES)


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.4])
def test_loss_equals_a_loop_over_tokens_and_rows(eps, mass):
    loss = likelihood = correct = 0.0
    for b in range(B):
        for t in range(T):
            right = TARGET_IDS[b, t]
            if right == 0:
                continue
            probabilities = np.exp(LOGITS[b, t]) / np.exp(LOGITS[b, t]).sum()
            for row in range(VOCAB):
                loss -= SHARES[mass](eps, row, right) * np.log(probabilities[row])
            likelihood -= np.log(probabilities[right])
            correct += probabilities.argmax() == right
    metrics = cross_entropy(jnp.asarray(LOGITS), jnp.asarray(TARGET_IDS), eps, mass)
    assert metrics.loss == pytest.approx(loss, rel=1e-5)
    assert metrics.negative_log_likelihood == pytest.approx(likelihood, rel=1e-5)
    assert metrics.correct == correct
    assert metrics.tokens == 8


@pytest.mark.parametrize("mass", MASSES)
def test_gradient_is_probabilities_minus_smoothed_targets(mass):
    eps = 0.1
    gradient = jax.grad(lambda x: cross_entropy(x, jnp.asarray(TARGET_IDS), eps, mass).loss)(
        jnp.asarray(LOGITS)
    )
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    wanted = np.array(
        [[[SHARES[mass](eps, row, y) for row in range(VOCAB)] for y in ys] for ys in TARGET_IDS]
    )
    np.testing.assert_allclose(wanted[TARGET_IDS != 0].sum(-1), 1)
    expected = (probabilities - wanted) * (TARGET_IDS != 0)[..., None]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_a_row_of_padding_near_minus_infinity_gets_no_mass_and_no_loss():
    logits = jnp.asarray(LOGITS).at[:, :, 0].set(-1e9)
    without_padding = LOGITS[:, :, 1:]
    log_probs = without_padding - np.log(np.exp(without_padding).sum(-1, keepdims=True))
    expected = 0.0
    for b, t in zip(*np.nonzero(TARGET_IDS), strict=True):
        wanted = np.full(VOCAB - 1, 0.2 / (VOCAB - 2))
        wanted[TARGET_IDS[b, t] - 1] = 0.8
        expected -= wanted @ log_probs[b, t]
    metrics = cross_entropy(logits, jnp.asarray(TARGET_IDS), 0.2, "others_but_padding")
    assert float(metrics.loss) == pytest.approx(expected, rel=1e-5)
    unsmoothed = cross_entropy(logits, jnp.asarray(TARGET_IDS), 0.0)
    np.testing.assert_allclose(unsmoothed.loss, unsmoothed.negative_log_likelihood, rtol=1e-6)


def test_huge_logits_stay_finite():
    logits = jnp.asarray(LOGITS) * 1e4
    assert np.isfinite(cross_entropy(logits, jnp.asarray(TARGET_IDS), 0.1).loss)


def test_shift_right_opens_with_the_start_token_and_drops_the_last():
    np.testing.assert_array_equal(
        shift_right(jnp.asarray([[5, 6, 2, 0], [4, 7, 8, 2]])), [[1, 5, 6, 2], [1, 4, 7, 8]]
    )


@pytest.mark.parametrize(
    ("changes", "mass"),
    [({}, "all"), ({"tied_embeddings": "none", "norm": "pre"}, "others")],
    ids=str,
)
def test_model_loss_is_the_same_in_chunks_and_that_of_the_models_logits(changes, mass):
    model = Transformer(small(**changes))
    params = random_variables(model)["params"]
    batch = Batch(jnp.asarray(TARGET_IDS[:, :4]), jnp.asarray(TARGET_IDS))
    expected = jax.jit(lambda: make_loss_fn(model, 0.1, 0, mass)(params, batch, None))()
    actual = jax.jit(lambda: make_loss_fn(model, 0.1, 6, mass)(params, batch, None))()
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-5)
    target_inputs = shift_right(batch.target_ids)
    logits = run(model, {"params": params}, batch.source_ids, target_inputs)
    from_logits = cross_entropy(logits, batch.target_ids, 0.1, mass)
    np.testing.assert_allclose(expected[1], from_logits, rtol=1e-5)


def metrics_of(negative_log_likelihood, tokens):
    values = (0.0, negative_log_likelihood, 0.0, tokens)
    return Metrics(*(jnp.asarray(value, jnp.float32) for value in values))


def test_a_uniform_guess_among_5_has_perplexity_5():
    assert perplexity(metrics_of(12 * math.log(5), 12)) == pytest.approx(5)


def test_perplexity_of_a_hopeless_model_is_infinite_and_of_no_tokens_refused():
    assert perplexity(metrics_of(1e9, 10)) == math.inf
    with pytest.raises(ValueError, match="at least one token"):
        perplexity(metrics_of(0, 0))


def test_small_losses_are_not_lost_beside_large_ones():
    total = sum_of([metrics_of(2.0**25, 1), *[metrics_of(1, 1)] * 10])
    assert total.negative_log_likelihood == 2.0**25 + 10
    assert total.tokens == 11


def test_a_tie_with_the_best_counts_as_right():
    assert cross_entropy(jnp.zeros((1, 1, VOCAB)), jnp.asarray([[5]]), 0.0).correct == 1
