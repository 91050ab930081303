"""Captured values of one row, as numpy arrays, under the names of `capture_modules`."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from t2t_jax.made_once import made_once
from t2t_jax.model.capture import capture_modules
from t2t_jax.model.interface import Model


class Heard:
    """The arrays of a forward pass over a single row, without their first axis.

    Args:
      captured: the result of `capture_modules`.
    """

    def __init__(self, captured: dict[str, tuple[Any, ...]]) -> None:
        self._captured = captured

    def __contains__(self, name: str) -> bool:
        return name in self._captured

    def array(self, name: str, call: int = -1) -> Float[np.ndarray, "..."]:
        """The array with this name; `call` selects among several calls of a module."""
        return row_of(self._captured[name][call])

    def value(self, name: str) -> Any:
        """The same for values that are no array, such as tuples of arrays."""
        return jax.tree.map(row_of, self._captured[name][-1])


def hear(model: Model, params: PyTree, *ids: list[int]) -> tuple[Float[np.ndarray, "..."], Heard]:
    """The logits of one row, and everything captured on the way."""
    rows = (np.asarray([row], np.int32) for row in ids)
    logits, captured = _compiled(model)(params, *rows)
    return row_of(logits), Heard(captured)


@made_once
def _compiled(model: Model) -> Callable:
    def forward(params: PyTree, *rows: Any) -> Any:
        return capture_modules(model, params, *rows, deterministic=True)

    return jax.jit(forward)


def row_of(array: Any) -> Float[np.ndarray, "..."]:
    """The only row of an array, in float32."""
    return np.asarray(array[0], np.float32)
