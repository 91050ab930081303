"""A replayed search equals the original: every number of every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.data.vocabulary.vocabulary import PAD_ID, START_ID
from t2t_jax.decoding.continuation import Prompts
from t2t_jax.decoding.generate import make_generate
from t2t_jax.decoding.replay import replay
from t2t_jax.decoding.sampling import Sampling, row_keys
from t2t_jax.decoding.translate import make_decode
from tests.decoding.configs import beam_of_3
from tests.model.configs import model_and_variables, some_ids
from tests.model.probes import assert_captured_alike, step_by_step

B, S = 2, 5
SOURCE = some_ids(B, S).at[1, 3:].set(PAD_ID)


@pytest.mark.parametrize("family", ["encoder_decoder", "recurrent"])
def test_what_a_search_saw_is_seen_again(family):
    model, variables = model_and_variables(family=family)
    config = beam_of_3(beam_size=2, n_best=2, length_penalty=0.0)
    found = jax.jit(make_decode(model, config, 11))(variables["params"], SOURCE)
    for rank in range(2):
        ids = found.ids[:, rank]
        seen = jax.jit(replay, static_argnums=0)(model, variables["params"], ids, SOURCE)
        # That it is this search's: its score is the sum of the steps.
        gains = np.take_along_axis(np.asarray(seen.log_probs), np.asarray(ids)[:, :, None], axis=2)
        totals = np.sum(gains[:, :, 0] * (np.asarray(ids) != PAD_ID), axis=1)
        np.testing.assert_allclose(totals, found.scores[:, rank], rtol=1e-4)
        # That it is each of its steps.
        inputs = np.pad(ids, ((0, 0), (1, 0)), constant_values=START_ID)[:, :-1]
        logits, of_steps = step_by_step(model, variables, jnp.asarray(inputs), SOURCE)
        np.testing.assert_allclose(seen.log_probs, jax.nn.log_softmax(logits), atol=1e-5)
        assert_captured_alike(of_steps, seen.captured)


@pytest.mark.parametrize("opens_with_start", [True, False])
def test_what_wrote_a_text_is_seen_again(opens_with_start):
    model, variables = model_and_variables(family="decoder_only")
    generate = make_generate(
        model, max_new_tokens=4, sampling=Sampling(temperature=0.0), top_n=2, vocabulary_size=11
    )
    ids = some_ids(B, 3)
    ids = ids.at[:, 0].set(START_ID) if opens_with_start else ids
    prompts = Prompts(ids, jnp.full(B, 3), row_keys(0, jnp.arange(B), jnp.zeros(B, jnp.int32)))
    written = jax.jit(generate)(variables["params"], prompts)
    np.testing.assert_array_equal(written.ids[:, :2], ids[:, 1:])
    assert np.all(written.ids[:, 2] != PAD_ID)

    first_ids = None if opens_with_start else ids[:, 0]
    seen = jax.jit(replay, static_argnums=0)(
        model, variables["params"], written.ids, first_ids=first_ids
    )
    is_seen = np.asarray(written.ids) != PAD_ID
    probs = np.take_along_axis(np.exp(seen.log_probs), np.asarray(written.best_ids), axis=2)
    np.testing.assert_allclose(probs[is_seen], written.best_probs[is_seen], rtol=1e-4)
    inputs = np.concatenate([ids[:, :1], written.ids[:, :-1]], axis=1)
    _, of_steps = step_by_step(model, variables, jnp.asarray(inputs))
    assert_captured_alike(of_steps, seen.captured)
