"""Files written whole or not at all, mostly JSON; always in UTF-8."""

import contextlib
import errno
import json
import math
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

# Errors that more space, or a higher limit, would fix.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Of files that may also be in a bucket: paths of etils are like pathlib's in all but their class.
if TYPE_CHECKING:
    AnyPath = Path
else:
    AnyPath = PurePath


class DiskFullError(OSError):
    """A file cannot be written for lack of space."""


def error_text(error: BaseException) -> str:
    """An error in words: where the system names a file, the file before the reason."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    file = error.filename2 or error.filename
    return error.strerror if file is None else f"{file}: {error.strerror}"


def write_json(path: Path, values: dict[str, Any], *, indent: int | None = 2) -> None:
    """Writes the whole file or nothing, like `write_bytes`.

    Without `indent`, it is one line, for numbers that nobody reads. JSON has no NaN and no
    infinity: they become null.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json_text(finite(values), indent=indent) + "\n").encode())


def json_text(values: Any, *, indent: int | None = None) -> str:
    """The values as JSON.

    Raises:
      ValueError: a number is not finite, which JSON cannot express.
    """
    return json.dumps(values, indent=indent, ensure_ascii=False, allow_nan=False)


def finite(values: Any) -> Any:
    """The values with each NaN or infinite number replaced by None."""
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
    """Writes the whole file or nothing, even if the process is killed or the machine lost.

    Raises:
      DiskFullError: no space; in words.
    """
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    with full_disk_told(path):
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if isinstance(error, OSError) and str(error.filename) == str(partial):
                error.filename = str(path)
            raise
        _sync_directory(path.parent)


@contextlib.contextmanager
def full_disk_told(path: AnyPath) -> Iterator[None]:
    """Says in one sentence that `path` cannot be written for lack of space, and what to do.

    Raises:
      DiskFullError: an error inside was caused by it; other errors pass unchanged.
    """
    try:
        yield
    except DiskFullError:
        raise
    except Exception as error:
        words = no_space(error)
        if words is None:
            raise
        raise DiskFullError(
            f"{path} cannot be written ({words}{_space_left(path)}): make room, then the same "
            "command goes on from what is whole"
        ) from error


def _space_left(path: AnyPath) -> str:
    if not isinstance(path, Path):
        return ""  # in a bucket
    there = next(each for each in (path, *path.parents) if each.exists())
    return f"; its disk has {shutil.disk_usage(there).free / 2**20:,.1f} MiB left"


def no_space(error: BaseException | None) -> str | None:
    """The system's message about a full disk, if that caused `error`."""
    while error is not None:
        for number in NO_SPACE:
            # C++ libraries include the system's message in their own.
            if getattr(error, "errno", None) == number or os.strerror(number) in str(error):
                return os.strerror(number)
        error = error.__cause__ or error.__context__
    return None


def _sync_directory(directory: Path) -> None:
    """Forces the names in a directory to disk, if the system can."""
    with contextlib.suppress(OSError):  # some network disks refuse it
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(path: AnyPath) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      ValueError: it is not a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} is damaged, it is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged, it holds no JSON object")
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
