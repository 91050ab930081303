"""Log-probabilities of whole targets, against one forward pass each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, learn_vocabulary
from t2t_jax.evaluation.likelihood import log_likelihoods
from tests.model.configs import model_and_variables, run

SOURCES = ["a", "the dog sees a cat", "cat", "a bed in the sea", "the cat", "a tea"]
TARGETS = ["the dog", "a cat", "a bed in the tea sees the sea", "a", "dog", ""]


@functools.cache
def _vocabulary():
    return learn_vocabulary(SOURCES + TARGETS, "char", 40, 1.0)


@functools.cache
def _model_and_params(**changes):
    model, variables = model_and_variables(vocabulary_rows=40, max_positions=32, **changes)
    return model, variables["params"]


@pytest.mark.parametrize("family", ["encoder_decoder", "recurrent"])
def test_each_is_the_sum_over_its_own_tokens(family):
    model, params = _model_and_params(family=family)
    found = log_likelihoods(
        SOURCES, TARGETS, model, params, _vocabulary(), compile=jax.jit, tokens_per_batch=40
    )
    # Of two lengths that are padded differently, and of a target that is the end token alone.
    for place in (0, 2, 5):
        [source], [target] = (_vocabulary().encode([side[place]]) for side in (SOURCES, TARGETS))
        ids = [*target, END_ID]
        logits = run(
            model,
            {"params": params},
            jnp.asarray([[*source, END_ID]]),
            jnp.asarray([[START_ID, *target]]),
        )
        of_tokens = np.asarray(jax.nn.log_softmax(logits))[0, np.arange(len(ids)), ids]
        assert found[place] == pytest.approx(of_tokens.sum(), rel=1e-4)


def test_the_order_of_the_pairs_is_that_of_the_input():
    model, params = _model_and_params()
    options = {"compile": jax.jit, "tokens_per_batch": 64}
    forth = log_likelihoods(SOURCES, TARGETS, model, params, _vocabulary(), **options)
    back = log_likelihoods(SOURCES[::-1], TARGETS[::-1], model, params, _vocabulary(), **options)
    np.testing.assert_allclose(forth, back[::-1], rtol=1e-4)
    assert len(set(forth.round(3))) == len(forth)


def test_a_pair_too_long_for_the_learned_positions_is_told():
    model, params = _model_and_params(positions="learned")
    with pytest.raises(ValueError, match="sentence 2 has .* tokens with its end token"):
        log_likelihoods(
            ["a", "a"], ["a", "dog " * 20], model, params, _vocabulary(), compile=jax.jit
        )


def test_pairs_have_two_sides():
    model, params = _model_and_params()
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        log_likelihoods(["a", "a"], ["a"], model, params, _vocabulary(), compile=jax.jit)
