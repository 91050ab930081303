"""A beam search, for tests."""

import dataclasses

from t2t_jax.decoding.config import DecodingConfig

BEAM_OF_3 = DecodingConfig(
    beam_size=3,
    length_penalty=0.6,
    length_penalty_formula="gnmt",
    max_tokens=0,
    max_extra_tokens=5,
    n_best=3,
    tokens_per_batch=16 * 3 * 4,
    average_checkpoints=1,
)


def beam_of_3(**changes) -> DecodingConfig:
    """BEAM_OF_3 with `changes`."""
    return dataclasses.replace(BEAM_OF_3, **changes)
