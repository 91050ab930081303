"""The numbers and choices that define one Transformer: the columns of Table 3, and more."""

from typing import Literal

from t2t_jax.config_checks import (
    check_above_zero,
    check_at_least,
    check_rates,
    check_types,
    config_section,
)

Family = Literal["encoder_decoder", "decoder_only", "encoder_only", "recurrent"]
Positions = Literal[
    "sinusoidal",
    "sinusoidal_concatenated",
    "sinusoidal_tensor2tensor",
    "learned",
    "rotary",
    "relative",
    "alibi",
    "counted",
    "scaled",
    "none",
]
# Those that add to the scores of attention, which no fused kernel does.
BIASED_POSITIONS: tuple[Positions, ...] = ("relative", "alibi")
Norm = Literal["post", "pre", "none"]
NormKind = Literal["layer", "rms"]
ScoreDivisor = Literal["sqrt_d_k", "sqrt_d_model", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swish", "none"]
AttentionInit = Literal["fused", "separate"]
EmbeddingInit = Literal["inverse_sqrt_d_model", "unit"]
Pooling = Literal["none", "cls", "mean", "query"]
PoolerActivation = Literal["tanh", "relu", "none"]
RecurrentCell = Literal["tanh", "gru", "lstm"]
TiedEmbeddings = Literal["all", "decoder", "none"]
Dtype = Literal["float32", "bfloat16"]
DropoutBits = Literal[32, 16, 8]
AttentionKernel = Literal["einsum", "fused"]


@config_section
class TransformerConfig:
    """One model of any family, checked once, on creation.

    Raises:
      ValueError: a value is not allowed, or two do not fit together.
      TypeError: a value has the wrong type.
    """

    family: Family
    ensemble_size: int  # models that are trained apart and translate together
    vocabulary_rows: int  # rows of the embedding, at least the size of the vocabulary
    num_encoder_layers: int  # N, encoder
    num_decoder_layers: int  # N, decoder
    d_model: int
    d_ff: int
    num_heads: int  # h
    d_k: int  # per head; the paper's is d_model / h
    d_v: int  # per head
    score_divisor: ScoreDivisor  # what scores are divided by before the softmax
    num_self_attentions: int  # self-attention sub-layers in a layer; the paper's is 1
    feed_forward: bool  # whether layers have a feed-forward sub-layer
    residual: bool  # whether the input of a sub-layer is added to its output
    positions: Positions
    first_position: int  # the first token's position for sinusoids; the paper's is 0
    relative_buckets: int  # positions="relative": number of distance buckets
    relative_max_distance: int  # positions="relative": from here on distances share one bucket
    max_positions: int  # rows of the table of learned positions; "scaled" divides by it
    norm: Norm  # after the residual sum (the paper), before the sub-layer, or in no layer
    norm_kind: NormKind  # layer norm (the paper), or RMS norm
    norm_epsilon: float
    activation: Activation  # of the feed-forward layer, and of the head that predicts masked tokens
    attention_init: AttentionInit  # Glorot of query, key and value as one matrix, or as three
    attention_biases: bool
    feed_forward_biases: bool
    tied_embeddings: TiedEmbeddings  # "all": source, target and output; "decoder": the last two
    embedding_init: EmbeddingInit  # standard deviation 1/sqrt(d_model), or 1
    scale_embeddings: bool  # times sqrt(d_model), section 3.4
    embedding_norm: bool  # layer norm of embeddings + positions (BERT)
    scale_logits: bool  # divided by sqrt(d_model)
    output_bias: bool  # one number per logit (Marian, BERT)
    pooling: Pooling  # encoder_only: what a class is predicted from; "none" predicts masked tokens
    pooler_activation: PoolerActivation  # of the dense layer after pooling; "none": no such layer
    num_classes: int  # encoder_only with pooling
    recurrent_cell: RecurrentCell  # family="recurrent"
    recurrent_attention: bool  # family="recurrent": the decoder attends to the source
    dropout_rate: float  # P_drop: on sub-layer outputs, and on sums of embeddings and positions
    attention_dropout_rate: float  # on attention weights; the paper has none
    feed_forward_dropout_rate: float  # inside the feed-forward layer; the paper has none
    dropout_bits: DropoutBits  # random bits per element
    attention_kernel: AttentionKernel  # "fused": one kernel for all of equation 1, in training
    fused_projections: bool  # projections of the same input as one product
    scan_layers: bool  # compile one layer and loop over it
    rematerialise: bool  # recompute layers for their gradients, to save memory
    dtype: Dtype  # of the computation; parameters, softmax and loss are float32

    def __post_init__(self) -> None:
        check_types("model", self)
        sizes = ("vocabulary_rows", "d_model", "d_ff", "num_heads", "d_k", "d_v")
        check_at_least("model", self, 1, sizes)
        sizes = ("num_self_attentions", "relative_max_distance", "num_classes", "ensemble_size")
        check_at_least("model", self, 1, sizes)
        if self.ensemble_size > 1 and self.family not in ("encoder_decoder", "recurrent"):
            raise ValueError(
                f"model.ensemble_size={self.ensemble_size} does not go with model.family="
                f"{self.family!r}: only models that translate do so together"
            )
        counts = ("num_encoder_layers", "num_decoder_layers", "first_position")
        check_at_least("model", self, 0, counts)
        rates = ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate")
        check_rates("model", self, rates)
        check_above_zero("model", self, ("norm_epsilon",))
        if self.family == "recurrent":
            self._check_recurrence()
        else:
            self._check_positions()

    @property
    def longest_sequence(self) -> int | None:
        """Most tokens of a sequence: the rows of learned positions; None without these."""
        has_table = self.positions == "learned" and self.family != "recurrent"
        return self.max_positions if has_table else None

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
        is_centred = self.norm_kind == "layer" and (self.norm == "pre" or self.embedding_norm)
        if self.positions in ("counted", "scaled") and is_centred:
            raise ValueError(
                f"model.positions={self.positions!r} is a number added to a whole vector, which "
                "layer norm takes away before anything reads it: use norm='post' without "
                "embedding_norm, norm_kind='rms', or other positions"
            )
        if self.positions in ("learned", "scaled"):
            check_at_least("model", self, 1, ("max_positions",))
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"model.d_k={self.d_k} is odd; rotary positions turn pairs and need an even one"
            )
        if self.positions == "relative":
            self._check_buckets()

    def _check_recurrence(self) -> None:
        check_at_least("model", self, 1, ("num_encoder_layers", "num_decoder_layers"))
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd; family='recurrent' has half of it for "
                "either direction of the encoder"
            )

    def _check_buckets(self) -> None:
        buckets, furthest = self.relative_buckets, self.relative_max_distance
        if buckets < 4 or buckets % 2:
            raise ValueError(
                f"model.relative_buckets={buckets} must be even and at least 4: an encoder has "
                "half of them for either side, near and far"
            )
        if furthest <= buckets // 2:
            raise ValueError(
                f"model.relative_max_distance={furthest} must be above {buckets // 2}, the "
                f"distances that half of model.relative_buckets={buckets} tell apart"
            )
