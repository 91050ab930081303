"""Statement or question, same words in another order: a classifier on the embedded corpus.

    t2t-jax train    --config=configs/classifier.py --workdir=W
    t2t-jax score    --workdir=W --split=test
    t2t-jax classify --workdir=W < sentences

Without positions (--config.model.positions=none) both sentences of a pair look the same.
Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import tiny


def get_config() -> ConfigDict:
    """The tiny config with only an encoder, and a class for each sentence."""
    config: Any = tiny.get_config()
    config.data.task = "classification"
    config.data.train_pairs = 5_000  # a statement and a question each
    config.model.family = "encoder_only"
    config.model.pooling = "cls"
    config.training.steps = 400  # updates
    config.training.label_smoothing = 0.0  # a class is certain
    config.training.checkpoint_every_steps = 200  # updates
    return config
