"""Keys of a config grouped by what they do not change; a key not named here matters."""

import os
from collections.abc import Mapping
from typing import Any

# Where and how a run is computed, not what is learned: another split changes only the dropout
# masks, as another seed would.
WHERE = frozenset(
    {
        "data.cache",
        *("devices.data", "devices.fsdp", "devices.tensor", "devices.compile"),
        *("model.rematerialise", "model.attention_kernel", "model.fused_projections"),
        "model.scan_layers",
        *("training.log_every_steps", "training.loss_chunk_tokens", "training.microbatches"),
    }
)

_NOT_READ_BY_TRAINING = ("decoding", "evaluation")  # sections

# Keys that may change when a run is resumed, besides those sections.
_MAY_CHANGE = WHERE | {
    "data.directory",
    *("training.evaluate_every_steps", "training.checkpoint_every_steps"),
    "training.checkpoint_every_minutes",
    *("training.keep_checkpoints", "training.patience"),
    *("training.nonfinite", "training.max_nonfinite"),
}

# How parameters begin and what disturbs them in training: a trained model no longer reads them.
DROPOUT_AND_START = frozenset(
    {
        *("model.dropout_rate", "model.attention_dropout_rate", "model.feed_forward_dropout_rate"),
        *("model.dropout_bits", "model.attention_init", "model.embedding_init"),
    }
)

# Keys of the model that may differ when it is used; MarianMT's format has one `norm_epsilon`.
_MAY_DIFFER_IN_USE = WHERE | DROPOUT_AND_START | {"model.dtype", "model.norm_epsilon"}

# Keys added when runs already existed, with the earlier behaviour, which is the value in
# configs/base.py. A run without the key has this value.
_CAME_LATER: dict[str, Any] = {
    "data.lowercase": False,
    "data.length_multiple": 1,
    "model.ensemble_size": 1,
    "model.score_divisor": "sqrt_d_k",
    "model.feed_forward": True,
    "model.residual": True,
    "model.norm_kind": "layer",
    "model.dropout_bits": 32,
    "model.attention_kernel": "einsum",
    "model.fused_projections": False,
    "model.scan_layers": False,
    "training.logits_dtype": "float32",
    "training.checkpoint_every_minutes": 0.0,
    "decoding.weights_dtype": "float32",
    "devices.matmul_precision": "highest",
}


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flat config of a new or old run, with the keys added since."""
    missing = {key: value for key, value in _CAME_LATER.items() if key not in config}
    return dict(config) | missing  # in the config's order: some callers hash it


def search_of(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the search behind kept scores, with those added since; {} if nothing is known."""
    search = scores.get("decoding")
    is_known = isinstance(search, dict) and search
    return with_later_keys({"decoding": search})["decoding"] if is_known else {}


def with_later_keys(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a run, section by section, with the keys added since."""
    config = {name: dict(each) if isinstance(each, dict) else each for name, each in config.items()}
    for key, value in _CAME_LATER.items():
        section, _, name = key.partition(".")
        if isinstance(config.get(section), dict):
            config[section].setdefault(name, value)
    return config


def may_change(key: str) -> bool:
    """Whether a run may continue with another value of this key: what it learned is the same."""
    return key in _MAY_CHANGE or key.partition(".")[0] in _NOT_READ_BY_TRAINING


def may_change_text() -> str:
    """The keys for which `may_change` is true, in a sentence."""
    sections = " and ".join(_NOT_READ_BY_TRAINING)
    keys = ", ".join(sorted(_MAY_CHANGE))
    return (
        f"A run may be resumed with other values of all keys of {sections}, and of {keys}; and of "
        "training.steps, unless the schedule ends with them."
    )


def is_of_the_model(key: str) -> bool:
    """Whether another value of this key would make another model of trained parameters."""
    return key.startswith("model.") and key not in _MAY_DIFFER_IN_USE


def own_cache(otherwise: str = "~/.cache/t2t_jax") -> str:
    """The `data.cache` to use if none was typed: T2T_JAX_CACHE of the environment.

    A sweep sets it for its runs. `otherwise` comes from the user's own config, never from a run's
    file, which may be someone else's.
    """
    return os.environ.get("T2T_JAX_CACHE") or otherwise
