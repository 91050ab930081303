"""The "tiny" Transformer of the Multi30k literature (Wu et al. 2021), on text files.

    t2t-jax prepare --config=configs/multi30k.py --config.data.directory=DIR
    t2t-jax train   --config=configs/multi30k.py --config.data.directory=DIR --workdir=W
    t2t-jax score   --workdir=W --split=test

DIR holds train, val and test2016 (published as test_2016_flickr) with the endings .en and .de, one
sentence a line.

Published: BLEU 41.02 on test2016, lower-cased and tokenised by Moses; 2.6 million parameters.
The model is theirs, the training setup ours: 38.4 by the same measure, the mean of five seeds, 20
minutes each on two cores (docs/SPEEDRUN.md). docs/LOG.md (2026-11-25) has the flags of theirs.
Measured figures: docs/MEASURED.md.
"""

from typing import Any

from ml_collections import ConfigDict

from configs import base


def get_config() -> ConfigDict:
    """The base config with the text-only Transformer-Tiny and a short schedule."""
    config: Any = base.get_config()
    config.data.source = "text"  # in data.directory, which you set
    config.data.name = ""
    config.data.dev = "val"  # 1,014 pairs; train has 29,000
    config.data.test = "test2016"  # 1,000 pairs
    config.data.vocabulary_size = 10_000  # pieces
    config.data.max_length = 64  # tokens
    config.data.batching = "packed"  # one program to train; 96 % of the cells are tokens
    config.data.packed_length = 64  # tokens
    config.data.source_tokens_per_batch = 2_048
    config.data.target_tokens_per_batch = 2_048
    config.data.num_buckets = 8  # of dev and test
    config.model.vocabulary_rows = 10_000
    config.model.num_encoder_layers = 4
    config.model.num_decoder_layers = 4
    config.model.d_model = 128
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.d_k = 32
    config.model.d_v = 32
    config.model.max_positions = 512  # tokens
    config.model.dropout_rate = 0.2
    config.training.steps = 3_200  # updates, 14 epochs
    config.training.loss_chunk_tokens = 512
    config.training.schedule = "linear"  # to 0; equation 3 would end at a third of its peak
    config.training.warmup_steps = 400  # updates
    config.training.peak_learning_rate = 0.004
    config.training.log_every_steps = 50  # updates
    config.training.evaluate_every_steps = 200  # updates
    config.training.checkpoint_every_steps = 400  # updates
    config.training.keep_checkpoints = 2
    config.decoding.tokens_per_batch = 8_192
    config.evaluation.bleu_on_dev = False  # test is enough
    return config
