"""A beam search, for tests."""

import dataclasses

from configs import base
from t2t_jax.decoding.config import DecodingConfig

BEAM_OF_3 = dataclasses.replace(
    DecodingConfig(**base.get_config().decoding),
    beam_size=3,
    max_extra_tokens=5,
    n_best=3,
    tokens_per_batch=16 * 3 * 4,
)


def beam_of_3(**changes) -> DecodingConfig:
    """BEAM_OF_3 with `changes`."""
    return dataclasses.replace(BEAM_OF_3, **changes)
