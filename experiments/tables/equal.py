"""What rows of a table have equal to base, if anything: tokens, operations or seconds.

In: a row and a number of updates. Out: the same row, its training stretched to that many updates.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ml_collections import ConfigDict

from experiments.tables.ablation import AnyConfig, Row

Equal = Literal["steps", "tokens", "flops", "seconds"]
EQUALS: tuple[Equal, ...] = get_args(Equal)

# Stretched in proportion to the training.
_INTERVALS = ("warmup_steps", "evaluate_every_steps", "checkpoint_every_steps")
STRETCHED = {f"training.{name}" for name in ("steps", *_INTERVALS, "learning_rate_scale")}


def stretched(row: Row, base: ConfigDict, steps: int) -> Row:
    """The row trained for `steps` updates, on the same curve of rates and evaluated as often.

    Raises:
      ValueError: too few updates.
    """
    if steps < 2:
        raise ValueError(
            f"row {row.name}: base's budget allows {steps} of its updates, and 2 are the least"
        )
    training = _of_training(row.config(base))
    ratio = steps / training["steps"]
    new = {"steps": steps}
    new |= {name: max(1, round(training[name] * ratio)) for name in _INTERVALS}
    if training.get("checkpoint_every_minutes"):  # which the steps are not read beside
        del new["checkpoint_every_steps"]
    new["warmup_steps"] = min(new["warmup_steps"], steps - 1)
    if training["schedule"] == "paper":  # its peak follows from the warm-up
        peak = math.sqrt(new["warmup_steps"] / training["warmup_steps"])
        new["learning_rate_scale"] = training["learning_rate_scale"] * peak
    changed = {f"training.{key}": value for key, value in new.items() if value != training[key]}
    return row._replace(changes={**row.changes, **changed})


def is_stretched(row: Row, changes: Mapping[str, Any]) -> bool:
    """Whether these are the changes of the row, apart from those by `stretched`."""
    return _rest(row.changes) == _rest(changes)


def _of_training(config: AnyConfig) -> dict[str, Any]:
    return config.training.to_dict()


def _rest(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in changes.items() if key not in STRETCHED}
