"""What a run does about NaN and infinite numbers."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from t2t_jax.training.step import TrainState, count_like
from t2t_jax.trees import first_few, path_name


class Diverged(FloatingPointError):
    """Training met non-finite numbers, and its config does not let it continue."""


class BadStep(NamedTuple):
    """A step with a non-finite loss or gradient norm that was not skipped."""

    number: int  # from 1
    batch: int  # from 0
    rewinds: int  # before it

    @classmethod
    def of(cls, state: TrainState) -> "BadStep":
        """The step after `state`, which it cannot pass."""
        step, left_out = int(state.step), int(state.left_out)
        return cls(step + 1, step + left_out, int(state.rewinds))


def past(bad: BadStep, restored: TrainState) -> TrainState:
    """The state `restored`, to continue with the batch after the bad one."""
    counts = {
        "bad_steps": 0,
        "rewinds": bad.rewinds + 1,
        "left_out": bad.batch + 1 - int(restored.step),
    }
    values = restored._asdict()
    return restored._replace(
        **{name: count_like(values[name], count) for name, count in counts.items()}
    )


def names_of(flags: PyTree) -> str:
    """The first few parameters whose flag is true, in words; empty if there are none."""
    leaves = jax.tree_util.tree_leaves_with_path(flags)
    return first_few([path_name(path) for path, flag in leaves if flag])


def check_params(params: PyTree[np.ndarray], whose: str) -> None:
    """Raises ValueError if parameters are not finite."""
    if names := names_of(jax.tree.map(lambda leaf: not np.isfinite(leaf).all(), params)):
        raise ValueError(
            f"the parameters of {whose} are not all finite numbers ({names}): its training has "
            "diverged, and nothing can be computed with it"
        )
