"""Checkpoints on disk, by Orbax: a train state and the fingerprint of what it was trained on."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from t2t_jax import hosts
from t2t_jax.training.step import TrainState, count_like


class Checkpoints:
    """The checkpoints of one run, one directory per step, written whole or not at all.

    Parameters lie apart from the rest, so that decoding reads no optimiser state.

    Args:
      directory: made if it is not there.
      keep: how many of the last checkpoints stay; None keeps all.
      identity: what a checkpoint must agree with to be used, above all the fingerprint of its
        vocabulary; stored with each.
    """

    def __init__(
        self, directory: Path, *, identity: Mapping[str, str], keep: int | None = None
    ) -> None:
        self._directory = directory.resolve()
        self._identity = dict(identity)
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=keep, create=True, cleanup_tmp_directories=keep is not None
            ),
            item_handlers={
                "params": ocp.StandardCheckpointHandler(),
                "progress": ocp.StandardCheckpointHandler(),
                "identity": ocp.JsonCheckpointHandler(),
            },
        )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._manager.close()  # waits for what is being written

    @property
    def steps(self) -> list[int]:
        """The steps of which there is a checkpoint, in order."""
        return sorted(self._manager.all_steps())

    def save(self, state: TrainState) -> None:
        """Writes a checkpoint of `state` in the background, unless its step has one."""
        step = int(state.step)
        if step in self._manager.all_steps():
            return
        self._manager.save(
            step,
            args=ocp.args.Composite(
                params=ocp.args.StandardSave(state.params),
                progress=ocp.args.StandardSave(_progress(state)),
                identity=ocp.args.JsonSave(self._identity),
            ),
        )

    def wait(self) -> None:
        """Waits for what is being written."""
        self._manager.wait_until_finished()

    def delete(self, step: int) -> None:
        """Removes the checkpoint of `step`, if there is one, after waiting for later ones."""
        if step in self._manager.all_steps():
            self.wait()
            self._manager.delete(step)

    def restore_last(self, template: TrainState) -> TrainState | None:
        """The last checkpoint, laid out over devices as `template` is; None if there is none.

        Raises:
          ValueError: it is of another vocabulary, or of a model of another shape, or hosts see
            different ones.
        """
        steps = self._steps_of_all_hosts()
        if not steps:
            return None
        step = steps[-1]
        self._check_identity(step)
        progress = _progress(template)
        # One from before these were counted lacks them: they are as at the start.
        known = self._manager.item_metadata(step)["progress"] or progress
        counted = {
            name: count_like(progress.pop(name), 0) for name in _COUNTED if name not in known
        }
        restored = self._restore(
            step, params=_abstract(template.params), progress=_abstract(progress)
        )
        return TrainState(params=restored["params"], **restored["progress"], **counted)

    def restore_params(self, template: PyTree, average: int = 1) -> PyTree:
        """The mean of the parameters of the last `average` checkpoints.

        Raises:
          ValueError: there are fewer, they are of another vocabulary or shape, or hosts see
            different ones.
        """
        steps = self._steps_of_all_hosts()
        if len(steps) < average:
            raise ValueError(
                f"{self._directory} holds {len(steps)} checkpoints, "
                f"decoding.average_checkpoints={average} needs {average}"
            )
        total = None
        for step in steps[-average:]:
            self._check_identity(step)
            params = self._restore(step, params=_abstract(template))["params"]
            # Summed in float64, so that the mean does not depend on how many there are.
            addend = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
            total = addend if total is None else jax.tree.map(np.add, total, addend)
        return jax.tree.map(lambda leaf: (leaf / average).astype(np.float32), total)

    def _steps_of_all_hosts(self) -> list[int]:
        """The steps, once it is sure that all hosts will take the same one."""
        steps = self.steps
        what = f"the list of checkpoints in {self._directory}, a disk that all hosts must share,"
        hosts.check_same(what, repr(steps).encode())
        return steps

    def _restore(self, step: int, **templates: PyTree) -> Mapping[str, PyTree]:
        arguments = {name: ocp.args.StandardRestore(tree) for name, tree in templates.items()}
        misfit = ValueError(
            f"the checkpoint {self._directory / str(step)} does not fit this model: its config "
            "has changed since, or it was written by another version"
        )
        try:
            restored = self._manager.restore(step, args=ocp.args.Composite(**arguments))
        except (ValueError, KeyError) as error:
            raise misfit from error
        # Orbax gives back arrays as they lie on disk, even where the template asks for others.
        for name, template in templates.items():
            if jax.tree.map(jnp.shape, restored[name]) != jax.tree.map(jnp.shape, template):
                raise misfit
        return restored

    def _check_identity(self, step: int) -> None:
        restored = self._manager.restore(
            step, args=ocp.args.Composite(identity=ocp.args.JsonRestore())
        )["identity"]
        for name, value in self._identity.items():
            # One that was written before this was stamped is not refused for it.
            if restored.get(name, value) != value:
                raise ValueError(
                    f"the checkpoint {self._directory / str(step)} has {name} "
                    f"{restored[name]}, here it is {value}: it cannot be used with this one"
                )


_COUNTED = ("bad_steps", "skipped", "rewinds", "left_out")


def _progress(state: TrainState) -> dict[str, PyTree]:
    """All but the parameters."""
    values = state._asdict()
    return {name: values[name] for name in ("seed", "step", "opt_state", *_COUNTED)}


def _abstract(tree: PyTree) -> PyTree:
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
