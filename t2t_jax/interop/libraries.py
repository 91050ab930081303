"""The libraries of an extra, imported only when needed."""

import importlib
import os
from typing import Any

_LONGEST = 200  # characters of another library's message


def library(name: str, extra: str = "interop") -> Any:
    """The module `name`, from this project's `extra`.

    Raises:
      ValueError: it is not installed.
    """
    # It would warn about PyTorch, which is not needed to read files.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"this needs {name}, which cannot be imported ({error}): in a checkout of the code, "
            f"pip install -c constraints.txt -e '.[{extra}]'"
        ) from error


def in_one_line(error: Exception) -> str:
    """The beginning of a library's error message."""
    words = " ".join(str(error).split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
