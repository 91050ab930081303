"""The cost of an update in tokens and operations, known before training."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from t2t_jax.data.batches.batches import Batches
from t2t_jax.devices import Devices
from t2t_jax.model.config import TransformerConfig
from t2t_jax.peaks import peak_operations
from t2t_jax.runs.sections import Sections
from t2t_jax.training.operations import step_operations


class StepCost(NamedTuple):
    """Means over the updates of an epoch."""

    operations: float  # of the matrix products, each sentence on its own: without padding
    padded_operations: float  # of the matrix products as they are computed


def step_cost(batches: Batches, config: TransformerConfig) -> StepCost:
    """The cost of an update of this model on such batches, averaged over an epoch."""
    operations = step_operations(config)
    num_batches = batches.batches_per_epoch
    source, target, times = batches.lengths
    shapes = np.array(batches.shapes).T
    return StepCost(
        operations=float(operations.of(1, source, target) @ times) / num_batches,
        padded_operations=float(operations.of(*shapes) @ batches.batches_by_shape) / num_batches,
    )


def target_tokens(batches: Batches) -> float:
    """Target tokens of an update, averaged over an epoch: those that have a loss."""
    *_, times = batches.lengths
    return float(batches.num_predicted @ times) / batches.batches_per_epoch


def measures_of(
    batches: Batches, sections: Sections, devices: Devices
) -> Callable[[float], dict[str, float]]:
    """Builds `measures(target tokens a second)`: further metrics to log during training.

    mfu: operations without padding over the devices' bfloat16 peak, if that is known;
    peak_memory_gib: of one device, if it reports it.
    """
    peak = peak_operations(devices.kind)
    mfu_of_rate = 0.0
    if peak is not None:
        try:
            operations = step_cost(batches, sections.model).operations
            mfu_of_rate = operations / target_tokens(batches) / (peak * devices.mesh.size)
        except ValueError:
            pass  # logged when the record is written

    def measures(rate: float) -> dict[str, float]:
        found = {"mfu": rate * mfu_of_rate} if mfu_of_rate else {}
        memory = devices.peak_memory()
        return found if memory is None else found | {"peak_memory_gib": memory / 2**30}

    return measures
