"""Checkpoints on disk, by Orbax: a train state and its description.

    STEP/params  STEP/progress     arrays
    STEP/about                     JSON, see About

Arrays are checked on reading against the checksums made on saving.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from t2t_jax import buckets, hosts
from t2t_jax.json_files import AnyPath, full_disk_told
from t2t_jax.training.about import About, DamagedError, facts_of_before, read_about
from t2t_jax.training.checksums import checksums
from t2t_jax.training.nonfinite import Diverged
from t2t_jax.training.orbax_errors import keep_threads_quiet, unreadable
from t2t_jax.training.step import TrainState, count_like
from t2t_jax.trees import first_few, path_name

_DAMAGED = "checkpoints_damaged"


class _Manager(ocp.CheckpointManager):
    def reached_preemption(self, step: int) -> bool:
        return False  # JAX counts the questions, and `hosts.stop_together` asks them


class _Newest(NamedTuple):
    """Which checkpoints Orbax keeps: the newest, and of those in turn as many less one.

    One saved out of turn has a place of its own; a second one, before the next in turn, must not
    displace one in turn.
    """

    number: int  # 2 or more
    out_of_turn: AbstractSet[int]  # as it is when asked

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        """Whether to keep each of the checkpoints, which are in order."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        in_turn = [step for step in steps if step not in self.out_of_turn]
        kept = {*steps[-self.number :], *in_turn[1 - self.number :]}
        return [step in kept for step in steps]


class Checkpoints:
    """The checkpoints of one run, one directory per step, written whole or not at all.

    Parameters are stored apart from the rest, so that decoding reads no optimizer state.

    Args:
      directory: created if missing.
      keep: how many of the last checkpoints to keep, at least 2; None keeps all.
      identity: what a checkpoint must match to be used, above all the fingerprint of its
        vocabulary; stored with each.
      config: of the run, dotted keys; stored with each.
      check_config: raises ValueError for the config of another run's checkpoint.
    """

    def __init__(
        self,
        directory: AnyPath,
        *,
        identity: Mapping[str, str],
        config: Mapping[str, Any] | None = None,
        check_config: Callable[[Mapping[str, Any]], None] = lambda config: None,
        keep: int | None = None,
    ) -> None:
        keep_threads_quiet()
        # Orbax leaves them behind where it cannot read a damaged file, or write to a full disk.
        left = "coroutine '(.*[._]metadata|async_serialize).*' was never awaited"
        warnings.filterwarnings("ignore", left, RuntimeWarning)
        self._directory = directory.resolve() if isinstance(directory, Path) else directory
        self._identity = dict(identity)
        self._config = dict(config or {})
        self._check_config = check_config
        self._out_of_turn: set[int] = set()
        self._damaged: list[DamagedError] = []
        self.restored: About | None = None  # of the checkpoint from `restore_last`
        self.seconds_in_turn = 0.0  # in the loop, at the last of its time that was saved in turn
        with full_disk_told(self._directory):
            self._manager = _Manager(
                self._directory,
                options=ocp.CheckpointManagerOptions(
                    preservation_policy=None if keep is None else _Newest(keep, self._out_of_turn),
                    create=True,
                    cleanup_tmp_directories=keep is not None,
                ),
                item_handlers={
                    "params": ocp.StandardCheckpointHandler(),
                    "progress": ocp.StandardCheckpointHandler(),
                    "about": ocp.JsonCheckpointHandler(),
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
        if kind is KeyboardInterrupt:
            return  # in haste: nobody waits for pending writes
        try:
            with full_disk_told(self._directory):
                self._manager.close()  # waits for pending writes
        except Exception:
            if error is None:  # else the first error is reported
                raise

    @property
    def directory(self) -> AnyPath:
        """The directory of the checkpoints."""
        return self._directory

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        return sorted(self._manager.all_steps())

    def save(
        self,
        state: TrainState,
        *,
        target_tokens: int = 0,
        seconds: float = 0.0,
        out_of_turn: bool = False,
    ) -> None:
        """Writes a checkpoint of `state` in the background, unless its step has one.

        Args:
          target_tokens: seen so far.
          seconds: in the loop so far.
          out_of_turn: remove it once there is a later one.

        Raises:
          Diverged: the state holds non-finite numbers; names the arrays.
          DiskFullError: no space, perhaps for the previous one; in words.
        """
        step = int(state.step)
        if step in self._manager.all_steps():
            return
        # Computed first, a few numbers per array, so that a broken state is never written.
        items = {"params": state.params, "progress": _progress(state)}
        found = checksums(_as_in_state(items))
        if found.not_finite:
            # Not caused by gradients, whose norm was checked, but perhaps by a learning rate near
            # the largest float.
            raise Diverged(
                f"diverged at step {step}: the state holds numbers that are not finite "
                f"({first_few(found.not_finite)}) and is not saved; a lower learning rate "
                "helps, in another --workdir"
            )
        about = About(
            facts=self._identity,
            config=self._config,
            step=step,
            target_tokens=target_tokens,
            seconds=seconds,
            out_of_turn=out_of_turn,
            shapes=_shapes(_as_in_state(items)),
            checksums=found.sums,
        )
        # Before the others make room for it.
        (self._out_of_turn.add if out_of_turn else self._out_of_turn.discard)(step)
        with full_disk_told(self._directory):
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    **{name: ocp.args.StandardSave(tree) for name, tree in items.items()},
                    about=ocp.args.JsonSave(about.values()),
                ),
            )

    def wait(self) -> None:
        """Waits for pending writes.

        Raises:
          DiskFullError: no space; in words.
        """
        with full_disk_told(self._directory):
            self._manager.wait_until_finished()

    def tidy(self) -> None:
        """Moves away the checkpoints that `restore_last` found damaged: their steps can be saved.

        Also waits for the last one and removes earlier ones saved out of turn: the average at the
        end is then the same as if the run had never been stopped.
        """
        self._set_aside()
        self._delete(self._out_of_turn.intersection(self.steps[:-1]))

    def delete_out_of_turn(self) -> None:
        """Removes all checkpoints saved out of turn, after waiting for pending writes."""
        self._delete(self._out_of_turn.intersection(self.steps))

    def _delete(self, steps: set[int]) -> None:
        for step in sorted(steps):
            self.wait()
            self._manager.delete(step)
            self._out_of_turn.remove(step)

    def restore_last(self, template: TrainState) -> TrainState | None:
        """The last whole checkpoint, laid out over devices like `template`; None if there is none.

        Its description is in `restored`. Later damaged ones are reported, and stay until `tidy`.

        Raises:
          ValueError: it belongs to another run, vocabulary or model, or all are damaged, or hosts
            see different ones.
        """
        self._damaged, self.restored = [], None
        for step in reversed(self._steps_of_all_hosts()):
            progress = _progress(template)
            try:
                about = self._about(step)
                counted = {name: count_like(progress.pop(name), 0) for name in self._lacks(about)}
                restored = self._restore(about, params=template.params, progress=progress)
            except DamagedError as error:
                self._damaged.append(error)
                continue
            for error in self._damaged:
                hosts.log(f"{error}: going on from that of step {step}")
            self.restored = about
            self._find_out_of_turn()
            return TrainState(params=restored["params"], **restored["progress"], **counted)
        if self._damaged:
            raise ValueError(
                f"{self._directory} has no whole checkpoint: {'; '.join(map(str, self._damaged))}; "
                "move it away to begin anew"
            )
        return None

    def restore_params(self, template: PyTree, average: int = 1, last: int | None = None) -> PyTree:
        """The mean parameters of the last `average` checkpoints, up to that of step `last`.

        Raises:
          ValueError: there are fewer, one is damaged or of another run, vocabulary or shape, or
            hosts see different ones.
        """
        steps = self._steps_of_all_hosts()
        if last is not None:
            if last not in steps:
                there = ", ".join(map(str, steps)) or "none"
                raise ValueError(
                    f"--checkpoint={last} is not in {self._directory}, there are: {there}"
                )
            steps = steps[: steps.index(last) + 1]
        if len(steps) < average:
            until = "" if last is None else f" up to step {last}"
            number = {0: "no checkpoint yet", 1: "one checkpoint"}.get(
                len(steps), f"{len(steps)} checkpoints"
            )
            needs = f"; decoding.average_checkpoints={average} needs {average}"
            raise ValueError(
                f"{self._directory} holds {number}{until}{needs if average > 1 else ''}"
            )
        total = None
        for place in range(len(steps) - average, len(steps)):
            try:
                about = self._about(steps[place])
                params = self._restore(about, params=template)["params"]
            except DamagedError as error:
                raise ValueError(f"{error}: {_way_out(steps, place, average)}") from error
            # Summed in float64, so that the mean does not lose precision with their number.
            addend = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
            total = addend if total is None else jax.tree.map(np.add, total, addend)
        return jax.tree.map(lambda leaf: (leaf / average).astype(np.float32), total)

    def _steps_of_all_hosts(self) -> list[int]:
        """The steps, after checking that all hosts see the same ones."""
        self._manager.wait_until_finished()
        steps = self.steps
        what = f"the list of checkpoints in {self._directory}, a disk that all hosts must share,"
        hosts.check_same(what, repr(steps).encode(), "give all hosts the same --workdir")
        return steps

    def _about(self, step: int) -> About:
        """The description of the checkpoint of `step`, which must belong to this run.

        Raises:
          DamagedError: it cannot be read.
          ValueError: it belongs to another run.
        """
        directory = self._directory / str(step)
        about = read_about(directory)
        if about is None:
            hosts.log(f"{directory} was written before checksums: nothing tells if it is whole")
            facts = facts_of_before(directory)
            about = About(facts, {}, step, None, None, False, {}, {})
        for name, value in self._identity.items():
            # Checkpoints from before this fact was stored are not refused.
            if about.facts.get(name, value) != value:
                raise ValueError(
                    f"the checkpoint {directory} has {name} {about.facts[name]}, here it is "
                    f"{value}: it cannot be used with this one"
                )
        if about.config:
            try:
                self._check_config(about.config)
            except ValueError as error:
                raise ValueError(f"the checkpoint {directory} is of another run: {error}") from None
        if about.step != step:
            raise ValueError(
                f"the checkpoint {directory} is one of step {about.step}: somebody has copied or "
                "renamed it; move it away"
            )
        return about

    def _restore(self, about: About, **templates: PyTree) -> Mapping[str, PyTree]:
        """The arrays of a checkpoint.

        Raises:
          DamagedError: they cannot be read, or are not what was saved.
          ValueError: they belong to a model of another shape.
        """
        directory = self._directory / str(about.step)
        self._check_shapes(about, directory, templates)
        arguments = {
            name: ocp.args.StandardRestore(_abstract(tree)) for name, tree in templates.items()
        }
        try:
            restored = self._manager.restore(about.step, args=ocp.args.Composite(**arguments))
        except (MemoryError, PermissionError, jax.errors.JaxRuntimeError):
            raise  # the checkpoint may be whole
        except Exception as error:
            if not about.checksums and isinstance(error, (ValueError, KeyError)):
                raise _misfit(directory) from error
            raise self._damage(directory, unreadable(directory, error)) from error
        # Orbax returns arrays as on disk, even if the template asks for others.
        if not about.checksums:
            for name, template in templates.items():
                if jax.tree.map(jnp.shape, restored[name]) != jax.tree.map(jnp.shape, template):
                    raise _misfit(directory)
            return restored
        found = checksums(_as_in_state(restored)).sums
        if wrong := [path for path in found if about.checksums.get(path) != found[path]]:
            raise DamagedError(directory, f"not what was saved: {first_few(wrong)}")
        return restored

    @staticmethod
    def _damage(directory: AnyPath, what: str) -> ValueError:
        """The error to raise for damage that perhaps only one host sees."""
        damaged = DamagedError(directory, what)
        if not hosts.are_several():
            return damaged
        # Others may wait for this host inside Orbax: it cannot ask them to take another checkpoint.
        return ValueError(f"{damaged}; move it away: the one before is taken then")

    def _lacks(self, about: About) -> list[str]:
        """The counts that did not exist when it was written, and so start anew."""
        directory = self._directory / str(about.step)
        try:
            known = about.shapes or self._manager.item_metadata(about.step)["progress"] or _COUNTED
        except (ValueError, KeyError, OSError) as error:
            raise DamagedError(directory, unreadable(directory, error)) from error
        return [name for name in _COUNTED if name not in known]

    def _check_shapes(
        self, about: About, directory: AnyPath, templates: Mapping[str, PyTree]
    ) -> None:
        if not about.shapes:
            return
        expected = _shapes(_as_in_state(templates))
        for path, shape in expected.items():
            if about.shapes.get(path) != shape:
                there = about.shapes.get(path, "not there")
                raise ValueError(
                    f"{_misfit(directory)}: {path} is {there}, where the model has {shape}"
                )

    def _find_out_of_turn(self) -> None:
        """Remembers which checkpoints were saved out of turn, and when the last other one was.

        Those after the restored one are damaged, and what comes next makes up for them.
        """
        for step in self.steps:
            try:
                about = read_about(self._directory / str(step))
            except DamagedError:
                continue
            if about is None:
                continue
            if about.out_of_turn:
                self._out_of_turn.add(step)
            elif self.restored is not None and step <= self.restored.step:
                self.seconds_in_turn = about.seconds or 0.0

    def _set_aside(self) -> None:
        """Moves damaged checkpoints beside the directory, without overwriting anything."""
        if not self._damaged:
            return
        if hosts.is_first():
            for error in self._damaged:
                aside = self._directory.with_name(_DAMAGED)
                aside.mkdir(exist_ok=True)
                name = error.directory.name
                names = itertools.chain([name], (f"{name}.{i}" for i in itertools.count(2)))
                place = next(aside / each for each in names if not (aside / each).exists())
                buckets.move(error.directory, place)
                hosts.log(f"{error.directory} lies in {place} now")
        hosts.wait("what is damaged is moved")
        self._damaged = []
        self._manager.reload()


def _way_out(steps: list[int], place: int, average: int) -> str:
    """Which flag avoids the damaged checkpoint at `place` of `steps`."""
    later = len(steps) - 1 - place
    if place >= average:
        return f"--checkpoint={steps[place - 1]} takes those before it"
    if later:
        return f"--config.decoding.average_checkpoints={later} averages only those after it"
    if place:
        return (
            f"--checkpoint={steps[place - 1]} --config.decoding.average_checkpoints={place} takes "
            "those before it"
        )
    return "there is none before it"


_COUNTED = ("bad_steps", "skipped", "rewinds", "left_out")


def _progress(state: TrainState) -> dict[str, PyTree]:
    """Everything but the parameters."""
    return {name: tree for name, tree in state._asdict().items() if name != "params"}


def _as_in_state(items: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """A checkpoint's items, or some of them, under their names in a state."""
    return {"params": items["params"], **items.get("progress", {})}


def _abstract(tree: PyTree) -> PyTree:
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)


def _shapes(tree: PyTree) -> dict[str, list[int]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): list(jnp.shape(leaf)) for path, leaf in leaves}


def _misfit(directory: AnyPath) -> ValueError:
    return ValueError(
        f"the checkpoint {directory} does not fit this model: its config has changed since, or it "
        "was written by another version"
    )
