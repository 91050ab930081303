"""The learning rate at each step (paper section 5.3). Steps count from 1."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from t2t_jax.training.config import TrainingConfig


def paper_peak(d_model: int, warmup_steps: int, scale: float = 1.0) -> float:
    """The highest rate of the paper's schedule, reached at the end of warm-up."""
    return scale * (d_model * warmup_steps) ** -0.5


def inverse_square_root(step: Int[Array, ""], peak: float, warmup_steps: int) -> Float[Array, ""]:
    """Linear rise to `peak` at `warmup_steps`, then decay as step^-0.5.

    With `peak` from `paper_peak` this is paper equation 3,
    scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).
    """
    step = step.astype(jnp.float32)
    return peak * jnp.minimum(step / warmup_steps, (warmup_steps / step) ** 0.5)


def linear_decay(
    step: Int[Array, ""], peak: float, warmup_steps: int, steps: int
) -> Float[Array, ""]:
    """Linear rise to `peak` at `warmup_steps`, then linear decay to just above 0.

    Departs from the paper: short runs end better if the rate goes to nearly 0.
    """
    step = step.astype(jnp.float32)
    falling = (steps + 1 - step) / (steps + 1 - warmup_steps)
    return peak * jnp.maximum(0.0, jnp.minimum(step / warmup_steps, falling))


def learning_rate(step: Int[Array, ""], config: TrainingConfig, d_model: int) -> Float[Array, ""]:
    """The rate at `step` under the schedule named by `config`."""
    match config.schedule:
        case "paper":
            peak = paper_peak(d_model, config.warmup_steps, config.learning_rate_scale)
            return inverse_square_root(step, peak, config.warmup_steps)
        case "peak":
            return inverse_square_root(step, config.peak_learning_rate, config.warmup_steps)
        case "linear":
            return linear_decay(step, config.peak_learning_rate, config.warmup_steps, config.steps)
