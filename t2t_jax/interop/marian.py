"""MarianMT (the opus-mt models) in Hugging Face format: encoder-decoder, post-norm.

Sinusoids are concatenated, the activation is mostly swish, and every logit has a bias. The decoder
starts with the padding token. Every layer norm adds 1e-5 to the variance.
"""

from pathlib import Path

import numpy as np

from t2t_jax.interop import layers
from t2t_jax.interop.keys import config_of
from t2t_jax.interop.layers import Params
from t2t_jax.interop.model_files import ModelFiles, TheirConfig
from t2t_jax.interop.vocabulary import Rows, load_tokenizer, reserved_rows
from t2t_jax.interop.weight_files import Weights

NORM_EPSILON = 1e-5

ATTENTION_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def read(directory: Path) -> ModelFiles:
    """The model in `directory`.

    Raises:
      ValueError: ours cannot express it, or its files are damaged.
    """
    theirs = TheirConfig(directory)
    theirs.require("decoder_attention_heads", theirs["encoder_attention_heads"])
    theirs.require("decoder_ffn_dim", theirs["encoder_ffn_dim"])
    theirs.require("decoder_vocab_size", theirs["vocab_size"])
    d_model, num_heads = theirs["d_model"], theirs["encoder_attention_heads"]
    width = theirs.head_width(d_model, num_heads)
    rows = _rows(directory, theirs)
    if theirs["share_encoder_decoder_embeddings"]:
        theirs.require("tie_word_embeddings", True)
        tied = "all"
    else:
        tied = "decoder" if theirs["tie_word_embeddings"] else "none"
    config = config_of(
        family="encoder_decoder",
        vocabulary_rows=len(rows.theirs),
        num_encoder_layers=theirs["encoder_layers"],
        num_decoder_layers=theirs["decoder_layers"],
        d_model=d_model,
        d_ff=theirs["encoder_ffn_dim"],
        num_heads=num_heads,
        d_k=width,
        d_v=width,
        positions="sinusoidal_concatenated",
        norm="post",
        norm_epsilon=NORM_EPSILON,
        activation=theirs.activation("activation_function"),
        tied_embeddings=tied,
        scale_embeddings=theirs["scale_embedding"],
        dropout_rate=float(theirs["dropout"]),
        attention_dropout_rate=float(theirs["attention_dropout"]),
        feed_forward_dropout_rate=float(theirs["activation_dropout"]),
    )
    weights = Weights(directory, "model.")
    params = _embeddings(weights, rows, tied, d_model)
    bias = np.zeros(rows.num_theirs, np.float32)
    if "final_logits_bias" in weights:
        bias = weights.take("final_logits_bias", (1, rows.num_theirs))[0]
    params["output"] = {"bias": rows.bias(bias)}
    for stack, num_layers in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        params[stack] = layers.numbered(
            [
                _layer(weights, f"{stack}.layers.{number}.", d_model, config.d_ff, num_heads)
                for number in range(num_layers)
            ]
        )
        weights.ignore(rf"{stack}\.embed_positions\.weight")  # sinusoids
    weights.check_all_used()
    return ModelFiles(config, params, rows)


def _rows(directory: Path, theirs: TheirConfig) -> Rows:
    tokenizer = load_tokenizer(directory)
    if getattr(tokenizer, "separate_vocabs", False):
        raise ValueError(
            f"{directory}: source and target have vocabularies of their own (separate_vocabs); "
            "only one that both share can be read"
        )
    reserved = reserved_rows(
        tokenizer,
        pad=theirs["pad_token_id"],
        start=theirs["decoder_start_token_id"],
        end=theirs["eos_token_id"],
    )
    return Rows(theirs["vocab_size"], reserved)


def _embeddings(weights: Weights, rows: Rows, tied: str, d_model: int) -> Params:
    names = {
        "embedding": ["decoder.embed_tokens.weight"],
        "source_embedding": ["encoder.embed_tokens.weight"],
        "output_embedding": ["lm_head.weight"],
    }
    if tied == "all":  # one tensor, stored under any of its names
        names = {"embedding": ["shared.weight", *sum(names.values(), [])]}
    elif tied == "decoder":
        names["embedding"] += names.pop("output_embedding")
    shape = (rows.num_theirs, d_model)
    return {
        ours: {"table": rows.table(weights.take_one_of(theirs, shape))}
        for ours, theirs in names.items()
    }


def _layer(weights: Weights, prefix: str, d_model: int, d_ff: int, num_heads: int) -> Params:
    def attention(name: str) -> Params:
        names = {ours: f"{prefix}{name}.{theirs}" for ours, theirs in ATTENTION_PARTS.items()}
        return layers.attention(weights, names, d_model, num_heads)

    def norm(name: str) -> Params:
        return layers.layer_norm(weights, prefix + name, d_model)

    cross = {}
    if prefix.startswith("decoder"):
        cross = dict(
            cross_attention=attention("encoder_attn"),
            cross_attention_norm=norm("encoder_attn_layer_norm"),
        )
    return layers.layer(
        attention("self_attn"),
        norm("self_attn_layer_norm"),
        layers.linear(weights, f"{prefix}fc1", d_model, d_ff),
        layers.linear(weights, f"{prefix}fc2", d_ff, d_model),
        norm("final_layer_norm"),
        **cross,
    )
