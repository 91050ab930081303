"""Reads tensors from *.safetensors files: they hold only numbers, so nothing is unpickled.

In: a directory in Hugging Face format. Out: float32 arrays by name, and an error for any tensor
that is missing, has another shape or is not used.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from t2t_jax.interop.libraries import library
from t2t_jax.json_files import read_json

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_DTYPES = ("F64", "F32", "F16", "BF16")


class Weights:
    """The tensors of one model, each taken once or ignored by name.

    Args:
      directory: holds `model.safetensors`, or several such files and their index.
      prefix: dropped from names; a model with a head has it before the names of the bare model.

    Raises:
      ValueError: there are no such files, or one cannot be read.
    """

    def __init__(self, directory: Path, prefix: str) -> None:
        self.directory = directory
        self._prefix = prefix
        # Plain name -> its file and its name there.
        self._places: dict[str, tuple[Path, str]] = {}
        for file in _files(directory):
            for name in _open(file).keys():
                self._places[_plain(name, prefix)] = (file, name)
        self._left = set(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that is there.

        Raises:
          ValueError: there is no tensor of this name.
        """
        file, stored_name = self._place(name)
        return tuple(_open(file).get_slice(stored_name).get_shape())

    def take(self, name: str, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
        """The tensor in float32; it now counts as used.

        Raises:
          ValueError: it is missing, has another shape, or does not hold floating-point numbers.
        """
        file, stored_name = self._place(name)
        found = self.shape(name)
        if found != shape:
            raise ValueError(
                f"{file}: the tensor {stored_name} has the shape {list(found)}; this model's "
                f"config.json wants {list(shape)}"
            )
        self._left.discard(name)
        return _read(file, stored_name)

    def take_one_of(self, names: Sequence[str], shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
        """The tensor that a model has under several names, any of which may be in the file.

        Raises:
          ValueError: as `take`.
        """
        there = [name for name in names if name in self] or names
        for name in there[1:]:
            self._left.discard(name)
        return self.take(there[0], shape)

    def ignore(self, pattern: str) -> None:
        """Counts every tensor whose full name matches `pattern` as used."""
        self._left = {name for name in self._left if not re.fullmatch(pattern, name)}

    def check_all_used(self) -> None:
        """Raises ValueError if a tensor was neither taken nor ignored."""
        if self._left:
            name = min(self._left)
            more = f" (and {len(self._left) - 1} more)" if len(self._left) > 1 else ""
            raise ValueError(
                f"{self.directory}: the tensor {name} of shape {list(self.shape(name))}{more} has "
                "no place in a model of this config.json"
            )

    def _place(self, name: str) -> tuple[Path, str]:
        if name not in self._places:
            raise ValueError(f"{self.directory}: the tensor {name} is missing")
        return self._places[name]


def _plain(name: str, prefix: str) -> str:
    """The name without `prefix`, and with today's names for the two vectors of a layer norm."""
    name = name.removeprefix(prefix)
    if "LayerNorm." in name:
        name = name.removesuffix("gamma") + "weight" if name.endswith("gamma") else name
        name = name.removesuffix("beta") + "bias" if name.endswith("beta") else name
    return name


def _files(directory: Path) -> Iterable[Path]:
    """The files; raises ValueError if there are none, or if the index names a missing one."""
    if (directory / _SINGLE).is_file():
        return [directory / _SINGLE]
    if (index := directory / _INDEX).is_file():
        weight_map: Any = read_json(index).get("weight_map")
        found = weight_map.values() if isinstance(weight_map, dict) else []
        for name in found:
            # An index could name any file on the machine.
            if not isinstance(name, str) or Path(name).name != name:
                raise ValueError(f"{index}: {name!r} is not the name of a file in {directory}")
        names = sorted(set(found))
        for name in names:
            if not (directory / name).is_file():
                raise ValueError(f"{index} names {name}, which is missing in {directory}")
        if not names:
            raise ValueError(f"{index} has no weight_map of tensors to files")
        return [directory / name for name in names]
    pickled = sorted(path.name for path in directory.glob("*.bin"))
    if pickled:
        raise ValueError(
            f"{directory} has its weights only in {pickled[0]}, a pickle file, which could run any "
            f"code when it is read: convert it to {_SINGLE} first"
        )
    raise ValueError(f"{directory} holds no {_SINGLE}")


def _open(file: Path) -> Any:
    safetensors = library("safetensors")
    try:
        return safetensors.safe_open(file, framework="numpy")
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _read(file: Path, name: str) -> Float[np.ndarray, "..."]:
    dtype = _open(file).get_slice(name).get_dtype()
    if dtype not in _DTYPES:
        raise ValueError(f"{file}: the tensor {name} is {dtype}, none of {', '.join(_DTYPES)}")
    # numpy has no bfloat16.
    framework = "flax" if dtype == "BF16" else "numpy"
    with library("safetensors").safe_open(file, framework=framework) as opened:
        return np.asarray(jnp.asarray(opened.get_tensor(name)).astype(jnp.float32))
