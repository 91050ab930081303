"""Logits equal those of `torch.nn.Transformer` between the same embedding and output table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from t2t_jax.model.transformer import Transformer  # noqa: E402
from tests.model.configs import random_variables, small  # noqa: E402

pytestmark = pytest.mark.parity
TOLERANCE = 1e-5
SIZES = dict(d_model=12, d_ff=20, num_heads=3, d_k=4, d_v=4, norm_epsilon=1e-5)


def sinusoids(length, d_model):
    """The paper's line, number by number."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i : 2 * i + 2] = np.sin(angle), np.cos(angle)
    return table


def torch_transformer(config, params):
    """`torch.nn.Transformer` with our weights; post-norm has no norm after the last layer."""
    options = dict(dim_feedforward=config.d_ff, dropout=0.0, batch_first=True)
    options |= dict(activation=config.activation, norm_first=config.norm == "pre")
    sizes = (config.d_model, config.num_heads)

    def stack(make_layer, make_stack, number, **more):
        norm = torch.nn.LayerNorm(config.d_model) if config.norm == "pre" else None
        return make_stack(make_layer(*sizes, **options), number, norm, **more)

    nn = torch.nn
    encoder_types = nn.TransformerEncoderLayer, nn.TransformerEncoder
    decoder_types = nn.TransformerDecoderLayer, nn.TransformerDecoder
    encoder = stack(*encoder_types, config.num_encoder_layers, enable_nested_tensor=False)
    decoder = stack(*decoder_types, config.num_decoder_layers)
    model = nn.Transformer(*sizes, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for layers, name in ((model.encoder, "encoder"), (model.decoder, "decoder")):
        if layers.norm is not None:
            set_norm(layers.norm, params[name]["norm"])
        for index, layer in enumerate(layers.layers):
            set_layer(layer, params[name][f"layers_{index}"])
    return model.eval()


def set_layer(layer, ours):
    set_attention(layer.self_attn, ours["self_attentions_0"])
    set_norm(layer.norm1, ours["self_attention_residuals_0"]["norm"])
    last_norm = layer.norm2
    if "cross_attention" in ours:
        set_attention(layer.multihead_attn, ours["cross_attention"])
        set_norm(layer.norm2, ours["cross_attention_residual"]["norm"])
        last_norm = layer.norm3
    set_norm(last_norm, ours["feed_forward_residual"]["norm"])
    for linear, name in ((layer.linear1, "inner"), (layer.linear2, "outer")):
        put(linear.weight, ours["feed_forward"][name]["kernel"].T)
        put(linear.bias, ours["feed_forward"][name]["bias"])


def set_attention(attention, ours):
    parts = [ours[name] for name in ("query", "key", "value")]
    d_model = attention.embed_dim
    put(
        attention.in_proj_weight,
        np.concatenate([p["kernel"].reshape(d_model, -1).T for p in parts]),
    )
    put(attention.in_proj_bias, np.concatenate([p["bias"].reshape(-1) for p in parts]))
    put(attention.out_proj.weight, ours["output"]["kernel"].reshape(-1, d_model).T)
    put(attention.out_proj.bias, ours["output"]["bias"])


def set_norm(norm, ours):
    put(norm.weight, ours["scale"])
    put(norm.bias, ours["bias"])


def put(tensor, values):
    assert tensor.shape == values.shape
    tensor.data.copy_(torch.tensor(np.array(values)))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_logits(norm, activation, largest_difference):
    config = small(norm=norm, activation=activation, num_encoder_layers=2, **SIZES)
    model = Transformer(config)
    params = jax.tree.map(np.asarray, random_variables(model)["params"])
    sources = np.array([[3, 9, 4, 7, 2], [5, 2, 0, 0, 0], [8, 6, 2, 0, 0]])
    targets = np.array([[1, 5, 0, 0], [1, 10, 3, 4], [1, 0, 0, 0]])
    target_lengths = [2, 4, 1]

    run = jax.jit(lambda params, *ids: model.apply({"params": params}, *ids, deterministic=True))
    found = np.asarray(run(jax.tree.map(jnp.asarray, params), sources, targets))

    def embedded(ids):
        table = params["embedding"]["table"]
        vectors = table[ids] * config.d_model**0.5 + sinusoids(ids.shape[1], config.d_model)
        return torch.tensor(vectors, dtype=torch.float32)

    is_padding = torch.tensor(sources == 0)
    with torch.no_grad():
        hidden = torch_transformer(config, params)(
            embedded(sources),
            embedded(targets),
            tgt_mask=torch.triu(torch.ones(4, 4, dtype=torch.bool), diagonal=1),
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
        ).numpy()
    expected = hidden @ params["embedding"]["table"].T

    ours, theirs = (
        np.concatenate([row[:length] for row, length in zip(logits, target_lengths, strict=True)])
        for logits in (found, expected)
    )
    peer = f"torch.nn.Transformer, {norm}-norm"
    assert largest_difference("encoder-decoder", peer, ours, theirs) < TOLERANCE
