"""What each key of a model's config corresponds to in other libraries.

A new key must be named either here, or by every reader and every format. One that does not name it
refuses every model.
"""

import dataclasses
from collections.abc import Collection
from typing import Any

from t2t_jax.model.config import TransformerConfig

# How a model is trained and computed. Imports get these values; exports may have any.
OF_TRAINING: dict[str, Any] = dict(
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    feed_forward_dropout_rate=0.0,
    dtype="float32",
    dropout_bits=32,
    attention_kernel="einsum",
    fused_projections=False,
    scan_layers=False,
    rematerialise=False,
)
# Read when parameters are initialised, or by other kinds of models: likewise.
NOT_READ: dict[str, Any] = dict(
    attention_init="separate",
    embedding_init="inverse_sqrt_d_model",
    relative_buckets=32,
    relative_max_distance=128,
    pooling="none",
    pooler_activation="none",
    num_classes=2,
    recurrent_cell="lstm",
    recurrent_attention=True,
)
# Unknown to other libraries: imports get these values, and exports may have no others.
_UNKNOWN: dict[str, Any] = dict(
    ensemble_size=1,
    num_self_attentions=1,
    score_divisor="sqrt_d_k",
    feed_forward=True,
    residual=True,
    norm_kind="layer",
)
# Imports get these values; each export format says which it can have.
_COMMON: dict[str, Any] = dict(
    first_position=0,
    max_positions=1,
    attention_biases=True,
    feed_forward_biases=True,
    scale_embeddings=False,
    embedding_norm=False,
    scale_logits=False,
    output_bias=True,
)


def config_of(**given: Any) -> TransformerConfig:
    """Our config; keys that the reader of a family does not give have the values above."""
    return TransformerConfig(**(OF_TRAINING | NOT_READ | _UNKNOWN | _COMMON | given))


_IN_ALL_FORMATS = (
    *("vocabulary_rows", "num_encoder_layers", "num_decoder_layers", "d_model", "d_ff"),
    *("num_heads", "max_positions", "norm_epsilon", "attention_biases", "feed_forward_biases"),
    *("scale_embeddings", "output_bias"),
)


def check_keys(
    config: TransformerConfig,
    name: str,
    any_value: Collection[str] = (),
    **values: tuple[Any, ...],
) -> None:
    """Raises ValueError at the first key of the model that the format `name` cannot express.

    Args:
      any_value: keys that may have any value, besides those of training and those that all formats
        have.
      values: the allowed values of other keys.
    """
    width = config.d_model / config.num_heads
    values = {key: (value,) for key, value in _UNKNOWN.items()} | values
    values |= dict(d_k=(width,), d_v=(width,))
    free = {*any_value, *_IN_ALL_FORMATS, *OF_TRAINING, *NOT_READ}
    for field in dataclasses.fields(config):
        key, value = field.name, getattr(config, field.name)
        if key in values and value not in values[key]:
            told = " or ".join(map(repr, values[key]))
            if key in ("d_k", "d_v"):
                told = f"model.d_model / model.num_heads, {width:g}"
            raise ValueError(f"model.{key}={value!r}: {name} can only have {told}")
        if key not in values and key not in free:
            raise ValueError(f"model.{key}={value!r}: it is not known whether {name} can have it")
