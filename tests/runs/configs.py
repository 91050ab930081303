"""The smallest possible run, for tests."""

from configs import tiny
from t2t_jax.runs.sections import read_sections

OVERRIDES = {
    "data.train_pairs": 300,
    "data.vocabulary_size": 200,
    "data.num_buckets": 2,
    "model.vocabulary_rows": 256,
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.num_heads": 2,
    "model.d_k": 8,
    "model.d_v": 8,
    "training.steps": 8,
    "training.warmup_steps": 2,
    "training.log_every_steps": 4,
    "training.evaluate_every_steps": 4,
    "training.checkpoint_every_steps": 4,
    "decoding.beam_size": 2,
    "decoding.max_extra_tokens": 3,
    "decoding.tokens_per_batch": 100_000,
    "evaluation.num_probes": 2,
    "devices.data": 1,
}


def smallest_config(cache, module=tiny, **changes):
    """The config of `module` with OVERRIDES and `changes`."""
    config = module.get_config()
    config.update_from_flattened_dict(OVERRIDES | {"data.cache": str(cache)} | changes)
    return config


def smallest(cache, module=tiny, **changes):
    """The same as sections."""
    return read_sections(smallest_config(cache, module, **changes))
