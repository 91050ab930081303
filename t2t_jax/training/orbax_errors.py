"""Errors of Orbax and TensorStore, reported once and in one sentence."""

import functools
import logging
import re
import sys
from pathlib import Path
from typing import Any

from t2t_jax.json_files import AnyPath, no_space, read_json

_MOST_LETTERS = 200  # of a library's message
_TENSORSTORE = "[tensorstore_spec="  # its own words come before this


@functools.cache
def keep_threads_quiet() -> None:
    """Lets only the caller report an error; otherwise every Orbax thread does, with stacks.

    If an array cannot be read or written, other threads reply to an event loop already closed.
    """
    logging.getLogger("absl").addFilter(
        lambda entry: entry.levelno != logging.ERROR or "/orbax/" not in entry.pathname
    )
    # If a disk is full or several files are damaged, only the first is reported.
    logging.getLogger("asyncio").addFilter(
        lambda entry: (
            entry.exc_info is None
            or no_space(entry.exc_info[1]) is None
            and _TENSORSTORE not in str(entry.exc_info[1])
        )
    )
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        error = unraisable.exc_value
        if not isinstance(error, RuntimeError) or str(error) != "Event loop is closed":
            before(unraisable)

    sys.unraisablehook = hook


def unreadable(directory: AnyPath, error: Exception) -> str:
    """Which file of a checkpoint is unreadable; the library says so amid its settings."""
    said, is_of_arrays, _ = str(error).partition(_TENSORSTORE)
    if not isinstance(directory, Path):
        return f"it cannot be read ({_first_line(error)})"
    if not is_of_arrays:
        for name in ("params/_METADATA", "progress/_METADATA"):
            try:
                read_json(directory / name)
            except FileNotFoundError:
                return f"{name} is not there"
            except ValueError:
                return f"{name} is not what was written"
        return f"it cannot be read ({_first_line(error)})"
    # The outermost comes first: a database is a directory.
    path = Path([str(directory), *re.findall(r'local file "([^"]*)"', said)][-1])
    where = path.relative_to(directory) if path.is_relative_to(directory) else path
    if path.is_dir():
        return f"{where} lacks a file"
    return f"{where} is {'not what was written' if path.exists() else 'not there'}"


def _first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= _MOST_LETTERS else line[:_MOST_LETTERS] + "..."
