"""The form of a training state: on GPUs, the members of an ensemble lie along an axis."""

from typing import NamedTuple

import jax

from t2t_jax import hosts
from t2t_jax.devices import FSDP, Devices
from t2t_jax.model.ensemble import stacked, unstacked
from t2t_jax.model.fused_attention import asks_for_a_kernel
from t2t_jax.runs.sections import Sections
from t2t_jax.training.step import TrainState


def has_members_at_once(sections: Sections, devices: Devices) -> bool:
    """Whether the members of an ensemble are trained as one computation of larger arrays.

    On GPUs they are: one after another, they take as many times the compilation, the kernels and
    the arrays that a step is called with. Not so where an array is split over devices, with
    cuDNN's attention, which takes no such axis, or if gradients are clipped by their joint norm.
    """
    return (
        sections.model.ensemble_size > 1
        and devices.are_gpus
        and devices.num_data == devices.mesh.size
        and devices.mesh.shape[FSDP] == 1
        and not asks_for_a_kernel(sections.model)
        and not sections.training.gradient_clip_norm
    )


class StateForm(NamedTuple):
    """How a step has its state, and how a checkpoint has it.

    They differ if members are trained at once. A state is changed on the host, where nothing is
    compiled.
    """

    at_once: bool  # what `has_members_at_once` says
    devices: Devices
    saved: TrainState  # the shapes of a checkpoint's

    @property
    def shapes(self) -> TrainState:
        """Those of the step's state."""
        shapes = jax.eval_shape(stacked, self.saved) if self.at_once else self.saved
        return self.devices.shapes(shapes)

    def restored(self, state: TrainState) -> TrainState:
        """The step's form of a checkpoint's state, whose arrays are deleted."""
        if not self.at_once:
            return state
        on_host = stacked(jax.device_get(state))
        jax.tree.map(lambda leaf: leaf.delete(), state)  # a device may have no room for two
        return self.devices.put(on_host)

    def for_checkpoint(self, state: TrainState) -> TrainState:
        """A checkpoint's form of the step's state; on one host in its memory."""
        if not self.at_once:
            return state
        on_host = unstacked(jax.device_get(state), self.saved)
        return self.devices.put(on_host) if hosts.are_several() else on_host
