"""Files that are there whole or not at all, JSON above all, in UTF-8 wherever they are read."""

import json
import math
import os
import socket
from pathlib import Path
from typing import Any


def write_json(path: Path, values: dict[str, Any], *, indent: int | None = 2) -> None:
    """Writes the whole file or nothing, as `write_bytes`.

    Without `indent` it is one line, for numbers that nobody reads. JSON knows no NaN and no
    infinity: null stands in their place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json_text(finite(values), indent=indent) + "\n").encode())


def json_text(values: Any, *, indent: int | None = None) -> str:
    """The values as JSON.

    Raises:
      ValueError: a number is not finite, which JSON cannot say.
    """
    return json.dumps(values, indent=indent, ensure_ascii=False, allow_nan=False)


def finite(values: Any) -> Any:
    """The values with None in the place of each number that is none, NaN or infinite."""
    match values:
        case dict():
            return {key: finite(value) for key, value in values.items()}
        case list() | tuple():
            return [finite(value) for value in values]
        case float() if not math.isfinite(values):
            return None
        case _:
            return values


def write_bytes(path: Path, content: bytes) -> None:
    """Writes the whole file or nothing: a killed process leaves no half of it."""
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    partial.write_bytes(content)
    os.replace(partial, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      ValueError: it is not a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no JSON object")
    return values


def flat_dict(values: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of nested objects, such as a config."""
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": leaf for inner, leaf in flat_dict(value).items()}
        else:
            flat[key] = value
    return flat
