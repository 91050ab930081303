"""Properties of the decoder-only family, whatever its parameters."""

import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.model.language_model import LanguageModel
from tests.model.configs import POSITION_CHANGES, logits_of, model_and_variables, run, some_ids
from tests.model.probes import reached_positions, step_by_step

B, T = 2, 5
VARIANTS = [
    *POSITION_CHANGES,
    {"norm": "pre", "num_self_attentions": 2, "activation": "gelu_tanh"},
    {"tied_embeddings": "none", "output_bias": True, "scale_logits": True},
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


def language_model(**changes):
    return model_and_variables(family="decoder_only", **changes)


@every_variant
def test_future_tokens_do_not_change_logits(changes):
    model, variables = language_model(**changes)
    ids = some_ids(1, T)
    reached = reached_positions(
        lambda: model.apply(variables, ids, deterministic=True), ids, model.config.vocabulary_rows
    )
    np.testing.assert_array_equal(reached, np.tril(np.ones((T, T), bool)))


@every_variant
def test_cached_decoding_equals_the_full_forward_pass(changes):
    model, variables = language_model(**changes)
    ids = some_ids(B, T)
    actual, _ = step_by_step(model, variables, ids)
    np.testing.assert_allclose(actual, run(model, variables, ids), atol=1e-5)


def test_the_id_of_padding_is_a_token_like_any_other():
    """Imported vocabularies have a word there; what a text is padded with nobody sees anyway."""
    model, variables = language_model()
    ids = some_ids(B, T)
    logits, padded = (np.asarray(run(model, variables, ids)) for ids in (ids, ids.at[:, 1].set(0)))
    assert not np.allclose(padded[:, 2:], logits[:, 2:], atol=1e-3)


def test_the_source_is_not_read():
    model, variables = language_model()
    ids = some_ids(B, T)
    actual = logits_of(model, variables, jnp.zeros((B, 0), jnp.int32), ids)
    np.testing.assert_allclose(actual, run(model, variables, ids), atol=1e-5)


def test_it_is_the_encoder_with_a_causal_mask():
    """The two families differ in the mask alone: after the last position they see the same."""
    model, variables = language_model()
    assert isinstance(model, LanguageModel)
    encoder, encoder_variables = model_and_variables(
        family="encoder_only", num_encoder_layers=model.config.num_decoder_layers
    )
    of_decoder, of_encoder = variables["params"]["decoder"], encoder_variables["params"]["encoder"]
    assert of_decoder.keys() == of_encoder.keys()
    ids = some_ids(B, 1)
    shared = {"params": {"embedding": variables["params"]["embedding"], "encoder": of_decoder}}
    np.testing.assert_allclose(
        run(encoder, shared, ids, method=lambda m, *a, **k: m.encoder(*a, **k)),
        run(model, variables, ids, method=lambda m, *a, **k: m.decoder(*a, **k)),
        atol=1e-6,
    )


def test_a_cache_longer_than_the_learned_positions_is_refused():
    model, variables = language_model(positions="learned")
    with pytest.raises(ValueError, match=r"a sequence of 17 tokens .* model\.max_positions=16"):
        model.apply(variables, B, 17, method=model.start_cache)
