"""How to search for translations."""

from typing import Literal

from t2t_jax.config_checks import check_at_least, check_types, config_section

LengthPenaltyFormula = Literal["gnmt", "power"]
WeightsDtype = Literal["float32", "bfloat16"]

# With far more, all scores round to 0.
_LARGEST_ALPHA = 10

CHANGE_NO_TRANSLATION = ("n_best", "tokens_per_batch")


@config_section
class DecodingConfig:
    """A search, checked once, on creation.

    Raises:
      ValueError: a value is not allowed, or two do not fit together.
      TypeError: a value has the wrong type.
    """

    beam_size: int  # W; 1 is greedy search (the paper: 4)
    length_penalty: float  # alpha (the paper: 0.6); 0 ranks by log-probability alone
    length_penalty_formula: LengthPenaltyFormula  # see length_penalty.py
    max_extra_tokens: (
        int  # a translation has at most this many tokens more than its source (the paper: 50)
    )
    max_tokens: int  # most tokens for any source, the end included; 0: max_extra_tokens applies
    n_best: int  # translations to return for each sentence, at most beam_size
    tokens_per_batch: int  # source tokens x beams, padding included
    average_checkpoints: int  # number of last checkpoints to average; 1: only the last
    weights_dtype: WeightsDtype  # bfloat16: products of bfloat16, summed in float32

    def __post_init__(self) -> None:
        check_types("decoding", self)
        counts = ("beam_size", "n_best", "tokens_per_batch", "average_checkpoints")
        check_at_least("decoding", self, 1, counts)
        check_at_least("decoding", self, 0, ("max_extra_tokens", "max_tokens"))
        if not 0 <= self.length_penalty <= _LARGEST_ALPHA:
            raise ValueError(
                f"decoding.length_penalty={self.length_penalty} must be from 0 to {_LARGEST_ALPHA}"
            )
        if self.n_best > self.beam_size:
            raise ValueError(
                f"decoding.n_best={self.n_best} is more than "
                f"decoding.beam_size={self.beam_size}: a beam gives at most its own size"
            )
