"""The length penalties of beam search: the paper's (section 6.1, from GNMT) and the plain power.

Hypotheses are ranked by their log-probability over the penalty of their n tokens.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from t2t_jax.decoding.config import LengthPenaltyFormula


def length_penalty(
    num_tokens: Int[Array, "..."] | int, alpha: ArrayLike, formula: LengthPenaltyFormula = "gnmt"
) -> Float[Array, "..."]:
    """The divisor of the log-probability of n tokens.

    - formula="gnmt": ((5 + n) / 6)^alpha, GNMT equation 14 (Wu et al. 2016). Used by tensor2tensor,
      whose decoder produced the paper's numbers, and by flax's wmt example.
    - formula="power": n^alpha, used by fairseq, Hugging Face transformers, CTranslate2 and Marian.
      With alpha = 1, the score is the mean log-probability per token.

    n counts every generated token, each of which contributes to the log-probability: the end token
    counts, the start token does not. So do tensor2tensor, fairseq (`step + 1`) and transformers
    (`cur_len + 1 - decoder_prompt_len`). CTranslate2 counts the tokens it returns, including the
    end token only with `return_end_token=True`; without it, n is one less there.
    """
    n = jnp.asarray(num_tokens, jnp.float32)
    match formula:
        case "gnmt":
            return ((5 + n) / 6) ** alpha
        case "power":
            return n**alpha
