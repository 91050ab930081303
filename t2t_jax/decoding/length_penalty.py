"""The length penalties of beam search: the paper's (section 6.1, from GNMT) and the plain power.

What a hypothesis is ranked by is its log-probability over the penalty of its n tokens.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from t2t_jax.decoding.config import LengthPenaltyFormula


def length_penalty(
    num_tokens: Int[Array, "..."] | int, alpha: ArrayLike, formula: LengthPenaltyFormula = "gnmt"
) -> Float[Array, "..."]:
    """What the log-probability of n tokens is divided by.

    - formula="gnmt": ((5 + n) / 6)^alpha, GNMT equation 14 (Wu et al. 2016). tensor2tensor, whose
      decoder made the paper's numbers, and flax's wmt example have it.
    - formula="power": n^alpha, which fairseq, Hugging Face transformers, CTranslate2 and Marian
      have. With alpha = 1 it is the mean log-probability of a token.

    n counts every token that was generated and so has its share in the log-probability: the end
    token counts, the start token does not. tensor2tensor counts so; fairseq (`step + 1`) and
    transformers (`cur_len + 1 - decoder_prompt_len`) do too. CTranslate2 counts the tokens that it
    gives back, and the end token is one of them only with `return_end_token=True`; without it a
    hypothesis has n - 1 tokens there.
    """
    n = jnp.asarray(num_tokens, jnp.float32)
    match formula:
        case "gnmt":
            return ((5 + n) / 6) ** alpha
        case "power":
            return n**alpha
