"""GPT-2 and DistilGPT-2 in Hugging Face format: decoder-only, pre-norm, learned positions.

Their linear maps have our layout (they call it Conv1D), with query, key and value as one. One token
starts, ends and separates texts; a prompt does not begin with it.
"""

from pathlib import Path

import numpy as np

from t2t_jax.interop import layers
from t2t_jax.interop.keys import config_of
from t2t_jax.interop.layers import Params
from t2t_jax.interop.model_files import ModelFiles, TheirConfig
from t2t_jax.interop.vocabulary import Rows, load_tokenizer, reserved_rows
from t2t_jax.interop.weight_files import Weights


def read(directory: Path) -> ModelFiles:
    """The model in `directory`.

    Raises:
      ValueError: ours cannot express it, or its files are damaged.
    """
    theirs = TheirConfig(directory)
    theirs.require("scale_attn_weights", True)
    theirs.require("scale_attn_by_inverse_layer_idx", False)
    theirs.require("add_cross_attention", False)
    d_model, num_heads = theirs["n_embd"], theirs["n_head"]
    width = theirs.head_width(d_model, num_heads)
    reserved = reserved_rows(
        load_tokenizer(directory),
        pad=theirs["pad_token_id"],
        start=theirs["bos_token_id"],
        end=theirs["eos_token_id"],
    )
    rows = Rows(theirs["vocab_size"], reserved)
    config = config_of(
        family="decoder_only",
        vocabulary_rows=len(rows.theirs),
        num_encoder_layers=0,
        num_decoder_layers=theirs["n_layer"],
        d_model=d_model,
        d_ff=theirs["n_inner"] or 4 * d_model,
        num_heads=num_heads,
        d_k=width,
        d_v=width,
        positions="learned",
        max_positions=theirs["n_positions"],
        norm="pre",
        norm_epsilon=float(theirs["layer_norm_epsilon"]),
        activation=theirs.activation("activation_function"),
        tied_embeddings="all" if theirs["tie_word_embeddings"] else "none",
        dropout_rate=float(theirs["resid_pdrop"]),
        attention_dropout_rate=float(theirs["attn_pdrop"]),
    )
    weights = Weights(directory, "transformer.")
    shape = (rows.num_theirs, d_model)
    params: Params = {"output": {"bias": rows.bias(np.zeros(rows.num_theirs, np.float32))}}
    if config.tied_embeddings == "none":
        params["output_embedding"] = {"table": rows.table(weights.take("lm_head.weight", shape))}
        names = ["wte.weight"]
    else:
        names = ["wte.weight", "lm_head.weight"]
    params["embedding"] = {"table": rows.table(weights.take_one_of(names, shape))}
    stack = [
        _layer(weights, f"h.{number}.", d_model, config.d_ff, num_heads)
        for number in range(config.num_decoder_layers)
    ]
    positions = weights.take("wpe.weight", (config.max_positions, d_model))
    params["decoder"] = layers.numbered(stack) | {
        "positions": {"learned": {"table": positions}},
        "norm": layers.layer_norm(weights, "ln_f", d_model),
    }
    weights.ignore(r"h\.\d+\.attn\.(masked_)?bias")  # the causal mask in older files
    weights.check_all_used()
    return ModelFiles(config, params, rows, opens_with_start=False)


def _layer(weights: Weights, prefix: str, d_model: int, d_ff: int, num_heads: int) -> Params:
    def conv1d(name: str, num_in: int, num_out: int) -> Params:
        return {
            "kernel": weights.take(f"{prefix}{name}.weight", (num_in, num_out)),
            "bias": weights.take(f"{prefix}{name}.bias", (num_out,)),
        }

    fused = conv1d("attn.c_attn", d_model, 3 * d_model)
    parts = zip(*(np.split(fused[name], 3, axis=-1) for name in ("kernel", "bias")), strict=True)
    maps = {
        name: {"kernel": kernel, "bias": bias}
        for name, (kernel, bias) in zip(("query", "key", "value"), parts, strict=True)
    }
    maps["output"] = conv1d("attn.c_proj", d_model, d_model)
    return layers.layer(
        layers.attention_of_maps(maps, d_model, num_heads),
        layers.layer_norm(weights, f"{prefix}ln_1", d_model),
        conv1d("mlp.c_fc", d_model, d_ff),
        conv1d("mlp.c_proj", d_ff, d_model),
        layers.layer_norm(weights, f"{prefix}ln_2", d_model),
    )
