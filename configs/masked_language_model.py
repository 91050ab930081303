"""A masked language model for the embedded corpus's English (BERT's first task).

    t2t-jax train --config=configs/masked_language_model.py --workdir=W
    t2t-jax score --workdir=W --split=test

Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import tiny


def get_config() -> ConfigDict:
    """The tiny config with only an encoder, which guesses masked tokens."""
    config: Any = tiny.get_config()
    config.data.task = "masked_language_modelling"
    config.data.train_pairs = 100_000  # sentences
    config.model.family = "encoder_only"
    config.training.steps = 1_600  # updates
    config.training.label_smoothing = 0.0  # as in BERT
    config.training.checkpoint_every_steps = 800  # updates
    return config
