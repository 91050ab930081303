"""A short training, for tests."""

import dataclasses

from t2t_jax.training.config import TrainingConfig

SHORT = TrainingConfig(
    steps=6,
    label_smoothing_mass="others",
    label_smoothing=0.1,
    loss_chunk_tokens=0,
    microbatches=1,
    schedule="paper",
    warmup_steps=4,
    learning_rate_scale=1.0,
    peak_learning_rate=0.01,
    adam_beta1=0.9,
    adam_beta2=0.98,
    adam_epsilon=1e-9,
    log_every_steps=2,
    evaluate_every_steps=3,
    checkpoint_every_steps=2,
    keep_checkpoints=2,
    patience=0,
)


def short(**changes) -> TrainingConfig:
    """SHORT with `changes`."""
    return dataclasses.replace(SHORT, **changes)
