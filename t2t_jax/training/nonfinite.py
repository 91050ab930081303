"""Numbers that are none: what a run does that meets them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from t2t_jax.training.step import TrainState, count_like

_NAMES_TOLD = 3


class Diverged(FloatingPointError):
    """Numbers of a training are not finite, and its config does not let it go on."""


def check_saved(state: TrainState) -> None:
    """Raises Diverged if a number of `state` is not finite, which no checkpoint is to hold.

    No update has made it so: gradients of a finite norm were checked. A learning rate near the
    largest number there is can.
    """
    if not _all_finite((state.params, state.opt_state)):
        names = names_of(jax.tree.map(_has_nonfinite, state.params)) or "the optimizer's state"
        raise Diverged(
            f"diverged at step {int(state.step)}: the state holds numbers that are not finite "
            f"({names}) and is not saved; a lower learning rate helps"
        )


class BadStep(NamedTuple):
    """A step whose loss or gradient norm is no finite number, and which was not skipped."""

    number: int  # from 1
    batch: int  # from 0
    rewinds: int  # before it

    @classmethod
    def of(cls, state: TrainState) -> "BadStep":
        """The one that `state` stands before, and cannot pass."""
        step, left_out = int(state.step), int(state.left_out)
        return cls(step + 1, step + left_out, int(state.rewinds))


def past(bad: BadStep, restored: TrainState) -> TrainState:
    """The state `restored`, to go on with the batch that follows the bad one."""
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
    """The first few parameters whose flag is true, in words; empty if there is none."""
    leaves = jax.tree_util.tree_leaves_with_path(flags)
    names = [
        jax.tree_util.keystr(path, simple=True, separator="/") for path, flag in leaves if flag
    ]
    more = len(names) - _NAMES_TOLD
    return ", ".join(names[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")


def check_params(params: PyTree[np.ndarray], whose: str) -> None:
    """Raises ValueError if parameters that are to be used are not finite."""
    if names := names_of(jax.tree.map(lambda leaf: not np.isfinite(leaf).all(), params)):
        raise ValueError(
            f"the parameters of {whose} are not all finite numbers ({names}): its training has "
            "diverged, and nothing can be computed with it"
        )


@jax.jit
def _all_finite(tree: PyTree[Array]) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))


@jax.jit
def _has_nonfinite(leaf: Array) -> Array:
    return ~jnp.isfinite(leaf).all()
