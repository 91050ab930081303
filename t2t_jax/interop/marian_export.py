"""Exports a translation model as a MarianMT directory for the `transformers` library."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from t2t_jax import hosts
from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Vocabulary
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.interop.exporting import (
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
from t2t_jax.interop.marian import ATTENTION_PARTS, NORM_EPSILON
from t2t_jax.interop.vocabulary import PretrainedVocabulary
from t2t_jax.json_files import write_json
from t2t_jax.model.config import Activation, TransformerConfig

_ACTIVATIONS: dict[Activation, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "swish": "swish",
}
_Tensors = dict[str, np.ndarray]


def export_marian(
    config: TransformerConfig,
    params: Params,
    vocabulary: Vocabulary,
    output: Path,
    *,
    decoding: DecodingConfig,
    languages: tuple[str, str],
    max_positions: int,
) -> None:
    """Writes `output`: MarianMTModel and MarianTokenizer, and the default search.

    The tokenizer is the vocabulary's SentencePiece model for both languages, or the one that the
    model was imported with. Unlike ours, it does not turn a tab or no-break space into a space.

    Args:
      decoding: beam size, and the length penalty if its formula is "power", the only one there;
        otherwise a line says that it is left out.
      languages: source and target.
      max_positions: tokens of the longest sentence that it will take.

    Raises:
      ValueError: MarianMT cannot express the model (says which key), or `output` exists.
    """
    check_expressible(config)
    if decoding.beam_size > 1 and not _has_its_penalty(decoding):
        hosts.log(
            f"decoding.length_penalty={decoding.length_penalty} is left out, since MarianMT knows "
            "no other formula than 'power': its own search divides by the length; "
            "--config.decoding.length_penalty_formula=power exports the number"
        )
    rows = np.arange(config.vocabulary_rows)
    special = dict(pad=PAD_ID, start=START_ID, end=END_ID)
    if isinstance(vocabulary, PretrainedVocabulary):
        rows = vocabulary.rows.ours
        special = {name: vocabulary.rows.reserved[ours] for name, ours in special.items()}
    with new_directory(output) as directory:
        tensors = _tensors(config, params, rows)
        library("safetensors.numpy").save_file(
            tensors, directory / "model.safetensors", metadata={"format": "pt"}
        )
        write_json(
            directory / "config.json", _config_json(config, len(rows), special, max_positions)
        )
        write_json(
            directory / "generation_config.json",
            _generation_json(special, decoding, max_positions)
            | {"suppress_tokens": _suppressed(vocabulary, config, rows)},
        )
        if isinstance(vocabulary, PretrainedVocabulary):
            vocabulary.save_tokenizer(directory)
        else:
            _save_tokenizer(directory, vocabulary, languages, max_positions)


def check_expressible(config: TransformerConfig) -> None:
    """Raises ValueError, with the key, if MarianMT cannot express the model."""
    check_keys(
        config,
        "MarianMT",
        family=("encoder_decoder",),
        positions=("sinusoidal", "sinusoidal_concatenated"),
        first_position=(0,),
        norm=("post",),
        activation=tuple(_ACTIVATIONS),
        tied_embeddings=("all", "decoder", "none"),
        embedding_norm=(False,),
        scale_logits=(False,),
    )
    if config.norm_epsilon != NORM_EPSILON:
        raise ValueError(
            f"model.norm_epsilon={config.norm_epsilon}: MarianMT can only have {NORM_EPSILON}; "
            f"--config.model.norm_epsilon={NORM_EPSILON} exports the model as if it had been "
            "trained so, which moves a logit by some 1e-5"
        )


def _config_json(
    config: TransformerConfig, num_rows: int, special: dict[str, Any], max_positions: int
) -> dict[str, Any]:
    tied = config.tied_embeddings
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("attention_heads", config.num_heads),
            ("ffn_dim", config.d_ff),
            ("layerdrop", 0.0),
        )
    }
    return sides | {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": num_rows,
        "decoder_vocab_size": num_rows,
        "max_position_embeddings": max_positions,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "d_model": config.d_model,
        "activation_function": _ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "share_encoder_decoder_embeddings": tied == "all",
        "tie_word_embeddings": tied != "none",
        "dropout": config.dropout_rate,
        "attention_dropout": config.attention_dropout_rate,
        "activation_dropout": config.feed_forward_dropout_rate,
        "pad_token_id": special["pad"],
        "decoder_start_token_id": special["start"],
        "eos_token_id": special["end"],
        "forced_eos_token_id": special["end"],
    }


def _generation_json(
    special: dict[str, Any], decoding: DecodingConfig, max_positions: int
) -> dict[str, Any]:
    values = {
        "pad_token_id": special["pad"],
        "decoder_start_token_id": special["start"],
        "eos_token_id": special["end"],
        "forced_eos_token_id": special["end"],
        "max_length": max_positions,
        "num_beams": decoding.beam_size,
    }
    if decoding.beam_size > 1:
        values["early_stopping"] = "never"  # until no better one can come, as in our search
        if _has_its_penalty(decoding):
            values["length_penalty"] = decoding.length_penalty
    return values


def _has_its_penalty(decoding: DecodingConfig) -> bool:
    return decoding.length_penalty_formula == "power" or decoding.length_penalty == 0


def _suppressed(
    vocabulary: Vocabulary,
    config: TransformerConfig,
    rows: Int[np.ndarray, " theirs"],
) -> list[int]:
    """Their ids of the tokens that no search of ours chooses."""
    never = never_generated(vocabulary, config.vocabulary_rows)
    return np.flatnonzero(np.isin(rows, never)).tolist()


def _tensors(
    config: TransformerConfig, params: Params, rows: Int[np.ndarray, " theirs"]
) -> _Tensors:
    """All of their tensors; row r of a table is our row `rows[r]`."""
    if config.positions == "sinusoidal":
        params = _reordered(params, _sines_first(config.d_model))
    found = tables(config, params)
    sides = {
        "model.encoder.embed_tokens.weight": "source",
        "model.decoder.embed_tokens.weight": "target",
    }
    match config.tied_embeddings:
        case "all":
            names = {"model.shared.weight": "target"}
        case "decoder":
            names = sides
        case "none":
            names = sides | {"lm_head.weight": "output"}
    tensors = {theirs: found[ours][rows] for theirs, ours in names.items()}
    tensors["final_logits_bias"] = output_bias(config, params)[None, rows]
    for stack, num_layers in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        for number in range(num_layers):
            prefix = f"model.{stack}.layers.{number}."
            layer = _layer(params[stack][f"layers_{number}"], config)
            tensors |= {prefix + name: tensor for name, tensor in layer.items()}
    return {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}


def _layer(params: Params, config: TransformerConfig) -> _Tensors:
    tensors: _Tensors = {}

    def put_attention(name: str, ours: Params) -> None:
        for part, maps in attention_maps(ours, config.d_model).items():
            tensors[f"{name}.{ATTENTION_PARTS[part]}.weight"] = maps.weight
            tensors[f"{name}.{ATTENTION_PARTS[part]}.bias"] = maps.bias

    def put_norm(name: str, residual: Params) -> None:
        tensors[f"{name}.weight"] = residual["norm"]["scale"]
        tensors[f"{name}.bias"] = residual["norm"]["bias"]

    put_attention("self_attn", params["self_attentions_0"])
    put_norm("self_attn_layer_norm", params["self_attention_residuals_0"])
    if "cross_attention" in params:
        put_attention("encoder_attn", params["cross_attention"])
        put_norm("encoder_attn_layer_norm", params["cross_attention_residual"])
    feed_forward, sizes = params["feed_forward"], (config.d_model, config.d_ff)
    for name, ours, (num_in, num_out) in (
        ("fc1", "inner", sizes),
        ("fc2", "outer", sizes[::-1]),
    ):
        maps = linear(feed_forward[ours], num_in, num_out)
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = maps
    put_norm("final_layer_norm", params["feed_forward_residual"])
    return tensors


def _sines_first(d_model: int) -> Int[np.ndarray, " D"]:
    """The order that turns features with alternating sinusoids into Marian's."""
    return np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])


def _reordered(params: Params, order: Int[np.ndarray, " D"]) -> Params:
    """The same model with the features of its hidden states in another order.

    Only the positions distinguish features, so another layout of positions is the same as another
    order of all features.
    """

    def reordered(path: tuple[str, ...], leaf: Any) -> Any:
        if isinstance(leaf, dict):
            return {name: reordered((*path, name), inner) for name, inner in leaf.items()}
        array = np.asarray(leaf)
        match path[-2:]:
            case (_, "table") | ("outer" | "output", "kernel"):
                return array[..., order]
            case (_, "kernel"):
                return array[order]
            case ("norm", _) | ("outer", "bias"):
                return array[order]
            case ("output", "bias") if len(path) > 2:  # of attention; else of the logits
                return array[order]
            case _:
                return array

    return reordered((), params)


def _save_tokenizer(
    directory: Path, vocabulary: Vocabulary, languages: tuple[str, str], max_positions: int
) -> None:
    for side in ("source", "target"):
        (directory / f"{side}.spm").write_bytes(vocabulary.model)
    names = token_names(vocabulary, vocabulary.size)
    ids = {name: token_id for token_id, name in enumerate(names)}
    (directory / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
    values = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "pad_token": names[PAD_ID],
        "eos_token": names[END_ID],
        "unk_token": names[UNKNOWN_ID],
        "model_max_length": max_positions,
    }
    write_json(directory / "tokenizer_config.json", values)
