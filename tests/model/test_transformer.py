"""Properties of the whole model, whatever its parameters."""

import dataclasses

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from scipy.special import erf

from t2t_jax.data.vocabulary import vocabulary
from t2t_jax.model import masks
from t2t_jax.model.capture import capture
from t2t_jax.model.families import make_model, num_parameters
from t2t_jax.model.feed_forward import make_feed_forward
from t2t_jax.model.layers import AddAndNorm
from t2t_jax.model.transformer import Transformer
from t2t_jax.training.step import make_train_state
from tests.model.configs import (
    POSITION_CHANGES,
    model_and_variables,
    random_variables,
    run,
    small,
    some_ids,
)
from tests.model.probes import dropped_shapes, reached_positions, step_by_step

B, W, T, S = 2, 3, 5, 7
VARIANTS = [
    *POSITION_CHANGES,
    {"norm": "pre", "num_self_attentions": 2},
    {"tied_embeddings": "decoder", "activation": "swish"},
    {"tied_embeddings": "none", "scale_embeddings": False, "embedding_init": "unit"},
    {"output_bias": True, "scale_logits": True, "embedding_norm": True},
    {"attention_biases": False, "feed_forward_biases": False, "activation": "gelu"},
    {"norm_kind": "rms", "score_divisor": "none", "activation": "none"},
    # Small enough for the tolerance, which a norm would see to.
    {"norm": "none", "residual": False, "feed_forward": False, "scale_embeddings": False},
    {"residual": False, "score_divisor": "sqrt_d_model"},
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


def test_without_positions_the_encoder_is_permutation_equivariant():
    order = jnp.asarray([3, 0, 6, 1, 5, 2, 4])
    source = some_ids(B, S)
    for positions, is_equivariant in (("none", True), ("sinusoidal", False)):
        model, params = model_and_variables(positions=positions)

        def encode(ids, model=model, params=params):
            return model.apply(params, ids, deterministic=True, method=model.encode).states

        difference = np.abs(encode(source)[:, order] - encode(source[:, order])).max()
        assert (difference < 1e-5) == is_equivariant


def test_post_norm_gives_normalised_layers_and_pre_norm_does_not():
    for norm, is_normalised in (("post", True), ("pre", False)):
        y = add_and_norm(3.0 + jax.random.normal(jax.random.key(0), (B, T, 12)), norm=norm)
        assert (np.abs(np.mean(y, axis=-1)).max() < 1e-5) == is_normalised


def over_root_mean_square(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def layer_norm(x):
    return over_root_mean_square(x - x.mean(-1, keepdims=True))


@pytest.mark.parametrize(
    ("changes", "formula"),
    [
        ({}, lambda x: layer_norm(3 * x)),
        ({"norm": "pre"}, lambda x: x + 2 * layer_norm(x)),
        ({"norm": "none"}, lambda x: 3 * x),
        ({"norm_kind": "rms"}, lambda x: over_root_mean_square(3 * x)),
        ({"residual": False}, lambda x: layer_norm(2 * x)),
        ({"residual": False, "norm": "pre"}, lambda x: 2 * layer_norm(x)),
        ({"residual": False, "norm": "none"}, lambda x: 2 * x),
    ],
)
def test_a_sub_layer_equals_its_formula(changes, formula):
    x = 1.0 + jax.random.normal(jax.random.key(0), (B, T, 12))
    np.testing.assert_allclose(add_and_norm(x, **changes), formula(x), atol=1e-5)


def all_dropped(next_function, arguments, keywords, context):
    """Dropout that drops everything, to see what it is applied to."""
    if isinstance(context.module, nn.Dropout):
        return jnp.zeros_like(arguments[0])
    return next_function(*arguments, **keywords)


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_the_update_alone_is_dropped(norm):
    x = 1.0 + jax.random.normal(jax.random.key(0), (B, T, 12))
    module = AddAndNorm(small(norm=norm, dropout_rate=0.5))
    with nn.intercept_methods(all_dropped):
        y, _ = module.init_with_output(
            jax.random.key(0), x, lambda inner: 2 * inner, deterministic=False
        )
    np.testing.assert_allclose(y, layer_norm(x) if norm == "post" else x, atol=1e-5)


def test_positions_are_dropped_with_the_embeddings():
    model, variables = model_and_variables(dropout_rate=0.5, norm="none")
    ids = some_ids(B, T)
    with nn.intercept_methods(all_dropped):
        _, seen = capture(model, variables["params"], None, ids, ids, deterministic=False)
    assert np.any(seen["encoder.embedded"]) and not np.any(seen["encoder.output"])


def test_without_feed_forward_a_model_is_one_whose_feed_forward_adds_nothing():
    source, target = some_ids(B, S), some_ids(B, T, seed=1)
    without, its_params = model_and_variables(feed_forward=False, norm="pre")
    model, params = model_and_variables(norm="pre")
    assert "feed_forward" not in str(jax.tree.structure(its_params))

    def silent(path, leaf):
        is_last = "feed_forward" in str(path) and "outer" in str(path)
        return jnp.zeros_like(leaf) if is_last else leaf

    params = jax.tree_util.tree_map_with_path(silent, params)
    shared = flatten_dict(params, sep=".")
    its_params = unflatten_dict(
        {name: shared[name] for name in flatten_dict(its_params, sep=".")}, sep="."
    )
    expected = run(model, params, source, target)
    np.testing.assert_allclose(run(without, its_params, source, target), expected, atol=1e-5)


def add_and_norm(x, **changes):
    """`x` through a sub-layer that doubles it."""
    module = AddAndNorm(small(**changes))
    return module.init_with_output(
        jax.random.key(0), x, lambda inner: 2 * inner, deterministic=True
    )[0]


@pytest.mark.parametrize(
    "rate", ["dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"]
)
def test_dropout_needs_a_key_and_changes_logits(rate):
    model, params = model_and_variables(**{rate: 0.5})
    source, target = some_ids(B, S), some_ids(B, T)
    without = model.apply(params, source, target, deterministic=True)
    with pytest.raises(flax.errors.InvalidRngError):
        model.apply(params, source, target, deterministic=False)

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
    # The sum of embeddings and positions, then 1 layer of 2 and 2 layers of 3 sub-layers.
    of_encoder, of_decoder = [(B, S, 12)] * (1 + 1 * 2), [(B, T, 12)] * (1 + 2 * 3)
    assert dropped_shapes(model, params, source, target) == of_encoder + of_decoder


@pytest.mark.parametrize(
    ("rate", "of_encoder", "of_decoder"),
    [
        ("attention_dropout_rate", [(B, 4, S, S)], [(B, 4, T, T), (B, 4, T, S)] * 2),
        ("feed_forward_dropout_rate", [(B, S, 20)], [(B, T, 20)] * 2),
    ],
)
def test_the_other_dropouts_are_on_weights_or_inner_activations_only(rate, of_encoder, of_decoder):
    model, params = model_and_variables(**{rate: 0.5})
    source, target = some_ids(B, S), some_ids(B, T)
    assert dropped_shapes(model, params, source, target) == of_encoder + of_decoder


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
        ({"attention_dropout_rate": 1.0}, r"model\.attention_dropout_rate=1\.0 must be in"),
        ({"feed_forward_dropout_rate": -0.1}, r"model\.feed_forward_dropout_rate=-0\.1 must be in"),
        (
            {"positions": "learned", "max_positions": 0},
            r"model\.max_positions=0 must be at least 1",
        ),
        ({"positions": "scaled", "max_positions": 0}, r"model\.max_positions=0 must be at least"),
        (
            {"positions": "sinusoidal_tensor2tensor", "d_model": 2},
            r"model\.d_model=2: positions='sinusoidal_tensor2tensor' need at least 4",
        ),
        (
            {"family": "recurrent", "positions": "none", "d_model": 13},
            r"model\.d_model=13 is odd; family='recurrent' has half",
        ),
        ({"positions": "sinusodial"}, r"model\.positions='sinusodial' is not one of 'sinusoidal'"),
        ({"norm": "Pre"}, r"model\.norm='Pre' is not one of 'post', 'pre', 'none'"),
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


FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + erf(x / 2**0.5)),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "none": lambda x: x,
}


def test_feed_forward_kernels_start_as_glorot_has_them():
    module = make_feed_forward(small(d_model=64, d_ff=192))
    variables = module.init(jax.random.key(0), jnp.zeros((1, 2, 64)), deterministic=True)
    for layer in ("inner", "outer"):
        kernel = variables["params"][layer]["kernel"]
        assert np.var(kernel) == pytest.approx(2 / (64 + 192), rel=0.05)


def test_a_pre_norm_stack_ends_with_a_norm():
    model, variables = model_and_variables(norm="pre")
    ids = some_ids(B, T)
    _, captured = capture(model, variables["params"], None, ids, ids, deterministic=True)
    for stack, last in (("encoder", 0), ("decoder", 1)):
        x = np.asarray(captured[f"{stack}.layers_{last}.output"])
        x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
        norm = variables["params"][stack]["norm"]
        expected = x * np.asarray(norm["scale"]) + np.asarray(norm["bias"])
        np.testing.assert_allclose(captured[f"{stack}.output"], expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("scan", [False, True])
def test_rematerialising_changes_the_program_and_no_gradient(rate, scan):
    ids = some_ids(B, T)
    config = small(dropout_rate=rate, scan_layers=scan)
    model, again = (make_model(dataclasses.replace(config, rematerialise=r)) for r in (False, True))
    variables = random_variables(model)

    def gradient(model):
        options = {"deterministic": not rate, "rngs": {"dropout": jax.random.key(3)}}
        return jax.grad(lambda v: model.apply(v, ids, ids, **options)[..., 5].sum())

    programs = [str(jax.make_jaxpr(gradient(m))(variables)) for m in (model, again)]
    assert [" remat" in program or "checkpoint" in program for program in programs] == [False, True]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4),
        jax.jit(gradient(again))(variables),
        jax.jit(gradient(model))(variables),
    )


@pytest.mark.parametrize("activation", FORMULAS)
def test_an_activation_is_its_formula(activation):
    rng = np.random.default_rng(0)
    x, w1, b1, w2, b2 = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((B, T, 12), (12, 20), (20,), (20, 12), (12,))
    )
    params = {"inner": {"kernel": w1, "bias": b1}, "outer": {"kernel": w2, "bias": b2}}
    module = make_feed_forward(small(activation=activation))
    actual = module.apply({"params": params}, x, deterministic=True)
    hidden = FORMULAS[activation](np.asarray(x @ w1 + b1[None, None]))
    expected = hidden @ w2 + b2[None, None]
    np.testing.assert_allclose(actual, expected, atol=1e-4)


def test_fused_attention_starts_as_one_kernel_for_three_would():
    config = small(attention_init="fused", d_model=64, num_heads=8, d_k=8, d_v=8)
    make = jax.jit(lambda: make_train_state(make_model(config), optax.identity(), 0).params)
    for name in ("query", "key", "value"):
        kernel = make()["encoder"]["layers_0"]["self_attentions_0"][name]["kernel"]
        assert np.var(kernel) == pytest.approx(2 / (64 + 3 * 64), rel=0.05)


def test_biases_are_there_where_the_config_has_them():
    with_all = num_parameters(small())
    # 1 attention in an encoder layer, 2 in each decoder layer; 3 feed-forward layers.
    of_attention, of_feed_forward = 5 * (2 * 4 * 5 + 4 * 3 + 12), 3 * (20 + 12)
    assert num_parameters(small(attention_biases=False)) == with_all - of_attention
    assert num_parameters(small(feed_forward_biases=False)) == with_all - of_feed_forward


@pytest.mark.parametrize(
    ("family", "tables_of_decoder", "tables_of_none"),
    [("decoder_only", 1, 2), ("encoder_only", 1, 2), ("recurrent", 2, 3)],
)
def test_every_family_has_as_many_tables_as_are_not_tied(family, tables_of_decoder, tables_of_none):
    rows = 11 * 12
    tied = num_parameters(small(family=family)) - rows
    for choice, num_tables in (("decoder", tables_of_decoder), ("none", tables_of_none)):
        count = num_parameters(small(family=family, tied_embeddings=choice))
        assert count == tied + num_tables * rows
