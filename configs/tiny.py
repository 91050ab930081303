"""The embedded English-German corpus: minutes on a laptop, no download.

    t2t-jax train --config=configs/tiny.py --workdir=W
    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W

Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """The base config with a small model, on the embedded corpus."""
    config: Any = base.get_config()
    config.data.source = "embedded"
    config.data.name = ""
    config.data.dev = "dev"
    config.data.vocabulary_size = 2_000  # pieces
    config.data.max_length = 64  # tokens
    config.data.packed_length = 256  # tokens
    config.data.source_tokens_per_batch = 1_024
    config.data.target_tokens_per_batch = 1_024
    config.data.num_buckets = 4
    config.model.vocabulary_rows = 2_048
    config.model.num_encoder_layers = 2
    config.model.num_decoder_layers = 2
    config.model.d_model = 128
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.d_k = 32
    config.model.d_v = 32
    config.model.max_positions = 256  # tokens
    config.model.dropout_rate = 0.0  # a run this short does not overfit
    config.training.steps = 1_100  # updates
    config.training.loss_chunk_tokens = 512
    config.training.schedule = "linear"  # equation 3 would still be warming up at the end
    config.training.warmup_steps = 100  # updates
    config.training.peak_learning_rate = 0.003
    config.training.log_every_steps = 50  # updates
    config.training.evaluate_every_steps = 100  # updates
    config.training.checkpoint_every_steps = 550  # updates
    config.training.keep_checkpoints = 2
    config.decoding.tokens_per_batch = 8_192
    config.evaluation.bleu_on_dev = False  # test is enough
    config.evaluation.num_probes = 500  # per kind
    return config
