"""Keys of a config by what they do not change; a key that is not named here matters."""

import os

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


def may_change(key: str) -> bool:
    """Whether a run goes on with another value of this key: what has been learned is the same."""
    return key in _MAY_CHANGE or key.startswith(("decoding.", "evaluation."))


def own_cache(otherwise: str = "~/.cache/t2t_jax") -> str:
    """In the place of `data.cache` where nobody has typed it: T2T_JAX_CACHE of the environment.

    A sweep says it to its runs. `otherwise` is what a person's own config has, never a run's file,
    which may be somebody else's.
    """
    return os.environ.get("T2T_JAX_CACHE") or otherwise
