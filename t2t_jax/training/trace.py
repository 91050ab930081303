"""A trace of some training steps, for TensorBoard's profiler or Perfetto."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax

from t2t_jax import buckets, hosts


class Steps(NamedTuple):
    """First and last step, counted from 1."""

    first: int
    last: int


def steps_of(text: str) -> Steps:
    """The steps written as a:b.

    Raises:
      ValueError: `text` is no such range.
    """
    found = re.fullmatch(r"(\d+):(\d+)", text)
    steps = Steps(*map(int, found.groups())) if found else Steps(0, 0)
    if not 1 <= steps.first <= steps.last:
        raise ValueError(
            f"--profile_steps={text} is no range of steps a:b, such as 10:12, counted from 1"
        )
    return steps


class Trace:
    """Writes a trace of `steps` to `directory`; does nothing if they are None."""

    def __init__(self, steps: Steps | None, directory: Path) -> None:
        self._steps, self._directory = steps, directory
        self._is_on = False

    def before(self, step: int) -> None:
        """Call this before the step with this number."""
        # It may be on already: a run that goes back to a checkpoint repeats steps.
        if self._steps is not None and step == self._steps.first and not self._is_on:
            jax.profiler.start_trace(str(self._directory))
            self._is_on = True

    def after(self, step: int, result: Any) -> None:
        """Call this after the step, with its result."""
        if self._is_on and self._steps is not None and step >= self._steps.last:
            jax.block_until_ready(result)
            self.close()

    def close(self) -> None:
        """Ends the trace, even before its last step."""
        if self._is_on:
            self._is_on = False
            jax.profiler.stop_trace()
            where = buckets.told(str(self._directory))
            hosts.log(f"the trace is in {where}; view it with tensorboard --logdir={where}")
