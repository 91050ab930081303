"""BERT and DistilBERT in Hugging Face format: encoder-only, post-norm, learned positions.

They are one model with two sets of names. Only single sentences are read: the vector that BERT adds
to every token of a first sentence goes into the positions, that of a second one is not used.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from t2t_jax.interop import layers
from t2t_jax.interop.keys import config_of
from t2t_jax.interop.layers import Params
from t2t_jax.interop.model_files import ModelFiles, TheirConfig
from t2t_jax.interop.vocabulary import Rows, load_tokenizer, reserved_rows
from t2t_jax.interop.weight_files import Weights
from t2t_jax.model.config import TransformerConfig

Head = Literal["masked", "classes"]
# The table of learned positions, given its shape.
_Positions = Callable[[Weights, tuple[int, int]], np.ndarray]


class _Names(NamedTuple):
    """The names of parameters in one of the two."""

    prefix: str
    layer: str
    attention: dict[str, str]
    attention_norm: str
    inner: str
    outer: str
    feed_forward_norm: str
    transform: str
    transform_norm: str
    output: str  # of the head for masked tokens: the table's second name
    output_bias: tuple[str, ...]
    pooler: str
    pooler_activation: Literal["tanh", "relu"]


_BERT = _Names(
    prefix="bert.",
    layer="encoder.layer.{}.",
    attention={
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "output": "attention.output.dense",
    },
    attention_norm="attention.output.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    feed_forward_norm="output.LayerNorm",
    transform="cls.predictions.transform.dense",
    transform_norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder.weight",
    output_bias=("cls.predictions.bias", "cls.predictions.decoder.bias"),
    pooler="pooler.dense",
    pooler_activation="tanh",
)
_DISTILBERT = _Names(
    prefix="distilbert.",
    layer="transformer.layer.{}.",
    attention={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "output": "attention.out_lin",
    },
    attention_norm="sa_layer_norm",
    inner="ffn.lin1",
    outer="ffn.lin2",
    feed_forward_norm="output_layer_norm",
    transform="vocab_transform",
    transform_norm="vocab_layer_norm",
    output="vocab_projector.weight",
    output_bias=("vocab_projector.bias",),
    pooler="pre_classifier",
    pooler_activation="relu",
)


def read_bert(directory: Path, head: Head | None, num_classes: int | None) -> ModelFiles:
    """The BERT in `directory`; see `_read`."""
    theirs = TheirConfig(directory)
    theirs.require("is_decoder", False)
    theirs.require("position_embedding_type", None, "absolute")
    config = dict(
        num_encoder_layers=theirs["num_hidden_layers"],
        d_model=theirs["hidden_size"],
        d_ff=theirs["intermediate_size"],
        num_heads=theirs["num_attention_heads"],
        norm_epsilon=float(theirs["layer_norm_eps"]),
        activation=theirs.activation("hidden_act"),
        dropout_rate=float(theirs["hidden_dropout_prob"]),
        attention_dropout_rate=float(theirs["attention_probs_dropout_prob"]),
    )

    def positions(weights: Weights, shape: tuple[int, int]) -> np.ndarray:
        types = weights.take(
            "embeddings.token_type_embeddings.weight", (theirs["type_vocab_size"], shape[1])
        )
        return weights.take("embeddings.position_embeddings.weight", shape) + types[:1]

    return _read(directory, theirs, _BERT, config, positions, head, num_classes)


def read_distilbert(directory: Path, head: Head | None, num_classes: int | None) -> ModelFiles:
    """The DistilBERT in `directory`; see `_read`."""
    theirs = TheirConfig(directory)
    config = dict(
        num_encoder_layers=theirs["n_layers"],
        d_model=theirs["dim"],
        d_ff=theirs["hidden_dim"],
        num_heads=theirs["n_heads"],
        norm_epsilon=1e-12,
        activation=theirs.activation("activation"),
        dropout_rate=float(theirs["dropout"]),
        attention_dropout_rate=float(theirs["attention_dropout"]),
    )

    def positions(weights: Weights, shape: tuple[int, int]) -> np.ndarray:
        return weights.take("embeddings.position_embeddings.weight", shape)

    return _read(directory, theirs, _DISTILBERT, config, positions, head, num_classes)


def _read(
    directory: Path,
    theirs: TheirConfig,
    names: _Names,
    given: dict,
    positions: _Positions,
    head: Head | None,
    num_classes: int | None,
) -> ModelFiles:
    """The model in `directory`, with its own head or the requested one.

    Parameters of a requested head that is not there are left out.

    Raises:
      ValueError: ours cannot express it, it has no head and none is requested, or its files are
        damaged.
    """
    weights = Weights(directory, names.prefix)
    has = _head_of(weights, names, theirs)
    head = head or has
    if head is None:
        raise ValueError(
            f"{directory} holds an encoder without a head for masked tokens or for classes of "
            f"texts, which can only be trained further: t2t-jax train --init=hf:{directory}"
        )
    class_names: tuple[str, ...] = ()
    if head == "classes" == has:
        class_names = tuple(theirs["id2label"][number] for number in sorted(theirs["id2label"]))
        if num_classes not in (None, len(class_names)):  # another task, hence a fresh head
            has, class_names = None, ()
        else:
            theirs.require("problem_type", None, "single_label_classification")
            if len(class_names) < 2:
                raise ValueError(
                    f"{theirs.path}: with one label the model predicts a number, not a class; "
                    "only models with two or more labels can be read"
                )
        num_classes = num_classes or len(class_names)
    rows = _rows(directory, theirs)
    config = _config(theirs, names, given, rows, head, num_classes)
    params: Params = {
        "embedding": {"table": _table(weights, names, rows, config)},
        "encoder": _encoder(weights, names, config, positions),
    }
    if head == "masked" == has:
        params |= _masked_head(weights, names, rows, config)
    if head == "classes":
        params |= _class_head(weights, names, has, config)
    _ignore_others(weights)
    weights.check_all_used()
    return ModelFiles(config, params, rows, class_names=class_names)


def _head_of(weights: Weights, names: _Names, theirs: TheirConfig) -> Head | None:
    if f"{names.transform}.weight" in weights:
        return "masked"
    # A classifier of tokens has the same tensors; its pooler, if there is one, was never trained.
    kinds = theirs["architectures"] or ["ForSequenceClassification"]
    is_of_texts = any(kind.endswith("ForSequenceClassification") for kind in kinds)
    return "classes" if is_of_texts and "classifier.weight" in weights else None


def _rows(directory: Path, theirs: TheirConfig) -> Rows:
    tokenizer = load_tokenizer(directory)
    reserved = reserved_rows(
        tokenizer,
        pad=tokenizer.pad_token_id,
        start=tokenizer.cls_token_id,
        end=tokenizer.sep_token_id,
    )
    return Rows(theirs["vocab_size"], reserved)


def _config(
    theirs: TheirConfig,
    names: _Names,
    given: dict,
    rows: Rows,
    head: Head,
    num_classes: int | None,
) -> TransformerConfig:
    width = theirs.head_width(given["d_model"], given["num_heads"])
    return config_of(
        family="encoder_only",
        vocabulary_rows=len(rows.theirs),
        num_decoder_layers=0,
        d_k=width,
        d_v=width,
        positions="learned",
        max_positions=theirs["max_position_embeddings"],
        norm="post",
        embedding_norm=True,
        tied_embeddings="all" if theirs["tie_word_embeddings"] else "none",
        pooling="cls" if head == "classes" else "none",
        pooler_activation=names.pooler_activation,
        num_classes=num_classes if head == "classes" and num_classes else 2,
        **given,
    )


def _table(weights: Weights, names: _Names, rows: Rows, config: TransformerConfig) -> np.ndarray:
    table_names = ["embeddings.word_embeddings.weight"]
    if config.tied_embeddings == "all":
        table_names.append(names.output)
    return rows.table(weights.take_one_of(table_names, (rows.num_theirs, config.d_model)))


def _encoder(
    weights: Weights, names: _Names, config: TransformerConfig, positions: _Positions
) -> Params:
    layers_of_ours = [
        _layer(weights, names, names.layer.format(number), config)
        for number in range(config.num_encoder_layers)
    ]
    learned = positions(weights, (config.max_positions, config.d_model))
    return layers.numbered(layers_of_ours) | {
        "positions": {"learned": {"table": learned}},
        "embedding_norm": layers.layer_norm(weights, "embeddings.LayerNorm", config.d_model),
    }


def _layer(weights: Weights, names: _Names, prefix: str, config: TransformerConfig) -> Params:
    d_model, d_ff = config.d_model, config.d_ff
    attention = {ours: prefix + name for ours, name in names.attention.items()}
    return layers.layer(
        layers.attention(weights, attention, d_model, config.num_heads),
        layers.layer_norm(weights, prefix + names.attention_norm, d_model),
        layers.linear(weights, prefix + names.inner, d_model, d_ff),
        layers.linear(weights, prefix + names.outer, d_ff, d_model),
        layers.layer_norm(weights, prefix + names.feed_forward_norm, d_model),
    )


def _masked_head(weights: Weights, names: _Names, rows: Rows, config: TransformerConfig) -> Params:
    d_model = config.d_model
    bias = weights.take_one_of(list(names.output_bias), (rows.num_theirs,))
    head: Params = {
        "transform": layers.linear(weights, names.transform, d_model, d_model),
        "transform_norm": layers.layer_norm(weights, names.transform_norm, d_model),
        "output": {"bias": rows.bias(bias)},
    }
    if config.tied_embeddings == "none":
        table = weights.take(names.output, (rows.num_theirs, d_model))
        head["output_embedding"] = {"table": rows.table(table)}
    return head


def _class_head(
    weights: Weights, names: _Names, has: Head | None, config: TransformerConfig
) -> Params:
    d_model, num_classes = config.d_model, config.num_classes
    head: Params = {}
    # A classifier needs the pooler; for a new task it may be learned with the classes.
    if has == "classes" or f"{names.pooler}.weight" in weights:
        head["pooler"] = layers.linear(weights, names.pooler, d_model, d_model)
    if has == "classes":
        head["classes"] = {"table": weights.take("classifier.weight", (num_classes, d_model))}
        head["output"] = {"bias": weights.take("classifier.bias", (num_classes,))}
    return head


def _ignore_others(weights: Weights) -> None:
    """Ignores heads that were not requested, and other tensors in older files."""
    weights.ignore(r"embeddings\.position_ids")
    weights.ignore(r"(cls|pooler|classifier|pre_classifier|qa_outputs|vocab_\w+)\..*")
