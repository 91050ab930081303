"""The numbers and choices that make one Transformer: the columns of Table 3, and more."""

import dataclasses
from typing import Literal, get_args

Positions = Literal[
    "sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor", "learned", "none"
]
Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "swish"]
TiedEmbeddings = Literal["all", "decoder", "none"]
Dtype = Literal["float32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """An encoder-decoder, checked once, when it is made.

    Raises:
      ValueError: a value is not allowed, or two do not fit together.
      TypeError: a value has the wrong type.
    """

    vocabulary_rows: int  # rows of the embedding, at least as many as the vocabulary has pieces
    num_encoder_layers: int  # N, encoder
    num_decoder_layers: int  # N, decoder
    d_model: int
    d_ff: int
    num_heads: int  # h
    d_k: int  # per head; the paper's is d_model / h
    d_v: int  # per head
    positions: Positions
    max_positions: int  # rows of the table of learned positions
    norm: Norm  # layer norm after the residual sum (the paper), or before the sub-layer
    norm_epsilon: float
    activation: Activation
    attention_biases: bool
    feed_forward_biases: bool
    tied_embeddings: TiedEmbeddings  # "all": source, target and output; "decoder": the last two
    scale_embeddings: bool  # times sqrt(d_model), section 3.4
    dropout_rate: float  # P_drop: sub-layer outputs, and sums of embeddings and positions
    attention_dropout_rate: float  # on attention weights; the paper has none
    feed_forward_dropout_rate: float  # inside the feed-forward layer; the paper has none
    dtype: Dtype  # of the computation; parameters, softmax and logits are float32

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if get_args(field.type):
                _check_choice(field.name, value, get_args(field.type))
            elif field.type is float and type(value) in (int, float):
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not field.type:
                raise TypeError(f"model.{field.name}={value!r} is not of type {field.type}")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in ("vocabulary_rows", "d_model", "d_ff", "num_heads", "d_k", "d_v"):
            if getattr(self, name) < 1:
                raise ValueError(f"model.{name}={getattr(self, name)} must be at least 1")
        for name in ("num_encoder_layers", "num_decoder_layers"):
            if getattr(self, name) < 0:
                raise ValueError(f"model.{name}={getattr(self, name)} must not be negative")
        for name in ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"model.{name}={getattr(self, name)} must be in [0, 1)")
        if self.norm_epsilon <= 0:
            raise ValueError(f"model.norm_epsilon={self.norm_epsilon} must be above 0")
        if self.positions.startswith("sinusoidal") and self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd; sinusoidal positions need an even one"
            )
        if self.positions == "sinusoidal_tensor2tensor" and self.d_model < 4:
            raise ValueError(
                f"model.d_model={self.d_model}: sinusoidal_tensor2tensor needs at least 4"
            )
        if self.positions == "learned" and self.max_positions < 1:
            raise ValueError(
                f"model.max_positions={self.max_positions} must be at least 1 "
                "with positions='learned'"
            )


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"model.{name}={value!r} is not one of {', '.join(map(repr, allowed))}")
