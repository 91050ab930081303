"""Exports a translation model as a CTranslate2 directory."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, UNKNOWN_ID, Vocabulary
from t2t_jax.interop.exporting import (
    Linear,
    attention_maps,
    linear,
    never_generated,
    new_directory,
    output_bias,
    tables,
    token_names,
)
from t2t_jax.interop.keys import check_keys
from t2t_jax.interop.layers import Params
from t2t_jax.interop.libraries import library
from t2t_jax.interop.vocabulary import SILENT, PretrainedVocabulary
from t2t_jax.model.config import Activation, TransformerConfig
from t2t_jax.model.positions import make_positions

_ACTIVATIONS: dict[Activation, str] = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "swish": "SWISH",
}


def export_ctranslate2(
    config: TransformerConfig,
    params: Params,
    vocabulary: Vocabulary,
    output: Path,
    *,
    max_positions: int,
) -> None:
    """Writes `output`, for `ctranslate2.Translator`, which adds the end token to a source itself.

    Its tokens are the pieces of the vocabulary, which is saved beside the model. Positions are
    written as a table, because CTranslate2's own sinusoids begin at position 1. Padding, start and
    rows without a token have a bias of -1e9, so that they are never generated: the others get
    their probability.

    Args:
      max_positions: tokens of the longest sentence that it will take; the rows of the table.

    Raises:
      ValueError: CTranslate2 cannot express the model (says which key), or `output` exists.
    """
    check_expressible(config)
    num_rows = config.vocabulary_rows
    names = token_names(vocabulary, num_rows)
    with new_directory(output) as directory:
        specs = library("ctranslate2.specs")
        spec = specs.TransformerSpec.from_config(
            (config.num_encoder_layers, config.num_decoder_layers),
            config.num_heads,
            pre_norm=config.norm == "pre",
            activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
            layernorm_embedding=config.embedding_norm,
        )
        table = tables(config, params)
        spec.encoder.embeddings[0].weight = table["source"]
        spec.decoder.embeddings.weight = table["target"]
        bias = output_bias(config, params).copy()
        bias[never_generated(vocabulary, num_rows)] = SILENT
        _set_linear(spec.decoder.projection, Linear(table["output"], bias))
        if config.scale_logits:
            spec.decoder.scale_outputs = np.float32(config.d_model**-0.5)
        for name, their_stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
            _set_stack(their_stack, config, params.get(name, {}), max_positions)
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.bos_token = spec.config.decoder_start_token = names[START_ID]
        spec.config.eos_token = names[END_ID]
        spec.config.unk_token = names[UNKNOWN_ID]
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = config.norm_epsilon
        spec.validate()
        spec.optimize()
        spec.save(str(directory))
        if isinstance(vocabulary, PretrainedVocabulary):
            vocabulary.save(directory / "tokenizer")
        else:
            vocabulary.save(directory / "vocabulary.model")


def check_expressible(config: TransformerConfig) -> None:
    """Raises ValueError, with the key, if CTranslate2 cannot express the model."""
    check_keys(
        config,
        "CTranslate2",
        any_value=("first_position", "embedding_norm", "scale_logits"),
        family=("encoder_decoder",),
        positions=(
            *("sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor"),
            *("learned", "none"),
        ),
        norm=("post", "pre"),
        activation=tuple(_ACTIVATIONS),
        tied_embeddings=("all", "decoder", "none"),
    )
    for key in ("num_encoder_layers", "num_decoder_layers"):
        if getattr(config, key) == 0:
            raise ValueError(f"model.{key}=0: CTranslate2 needs at least 1")


def _set_stack(spec: Any, config: TransformerConfig, params: Params, max_positions: int) -> None:
    spec.scale_embeddings = config.scale_embeddings
    spec.position_encodings.encodings = _position_table(config, params, max_positions)
    if config.embedding_norm:
        _set_norm(spec.layernorm_embedding, params["embedding_norm"])
    if config.norm == "pre":
        _set_norm(spec.layer_norm, params["norm"])
    for number, layer in enumerate(spec.layer):
        _set_layer(layer, config, params[f"layers_{number}"])


def _position_table(
    config: TransformerConfig, params: Params, max_positions: int
) -> Float[np.ndarray, "T D"]:
    """The vectors added to the embedding at each position."""
    if config.positions == "learned":
        max_positions = config.max_positions
    own = {"params": params.get("positions", {})}
    positions = jnp.arange(max_positions)[None]
    encoding = make_positions(config, is_causal=False).bind(own)
    vectors = encoding(positions, positions).vectors
    if vectors is None:  # the format always has vectors
        return np.zeros((max_positions, config.d_model), np.float32)
    return np.asarray(vectors)[0]


def _set_layer(spec: Any, config: TransformerConfig, params: Params) -> None:
    maps = attention_maps(params["self_attentions_0"], config.d_model)
    _set_linear(spec.self_attention.linear[0], _fused(maps["query"], maps["key"], maps["value"]))
    _set_linear(spec.self_attention.linear[1], maps["output"])
    _set_norm(spec.self_attention.layer_norm, params["self_attention_residuals_0"]["norm"])
    if "cross_attention" in params:
        maps = attention_maps(params["cross_attention"], config.d_model)
        _set_linear(spec.attention.linear[0], maps["query"])
        _set_linear(spec.attention.linear[1], _fused(maps["key"], maps["value"]))
        _set_linear(spec.attention.linear[2], maps["output"])
        _set_norm(spec.attention.layer_norm, params["cross_attention_residual"]["norm"])
    inner = linear(params["feed_forward"]["inner"], config.d_model, config.d_ff)
    outer = linear(params["feed_forward"]["outer"], config.d_ff, config.d_model)
    _set_linear(spec.ffn.linear_0, inner)
    _set_linear(spec.ffn.linear_1, outer)
    _set_norm(spec.ffn.layer_norm, params["feed_forward_residual"]["norm"])


def _fused(*maps: Linear) -> Linear:
    """Several linear maps of the same input as one."""
    weights, biases = zip(*maps, strict=True)
    return Linear(np.concatenate(weights), np.concatenate(biases))


def _set_linear(spec: Any, maps: Linear) -> None:
    spec.weight, spec.bias = maps


def _set_norm(spec: Any, params: Params) -> None:
    spec.gamma, spec.beta = np.asarray(params["scale"]), np.asarray(params["bias"])
