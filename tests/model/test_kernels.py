"""Other ways to compute attention, fused and as one product, equal equation 1."""

import dataclasses
import re
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.experimental.pallas import tpu as pltpu

from t2t_jax.data.batches.batches import Batch
from t2t_jax.decoding.translate import make_decode
from t2t_jax.model import attention
from t2t_jax.model.attention import make_attention, scaled_dot_product_attention
from t2t_jax.model.capture import capture_modules
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.model.fused_attention import fused_attention, is_too_odd_to_fuse, why_not_fused
from t2t_jax.model.interface import Inputs
from t2t_jax.model.layers import Layer
from t2t_jax.model.linear import into_heads, out_of_heads
from t2t_jax.model.masks import PAD_ID, causal_mask, padding_mask, segment_mask
from t2t_jax.model.tpu_attention import (
    attend_by_row,
    gradients_by_kernel_or_not,
    kernel_or_not,
)
from t2t_jax.training.loss import make_loss_fn
from tests.decoding.configs import BEAM_OF_3
from tests.model.configs import POSITION_CHANGES, random_variables, small, some_ids
from tests.training.runs import batch

B, T, H, K = 3, 6, 2, 8
IDS = jnp.asarray([[4, 5, 6, 7, 8, 9], [4, 5, 6, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
SEGMENTS = jnp.asarray([[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 2, 2], [1, 2, 3, 0, 0, 0]])
PLACES = jnp.arange(T)[None]
MASKS = {
    "padding": padding_mask(IDS),
    "causal": causal_mask(PLACES, PLACES),
    "packed": segment_mask(SEGMENTS, SEGMENTS) & causal_mask(PLACES, PLACES),
    "all": jnp.ones((1, 1, T), bool),
}
# Encoder and decoder of the small model have 1 and 2 layers.
ATTENTIONS = {
    "encoder_decoder": ["encoder", *["self", "across"] * 2],
    "decoder_only": ["self"] * 2,
    "encoder_only": ["self"],
}
FUSED = dict(attention_kernel="fused", dtype="bfloat16", d_k=8, d_v=8)


def arrays():
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=(B, H, T, K)), jnp.float32) for _ in range(3)]


@pytest.mark.parametrize("name, divisor", [*((name, K**0.5) for name in MASKS), ("causal", 1.0)])
def test_fused_attention_is_equation_1_and_so_are_its_gradients(name, divisor):
    mask = MASKS[name]
    # What a row without tokens, or a query of padding, gathers is nobody's business.
    sees = jnp.broadcast_to(mask.any(-1), (B, T)) & (name != "padding" or (IDS > 0).any(1)[:, None])

    def total(attend):
        def of(*qkv):
            return jnp.sin(jnp.where(sees[:, None, :, None], attend(*qkv), 0)).sum()

        return jax.value_and_grad(of, (0, 1, 2))(*arrays())

    def by_einsum(*qkv):
        return scaled_dot_product_attention(*qkv, mask, divisor=divisor)[0]

    expected = total(by_einsum)
    actual = total(lambda *qkv: fused_attention(*qkv, mask, divisor, "xla"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), actual, expected)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(actual))


@pytest.mark.parametrize("name", MASKS)
# Heads of 64 go two by two, of 128 one by one, all others together.
@pytest.mark.parametrize("num_heads, d_k", [(4, 64), (2, 128), (3, 40)])
def test_the_kernel_for_a_tpu_gives_what_einsum_gives_and_its_gradients(name, num_heads, d_k):
    mask = MASKS[name]
    rng = np.random.default_rng(0)
    query, grad, key, value = (
        jnp.asarray(rng.normal(size=(B, T, num_heads, d_k)), jnp.bfloat16) for _ in range(4)
    )
    divisor = d_k**0.5
    expected, pull = jax.vjp(lambda *qkv: attend_by_row(*qkv, mask, divisor), query, key, value)
    sees = mask.any(-1)[..., None, None]  # what the others gather is nobody's business
    grad = jnp.where(sees, grad, 0)
    with pltpu.force_tpu_interpret_mode():
        actual = kernel_or_not(query, key, value, mask, divisor)
        gradients = gradients_by_kernel_or_not(query, key, value, mask, grad, divisor)
    same = partial(np.testing.assert_allclose, atol=0.03, rtol=0.02)
    same(*(jnp.where(sees, heads, 0).astype(float) for heads in (actual, expected)))
    for actual, expected in zip(gradients, pull(grad), strict=True):
        assert actual.dtype == jnp.bfloat16
        same(actual.astype(float), expected.astype(float))


@pytest.mark.parametrize("family", ["encoder_decoder", "decoder_only", "encoder_only"])
def test_a_model_whose_attention_is_fused_learns_the_same(family, monkeypatch):
    calls, results = [], []

    def counted(*arguments):
        calls.append(arguments)
        return fused_attention(*arguments)

    monkeypatch.setattr(attention, "fused_attention", counted)
    source, target = (ids.copy() for ids in batch(0)[:2])
    source[1, 3:] = target[1, 2:] = source[2] = target[2] = PAD_ID  # a row of nothing too
    for kernel in ("einsum", "fused"):
        # A relu whose sign depends on the last bit would make a difference of its own.
        changes = FUSED | {"attention_kernel": kernel, "activation": "gelu"}
        model = make_model(small(family=family, **changes))
        params = random_variables(model)["params"]
        grad = jax.jit(jax.value_and_grad(make_loss_fn(model, 0.1), has_aux=True))
        results.append(grad(params, Batch(source, target), jax.random.key(0)))
        assert len(calls) == (0 if kernel == "einsum" else len(ATTENTIONS[family]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02), *results)
    # Not where one token follows another, nor where dev is evaluated.
    make_loss_fn(model, 0.1)(params, Batch(source, target), None)
    assert len(calls) == len(ATTENTIONS[family])


def test_packed_rows_of_odd_length_are_not_fused():
    """cuDNN adds no mask to scores of an odd number of positions."""
    assert not any(is_too_odd_to_fuse(mask, B) for mask in MASKS.values())
    odd = {name: mask[:, : T - 1, : T - 1] for name, mask in MASKS.items()}
    assert [name for name, mask in odd.items() if is_too_odd_to_fuse(mask, B)] == ["packed"]


@pytest.mark.parametrize("num_rows", [1, B])
@pytest.mark.parametrize("name", MASKS)
def test_cudnn_is_told_the_meaning_of_a_mask_and_packed_rows_have_none(name, num_rows, monkeypatch):
    told = {}

    def by_cudnn(query, key, value, *, scale, implementation, **seen):
        told.update(seen, scale=scale)
        return query

    monkeypatch.setattr(jax.nn, "dot_product_attention", by_cudnn)
    mask = MASKS[name][:num_rows]
    qkv = [x[:num_rows] for x in arrays()]
    fused_attention(*qkv, mask, K**0.5, "cudnn")
    meaning = {"padding": "key_value_seq_lengths", "all": "key_value_seq_lengths"}
    if num_rows > 1:  # what is packed into a single row looks like a causal mask
        meaning["causal"] = "is_causal"
    assert told.pop("scale") == pytest.approx(K**-0.5)
    assert list(told) == [meaning.get(name, "mask")]
    if "key_value_seq_lengths" in told:
        lengths = np.maximum(np.asarray(mask).sum(-1)[:, 0], 1)  # of padding alone: its first key
        lengths = np.broadcast_to(lengths, num_rows)
        np.testing.assert_array_equal(told["key_value_seq_lengths"], lengths)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({}, ""),
        ({"dtype": "float32"}, "dtype"),
        ({"d_v": 16}, "d_v"),
        ({"d_k": 264, "d_v": 264}, "256"),
        ({"d_k": 12, "d_v": 12}, "multiple of 8"),
        ({"positions": "alibi"}, "alibi"),
        ({"positions": "relative"}, "relative"),
        ({"attention_dropout_rate": 0.1}, "dropout"),
    ],
    ids=str,
)
def test_what_cannot_be_fused_is_done_by_einsum(changes, why):
    config = small(**FUSED | changes)
    reason = why_not_fused(config)
    assert why in reason and bool(reason) == bool(why)
    assert make_attention(config).is_fused == (not why)


@pytest.mark.parametrize(
    "capability, d_k, why",
    [
        ("8.0", 128, ""),
        ("8.0", 136, "128"),
        ("9.0", 256, ""),
        ("10.3", 256, ""),
        ("9.0", 264, "256"),
    ],
)
def test_before_hopper_heads_wider_than_128_are_not_fused(capability, d_k, why, monkeypatch):
    """JAX raises for them, see `check_is_flash_attention` in its `cudnn`."""
    gpu = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [gpu])
    reason = why_not_fused(small(**FUSED | {"d_k": d_k, "d_v": d_k}))
    assert why in reason and bool(reason) == bool(why)


@pytest.mark.slow
@pytest.mark.parametrize("changes", POSITION_CHANGES, ids=lambda changes: changes["positions"])
def test_one_product_gives_what_three_give_and_the_same_gradients(changes):
    config = small(**changes)
    variables = random_variables(make_model(config))
    results = []
    for has_one in (False, True):
        model = make_model(dataclasses.replace(config, fused_projections=has_one))
        assert jax.tree.map(jnp.shape, variables["params"]) == jax.tree.map(
            jnp.shape, parameter_shapes(model)
        )
        grad = jax.jit(jax.value_and_grad(make_loss_fn(model, 0.1), has_aux=True))
        results.append(grad(variables["params"], batch(0), None))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), *results)


def test_in_bfloat16_one_product_is_as_near_to_float32_as_three_are():
    variables = random_variables(make_model(small()))

    def gradients(**changes):
        loss_fn = make_loss_fn(make_model(small(**changes)), 0.1)
        grad = jax.jit(jax.grad(loss_fn, has_aux=True))(variables["params"], batch(0), None)[0]
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(grad)])

    exact = gradients()
    three, one = (
        np.linalg.norm(gradients(dtype="bfloat16", fused_projections=has_one) - exact)
        for has_one in (False, True)
    )
    assert 0 < one < 1.5 * three < 0.1 * np.linalg.norm(exact)


@pytest.mark.parametrize("has_biases", [True, False])
def test_self_attention_is_one_product_and_attention_across_two(has_biases):
    config = small(num_encoder_layers=1, num_decoder_layers=1, attention_biases=has_biases)
    counts = []
    for has_one in (False, True):
        model = make_model(dataclasses.replace(config, fused_projections=has_one))
        ids = some_ids(2, 4)
        program = jax.make_jaxpr(lambda p, m=model, i=ids: m.apply(p, i, i, deterministic=True))(
            random_variables(model)
        )
        counts.append(str(program).count("dot_general["))
    assert counts[0] - counts[1] == 2 + 2 + 1  # of two self-attentions, and keys with values


def test_who_listens_hears_each_projection_and_the_weights():
    model = make_model(small(fused_projections=True, **FUSED))
    ids = some_ids(2, 4)
    variables = random_variables(model)
    rngs = {"dropout": jax.random.key(0)}
    _, heard = capture_modules(model, variables["params"], ids, ids, deterministic=False, rngs=rngs)
    path = "encoder.layers_0.self_attentions_0"
    assert heard[f"{path}.query.__call__"][0].shape == (2, 4, 4, 8)
    assert heard[f"{path}.weights"][0].shape == (2, 4, 4, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"rematerialise": True}, {"norm": "pre", "num_self_attentions": 2}, *POSITION_CHANGES],
    ids=str,
)
def test_a_loop_over_layers_gives_what_each_of_them_gives_and_the_same_gradients(changes):
    config = small(num_encoder_layers=3, **changes)
    variables = random_variables(make_model(config))
    results = []
    for is_scanned in (False, True):
        model = make_model(dataclasses.replace(config, scan_layers=is_scanned))
        assert jax.tree.map(jnp.shape, variables["params"]) == jax.tree.map(
            jnp.shape, parameter_shapes(model)
        )
        grad = jax.jit(jax.value_and_grad(make_loss_fn(model, 0.1), has_aux=True))
        results.append(grad(variables["params"], batch(0), None))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), *results)


@pytest.mark.parametrize("rematerialise", [False, True])
def test_a_program_without_dropout_traces_one_layer_of_a_stack_and_names_each(rematerialise):
    config = small(num_encoder_layers=3, num_decoder_layers=4, rematerialise=rematerialise)
    model = make_model(config)
    params = random_variables(model)["params"]
    traced = []

    def record(next_function, arguments, keywords, context):
        if isinstance(context.module, Layer) and context.method_name == "__call__":
            traced.append(context.module)
        return next_function(*arguments, **keywords)

    grad = jax.jit(jax.grad(make_loss_fn(model, 0.1), has_aux=True))
    decode = jax.jit(make_decode(model, BEAM_OF_3, 11))
    with nn.intercept_methods(record):
        names = grad.lower(params, batch(0), None).as_text(debug_info=True)
        assert len(traced) == 2
        decode.lower(params, some_ids(2, 5))
        assert len(traced) == 2 + 2
        grad.lower(params, batch(0), jax.random.key(0))  # dropout is drawn by a layer's path
        assert len(traced) == 2 + 2 + 3 + 4
    expected = {f"encoder/layers_{n}" for n in range(3)} | {f"decoder/layers_{n}" for n in range(4)}
    assert {*re.findall(r"(?:en|de)coder/layers_\d+", names)} == expected


def test_a_gradient_outside_of_a_program_compiles_no_layer(caplog):
    """It would compile it anew in each call."""
    model = make_model(small())
    params = random_variables(model)["params"]
    with jax.log_compiles():
        jax.grad(make_loss_fn(model, 0.1), has_aux=True)(params, batch(0), None)
    assert "Compiling jit(" in caplog.text
    assert "of_params" not in caplog.text and "layer" not in caplog.text


def test_each_layer_of_a_loop_has_dropout_of_its_own():
    """Layers that add ones and drop half of them: their sum has more values than all or none."""
    config = small(
        family="decoder_only",
        num_decoder_layers=3,
        dropout_rate=0.5,
        scan_layers=True,
        norm="pre",
        positions="none",
    )
    model = make_model(config)

    def filled(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        adds = name.endswith(("feed_forward/outer/bias", "decoder/norm/scale"))
        return jnp.full(leaf.shape, float(adds))

    params = jax.tree_util.tree_map_with_path(filled, parameter_shapes(model))
    assert sum(leaf.any() for leaf in jax.tree.leaves(params)) == 4
    bound = model.bind({"params": params}, rngs={"dropout": jax.random.key(0)})
    inputs = Inputs(some_ids(2, 0), some_ids(2, 4))
    sums = np.asarray(bound.features(inputs, deterministic=False)[0]).round(4)
    assert max(len(np.unique(row)) for row in sums.reshape(-1, 12)) > 2


@pytest.mark.parametrize("attention_biases", [True, False])
def test_maps_into_heads_and_out_of_them_are_those_that_are_called(attention_biases):
    module = make_attention(small(attention_biases=attention_biases))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(B, T, 12)), jnp.float32)
    variables = random_variables_of(module, x)

    def called(variables, x):
        bound = module.bind(variables)
        heads = [each(x).transpose(0, 2, 1, 3) for each in (bound.query, bound.key, bound.value)]
        return [*heads, bound.output(heads[2].transpose(0, 2, 1, 3))]

    def direct(variables, x):
        bound = module.bind(variables)
        heads = into_heads(x, [bound.query, bound.key, bound.value])
        return [*heads, out_of_heads(heads[2], bound.output)]

    def total_and_gradients(made):
        def total(variables, x):
            return sum(jnp.sin(each).sum() for each in made(variables, x))

        return made(variables, x), jax.grad(total, (0, 1))(variables, x)

    expected, actual = map(total_and_gradients, (called, direct))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), actual, expected)


@pytest.mark.parametrize("made", [into_heads, out_of_heads], ids=lambda made: made.__name__)
def test_gradients_of_maps_in_bfloat16_are_summed_and_kept_in_float32(made):
    module = make_attention(small(dtype="bfloat16"))
    length = 101
    x = jnp.ones((B, length, 12))
    variables = random_variables_of(module, x)

    def total(variables):
        bound = module.bind(variables)
        if made is into_heads:
            return into_heads(x, [bound.query])[0].sum(dtype=jnp.float32)
        return out_of_heads(jnp.ones((B, 4, length, 3)), bound.output).sum(dtype=jnp.float32)

    grads = jax.grad(total)(variables)["params"]
    of_map = grads["query"] if made is into_heads else grads["output"]
    # Of as many ones as there are positions: bfloat16 has no odd number above 256.
    np.testing.assert_array_equal(of_map["bias"], B * length)
    np.testing.assert_array_equal(of_map["kernel"], B * length)


def random_variables_of(module, x):
    mask = jnp.ones((1, 1, x.shape[1]), bool)
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), x, x, mask, deterministic=True))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)
