"""A short training, for tests."""

import dataclasses

from configs import base
from t2t_jax.training.config import TrainingConfig

SHORT = dataclasses.replace(
    TrainingConfig(**base.get_config().training),
    steps=6,
    warmup_steps=4,
    peak_learning_rate=0.01,
    log_every_steps=2,
    evaluate_every_steps=3,
    checkpoint_every_steps=2,
    keep_checkpoints=2,
)


def short(**changes) -> TrainingConfig:
    """SHORT with `changes`."""
    return dataclasses.replace(SHORT, **changes)
