"""Keys of a config by what they do not change; a key that is not named here matters."""

import os
from collections.abc import Mapping
from typing import Any

# Where a run is done, on what and in how many pieces, not what is learned: other pieces draw other
# dropout masks, as another seed does, and nothing more.
WHERE = frozenset(
    {
        "data.cache",
        *("devices.data", "devices.fsdp", "devices.tensor", "devices.compile"),
        "devices.matmul_precision",
        *("model.rematerialise", "model.attention_kernel", "model.fused_projections"),
        "model.scan_layers",
        *("training.log_every_steps", "training.loss_chunk_tokens", "training.microbatches"),
    }
)

# What may be another when a run is taken up again, beside the sections that no training reads.
_MAY_CHANGE = WHERE | {
    "data.directory",
    *("training.evaluate_every_steps", "training.checkpoint_every_steps"),
    "training.checkpoint_every_minutes",
    *("training.keep_checkpoints", "training.patience"),
    *("training.nonfinite", "training.max_nonfinite"),
}

# Keys that came when there were runs already, with what had been done until then: what
# configs/base.py says. A run that lacks one did that.
_CAME_LATER: dict[str, Any] = {
    "data.length_multiple": 1,
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
}


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run as a flat dict, of today or before, with the keys that came since."""
    missing = {key: value for key, value in _CAME_LATER.items() if key not in config}
    return dict(config) | missing  # in the order of the config: some take a digest of it


def may_change(key: str) -> bool:
    """Whether a run goes on with another value of this key: what has been learned is the same."""
    return key in _MAY_CHANGE or key.startswith(("decoding.", "evaluation."))


def own_cache(otherwise: str = "~/.cache/t2t_jax") -> str:
    """In the place of `data.cache` where nobody has typed it: T2T_JAX_CACHE of the environment.

    A sweep says it to its runs. `otherwise` is what a person's own config has, never a run's file,
    which may be somebody else's.
    """
    return os.environ.get("T2T_JAX_CACHE") or otherwise
