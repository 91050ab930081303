"""What an update of a run takes: tokens or operations, before it is trained."""

from typing import NamedTuple

import numpy as np

from t2t_jax.data.batches.batches import Batches
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.operations import step_operations


class StepCost(NamedTuple):
    """Means over the updates of an epoch."""

    operations: float  # of the products, of every sentence as if it were alone: without padding
    padded_operations: float  # of the products as they are computed


def step_cost(batches: Batches, config: TransformerConfig) -> StepCost:
    """What an update of this model on such batches takes, the mean over an epoch."""
    operations = step_operations(config)
    num_batches = batches.batches_per_epoch
    source, target, times = batches.lengths
    shapes = np.array(batches.shapes).T
    return StepCost(
        operations=float(operations.of(1, source, target) @ times) / num_batches,
        padded_operations=float(operations.of(*shapes) @ batches.batches_by_shape) / num_batches,
    )


def target_tokens(batches: Batches) -> float:
    """Of an update, without padding, the mean over an epoch."""
    _, target, times = batches.lengths
    return float(target @ times) / batches.batches_per_epoch
