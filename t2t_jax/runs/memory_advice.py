"""What helps when a device runs out of memory."""

from t2t_jax.data.config import Task

IN_SCORING = "lower data.*_tokens_per_batch, or decoding.tokens_per_batch"


def in_training(task: Task, microbatches: int, flag: str) -> str:
    """The keys that make a step smaller; `flag` is the one that sets a key, such as --config."""
    sides = ["target"] if task == "language_modelling" else ["source", "target"]
    keys = " and ".join(f"data.{side}_tokens_per_batch" for side in sides)
    lower = f"lower {keys}, in another --workdir"
    if microbatches == 0:
        return lower
    return (
        f"{flag}.training.microbatches=0 computes a batch in as few parts as fit, where a device "
        f"says how much it has; or {lower}"
    )
