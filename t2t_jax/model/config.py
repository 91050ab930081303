"""The numbers and choices that make one Transformer: the columns of Table 3, and more."""

import dataclasses
from typing import Literal, no_type_check

from t2t_jax.config_checks import check_above_zero, check_at_least, check_rates, check_types

Positions = Literal[
    "sinusoidal", "sinusoidal_concatenated", "sinusoidal_tensor2tensor", "learned", "none"
]
Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "swish"]
TiedEmbeddings = Literal["all", "decoder", "none"]
Dtype = Literal["float32", "bfloat16"]


@no_type_check  # of its own: tests would have the arguments checked before it can
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
        check_types("model", self)
        sizes = ("vocabulary_rows", "d_model", "d_ff", "num_heads", "d_k", "d_v")
        check_at_least("model", self, 1, sizes)
        check_at_least("model", self, 0, ("num_encoder_layers", "num_decoder_layers"))
        rates = ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate")
        check_rates("model", self, rates)
        check_above_zero("model", self, ("norm_epsilon",))
        self._check_positions()

    def _check_positions(self) -> None:
        if self.positions.startswith("sinusoidal") and self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd; sinusoidal positions need an even one"
            )
        if self.positions == "sinusoidal_tensor2tensor" and self.d_model < 4:
            raise ValueError(
                f"model.d_model={self.d_model}: positions='sinusoidal_tensor2tensor' need at "
                "least 4"
            )
        if self.positions == "learned":
            check_at_least("model", self, 1, ("max_positions",))
