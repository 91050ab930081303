"""Adam under the schedule (paper section 5.3)."""

import jax.numpy as jnp
import optax

from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.schedule import learning_rate


def make_optimizer(config: TrainingConfig, d_model: int) -> optax.GradientTransformation:
    """Adam with the betas and epsilon of `config`; its first update is step 1 of the schedule."""
    return optax.adam(
        lambda updates_so_far: learning_rate(jnp.asarray(updates_so_far) + 1, config, d_model),
        b1=config.adam_beta1,
        b2=config.adam_beta2,
        eps=config.adam_epsilon,
    )
