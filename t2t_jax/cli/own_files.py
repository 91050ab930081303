"""Errors in the Python files that users write, in words."""

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

from t2t_jax.json_files import error_text


def described(error: BaseException, path: str) -> str:
    """Kind, message and line of an error in the file at `path`.

    If a library raised it anew, the error that left the file counts.
    """
    error = next((each for each in _behind(error) if _lines(each, path)), error)
    lines = [] if isinstance(error, SyntaxError) else _lines(error, path)  # its message has it
    where = f", line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}: {_message(error)}{where}"


def is_from(error: BaseException, path: str) -> bool:
    """Whether an error arose while Python read or executed the file at `path`."""
    of_syntax = isinstance(error, SyntaxError) and Path(error.filename or "") == Path(path)
    return of_syntax or any(_lines(each, path) for each in _behind(error))


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that were being handled when it was raised."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def _lines(error: BaseException, path: str) -> list[int | None]:
    """The lines of the file that the error passed through, the innermost last."""
    places = traceback.extract_tb(error.__traceback__)
    return [place.lineno for place in places if Path(place.filename).name == Path(path).name]


def _message(error: BaseException) -> str:
    said = error_text(error)
    # Of a ConfigDict, which lists all its values.
    if meant := re.search(r"Did you mean \W*(\w+)\W+ instead of \W*(\w+)", said):
        return f"there is no key {meant[2]} (did you mean {meant[1]}?)"
    if absent := re.search(r"Key \W*(\w+)\W+ does not exist and cannot be added", said):
        return f"there is no key {absent[1]}"
    return said.partition("\n")[0]
