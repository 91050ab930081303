"""A language model for the embedded corpus's English.

    t2t-jax train    --config=configs/language_model.py --workdir=W
    t2t-jax score    --workdir=W --split=test
    t2t-jax generate --workdir=W --prompt="The dog" --top_n=3

Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import tiny


def get_config() -> ConfigDict:
    """The tiny config with only a decoder, for one language."""
    config: Any = tiny.get_config()
    config.data.task = "language_modelling"
    config.data.source_language = "de"  # not read
    config.data.target_language = "en"  # language of the text
    config.data.train_pairs = 100_000  # sentences
    config.model.family = "decoder_only"
    config.training.steps = 1_600  # updates
    config.training.label_smoothing = 0.0  # perplexity matters here
    config.training.checkpoint_every_steps = 800  # updates
    return config
