"""A trace of some steps of a training, for TensorBoard's or Perfetto's profiler."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax

from t2t_jax import hosts


class Steps(NamedTuple):
    """The first and the last of them, counted from 1."""

    first: int
    last: int


def steps_of(text: str) -> Steps:
    """Those that a person writes as a:b.

    Raises:
      ValueError: it is no such range.
    """
    found = re.fullmatch(r"(\d+):(\d+)", text)
    steps = Steps(*map(int, found.groups())) if found else Steps(0, 0)
    if not 1 <= steps.first <= steps.last:
        raise ValueError(
            f"--profile_steps={text} is no range of steps a:b, such as 10:12, counted from 1"
        )
    return steps


class Trace:
    """Written to `directory` while the steps are made; of none, nothing is done."""

    def __init__(self, steps: Steps | None, directory: Path) -> None:
        self._steps, self._directory = steps, directory
        self._is_on = False

    def before(self, step: int) -> None:
        """Is told that the step of this number comes next."""
        if self._steps is not None and step == self._steps.first:
            jax.profiler.start_trace(str(self._directory))
            self._is_on = True

    def after(self, step: int, result: Any) -> None:
        """Is told what the step gave."""
        if self._is_on and self._steps is not None and step >= self._steps.last:
            jax.block_until_ready(result)
            self.close()

    def close(self) -> None:
        """Ends the trace, also one that has not come to its last step."""
        if self._is_on:
            self._is_on = False
            jax.profiler.stop_trace()
            hosts.log(f"a trace of the steps lies in {self._directory}: tensorboard --logdir")
