"""What must hold of the whole model, whatever its parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from t2t_jax.data import vocabulary
from t2t_jax.model import masks
from t2t_jax.model.families import num_parameters
from t2t_jax.model.layers import AddAndNorm
from t2t_jax.model.transformer import Transformer
from tests.model.configs import (
    POSITION_CHANGES,
    model_and_variables,
    run,
    small,
    some_ids,
)
from tests.model.probes import reached_positions, step_by_step

B, W, T, S = 2, 3, 5, 7
VARIANTS = [
    *POSITION_CHANGES,
    {"norm": "pre", "num_self_attentions": 2},
    {"tied_embeddings": "decoder", "activation": "swish"},
    {"tied_embeddings": "none", "scale_embeddings": False, "embedding_init": "unit"},
    {"output_bias": True, "scale_logits": True, "embedding_norm": True},
    {"attention_biases": False, "feed_forward_biases": False, "activation": "gelu"},
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


@every_variant
def test_future_target_tokens_do_not_change_logits(changes):
    """The gradient of position t's logits reaches the embeddings of tokens up to t, no other."""
    model, params = model_and_variables(**changes)
    source, target = some_ids(1, S), some_ids(1, T, seed=1)
    reached = reached_positions(
        lambda: model.apply(params, source, target, deterministic=True),
        target,
        model.config.vocabulary_rows,
    )
    np.testing.assert_array_equal(reached, np.tril(np.ones((T, T), bool)))


@every_variant
def test_more_padding_changes_nothing(changes):
    model, params = model_and_variables(**changes)
    source, target = some_ids(B * W, S), some_ids(B * W, T, seed=1)
    padded = np.pad(source, ((0, 1), (0, 3))), np.pad(target, ((0, 1), (0, 2)))
    expected, actual = run(model, params, source, target), run(model, params, *padded)
    assert np.isfinite(actual).all()  # a row of nothing but padding too
    np.testing.assert_allclose(np.asarray(actual)[:-1, :T], expected, atol=1e-5)


@every_variant
def test_cached_decoding_equals_the_full_forward_pass(changes):
    model, params = model_and_variables(**changes)
    source = some_ids(B, S).at[1, 4:].set(masks.PAD_ID)
    target = some_ids(B * W, T, seed=1)
    expected = run(model, params, np.repeat(source, W, axis=0), target)
    actual, _ = step_by_step(model, params, target, source)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("changes", [*VARIANTS, {"family": "recurrent"}], ids=str)
def test_to_encode_and_then_decode_is_the_forward_pass(changes):
    model, params = model_and_variables(**changes)
    source = some_ids(B, S).at[1, 4:].set(masks.PAD_ID)
    target = some_ids(B, T, seed=1)
    is_token = source != masks.PAD_ID
    memory = model.apply(params, source, deterministic=True, method=model.encode)
    logits = model.apply(params, target, memory, is_token, deterministic=True, method=model.decode)
    np.testing.assert_allclose(logits, run(model, params, source, target), atol=1e-5)
    blind = model.apply(params, target, memory, ~is_token, deterministic=True, method=model.decode)
    assert not np.allclose(blind[1], logits[1])


def test_without_positions_the_encoder_is_permutation_equivariant():
    order = jnp.asarray([3, 0, 6, 1, 5, 2, 4])
    source = some_ids(B, S)
    for positions, is_equivariant in (("none", True), ("sinusoidal", False)):
        model, params = model_and_variables(positions=positions)

        def encode(ids, model=model, params=params):
            return model.apply(params, ids, deterministic=True, method=model.encode)

        difference = np.abs(encode(source)[:, order] - encode(source[:, order])).max()
        assert (difference < 1e-5) == is_equivariant


def test_post_norm_gives_normalised_layers_and_pre_norm_does_not():
    for norm, is_normalised in (("post", True), ("pre", False)):
        module = AddAndNorm(small(norm=norm))
        x = 3.0 + jax.random.normal(jax.random.key(0), (B, T, 12))

        def sub_layer(module, x):
            return module.after(x, 2 * module.before(x), deterministic=True)

        variables = module.init(jax.random.key(0), x, method=sub_layer)
        y = module.apply(variables, x, method=sub_layer)
        assert (np.abs(np.mean(y, axis=-1)).max() < 1e-5) == is_normalised


def test_pre_norm_sub_layer_equals_its_formula():
    module = AddAndNorm(small(norm="pre"))
    x = jax.random.normal(jax.random.key(0), (B, T, 12))

    def sub_layer(module, x):
        return module.after(x, 2 * module.before(x), deterministic=True)

    y = module.apply(module.init(jax.random.key(0), x, method=sub_layer), x, method=sub_layer)
    centred = x - x.mean(-1, keepdims=True)
    normalised = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, x + 2 * normalised, atol=1e-5)


@pytest.mark.parametrize("rate", ["dropout_rate", "attention_dropout_rate"])
def test_dropout_needs_a_key_and_changes_logits(rate):
    model, params = model_and_variables(**{rate: 0.5})
    source, target = some_ids(B, S), some_ids(B, T)
    without = model.apply(params, source, target, deterministic=True)

    @jax.jit
    def dropped(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply(params, source, target, deterministic=False, rngs=rngs)

    assert not np.allclose(dropped(0), without)
    assert not np.allclose(dropped(0), dropped(1))
    np.testing.assert_array_equal(dropped(0), dropped(0))


def test_the_papers_dropout_is_on_sub_layer_outputs_and_embeddings_only():
    model, params = model_and_variables(dropout_rate=0.5)
    source, target = some_ids(B, S), some_ids(B, T)
    dropped = []

    def record(next_function, arguments, keywords, context):
        if isinstance(context.module, nn.Dropout) and context.module.rate > 0:
            dropped.append(arguments[0].shape)
        return next_function(*arguments, **keywords)

    rngs = {"dropout": jax.random.key(0)}
    with nn.intercept_methods(record):
        jax.eval_shape(lambda: model.apply(params, source, target, deterministic=False, rngs=rngs))
    # The sum of embeddings and positions, then 1 layer of 2 and 2 layers of 3 sub-layers.
    assert dropped == [(B, S, 12)] * (1 + 1 * 2) + [(B, T, 12)] * (1 + 2 * 3)


def test_tied_embeddings_save_whole_tables():
    rows = 11 * 12
    all_tied = num_parameters(small(tied_embeddings="all"))
    assert num_parameters(small(tied_embeddings="decoder")) == all_tied + rows
    assert num_parameters(small(tied_embeddings="none")) == all_tied + 2 * rows


@pytest.mark.parametrize(
    "changes",
    [{}, {"embedding_init": "unit", "scale_embeddings": False, "scale_logits": True}],
    ids=["the paper's", "flax's"],
)
def test_embedding_and_logits_start_at_unit_scale(changes):
    config = small(vocabulary_rows=5000, d_model=64, positions="none", **changes)
    model = Transformer(config)

    @jax.jit
    def at_the_start(ids):
        params = model.init(jax.random.key(0), ids, ids, deterministic=True)
        vectors = model.apply(params, ids, method=lambda model, ids: model.embedding(ids))
        return vectors, model.apply(params, ids, ids, deterministic=True)

    vectors, logits = at_the_start(jnp.arange(0, 200)[None])
    assert np.std(vectors) == pytest.approx(1, rel=0.05)
    assert np.std(logits) == pytest.approx(1, rel=0.2)


def test_model_and_data_agree_on_the_padding_id():
    assert masks.PAD_ID == vocabulary.PAD_ID


def test_a_source_longer_than_the_learned_positions_is_refused_in_words():
    model, params = model_and_variables(positions="learned")
    with pytest.raises(ValueError, match=r"a sequence of 17 tokens .* model\.max_positions=16"):
        model.apply(params, some_ids(1, 17), some_ids(1, 2), deterministic=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 13}, r"model\.d_model=13 is odd; sinusoidal positions need an even one"),
        ({"num_heads": 0}, r"model\.num_heads=0 must be at least 1"),
        ({"dropout_rate": 1.0}, r"model\.dropout_rate=1\.0 must be in \[0, 1\)"),
        ({"positions": "sinusodial"}, r"model\.positions='sinusodial' is not one of 'sinusoidal'"),
        ({"norm": "Pre"}, r"model\.norm='Pre' is not one of 'post', 'pre'"),
        ({"norm_epsilon": 0.0}, r"model\.norm_epsilon=0\.0 must be above 0"),
        ({"num_self_attentions": 0}, r"model\.num_self_attentions=0 must be at least 1"),
        ({"first_position": -1}, r"model\.first_position=-1 must be at least 0"),
        ({"family": "encoder"}, r"model\.family='encoder' is not one of 'encoder_decoder', "),
        ({"activation": "tanh"}, r"model\.activation='tanh' is not one of 'relu', 'gelu', "),
        (
            {"positions": "rotary", "d_k": 5},
            r"model\.d_k=5 is odd; rotary positions turn pairs and need an even one",
        ),
        (
            {"positions": "relative", "relative_buckets": 7},
            r"model\.relative_buckets=7 must be even and at least 4",
        ),
        (
            {"positions": "relative", "relative_buckets": 2},
            r"model\.relative_buckets=2 must be even and at least 4",
        ),
        (
            {"positions": "relative", "relative_buckets": 8, "relative_max_distance": 4},
            r"model\.relative_max_distance=4 must be above 4",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_words(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        small(**changes)


def test_a_wrong_type_is_refused_in_words():
    with pytest.raises(TypeError, match=r"model\.d_ff='20' is of type str, it must be int"):
        small(d_ff="20")


def test_an_int_for_a_rate_is_taken_as_a_float():
    assert dataclasses.astuple(small(dropout_rate=0)) == dataclasses.astuple(small())
