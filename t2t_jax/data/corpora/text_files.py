"""Parallel text files: line n of each of them is example n.

Only a line feed ends a line; a carriage return before it is removed, and so is a byte order mark at
the start of the file. Decoding is costly: `read_chunks` only splits bytes into lines, so that
`LineChunk.decode` can run in other processes, and `check_file` decodes whole blocks, not lines.
"""

import codecs
import contextlib
import gzip
import hashlib
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Large enough to make Python's overhead small, small enough for a processor's cache.
_BLOCK_BYTES = 1 << 17
# Used where any number would do.
LINES_AT_ONCE = 1_000
_NAMES_SHOWN = 20


class UnreadableError(ValueError):
    """A file cannot be read; another time it may be."""


class LineChunk(NamedTuple):
    """The same lines of every file, undecoded; picklable."""

    files: tuple[Path, ...]
    first_line: int  # counted from 1
    blocks: tuple[bytes, ...]  # one per file, line feeds included

    def decode(self) -> list[tuple[str, ...]]:
        """One tuple per line, with one string per file.

        Raises:
          ValueError: a line is not UTF-8.
        """
        try:
            return list(zip(*map(_decoded_lines, self.blocks), strict=True))
        except UnicodeDecodeError as error:
            raise ValueError(_first_mistake(self)) from error


def find_file(directory: str, name: str, split: str) -> Path:
    """`name` in `directory`, or else `name`.gz.

    Raises:
      ValueError: neither exists, or one is not a file.
    """
    folder = Path(os.path.expanduser(directory))
    try:
        if not folder.is_dir():
            raise ValueError(
                f"{folder}, which data.directory or data.mixture names, is not an existing "
                "directory"
            )
        files = (folder / name, folder / f"{name}.gz")
        if found := next(filter(Path.is_file, files), None):
            return found
        for file in files:
            if file.is_dir():
                raise ValueError(f"{file} is a directory: it must be a text file")
            if os.path.lexists(file):
                raise ValueError(
                    f"{file} is a broken link, a pipe or a device: it must be a text file"
                )
    except OSError as error:
        raise UnreadableError(f"{folder / name} cannot be read: {error.strerror}") from error
    there = ", ".join(names_in(directory)[:_NAMES_SHOWN]) or "no other file"
    raise ValueError(
        f"no {split} split in {folder}: neither {name} nor {name}.gz is there, but {there}; "
        f"data.{split} must be the file name without its ending"
    )


def names_in(directory: str) -> list[str]:
    """The names of the files in a directory, sorted; none if it cannot be read."""
    try:
        with os.scandir(os.path.expanduser(directory)) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except OSError:
        return []


def unused_twin(file: Path) -> Path | None:
    """The gzipped file beside a plain one, which `find_file` ignores."""
    twin = file.with_name(f"{file.name}.gz")
    return twin if twin.is_file() else None


def read_chunks(files: Iterable[Path], lines_per_chunk: int) -> Iterator[LineChunk]:
    """All lines of the files, `lines_per_chunk` at a time.

    Raises:
      ValueError: a file is empty, damaged or cannot be read; one has more lines than the other
        (found at the end of the shorter one).
    """
    files = tuple(files)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(contextlib.closing(_Reader(file))) for file in files]
        num_lines = lines_per_chunk
        first_line = 1
        while num_lines == lines_per_chunk:
            columns = [reader.take(lines_per_chunk) for reader in readers]
            num_lines = min(map(len, columns))
            if num_lines > 0:
                blocks = tuple(b"".join(lines[:num_lines]) for lines in columns)
                yield LineChunk(files, first_line, blocks)
            first_line += num_lines
        check_counts(files, [reader.count() for reader in readers])


def check_file(file: Path) -> int:
    """Reads a whole file and returns how many lines it has.

    Raises:
      ValueError: the file is damaged, cannot be read or is not UTF-8; every line has a NUL.
    """
    num_line_feeds = 0
    has_nul = False
    last_block = b""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        with contextlib.closing(_open(file)) as stream:
            while block := stream.read(_BLOCK_BYTES):
                decode(block)
                num_line_feeds += block.count(b"\n")
                has_nul = has_nul or b"\0" in block
                last_block = block
        decode(b"", final=True)
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        for chunk in read_chunks([file], LINES_AT_ONCE):  # slower, but its errors name the line
            chunk.decode()
        raise UnreadableError(f"{file} cannot be read: {error}") from error  # the first time
    if has_nul and _every_line_has_a_nul(file):
        raise ValueError(f"{file} has a NUL in every line, as UTF-16 has: text must be UTF-8")
    return num_line_feeds + (last_block != b"" and not last_block.endswith(b"\n"))


def count_lines(file: Path) -> int:
    """How many lines a file has.

    Raises:
      ValueError: the file is damaged or cannot be read.
    """
    with contextlib.closing(_Reader(file)) as reader:
        return reader.count()


def check_counts(files: Iterable[Path], counts: list[int]) -> None:
    """Checks that parallel files have lines, and equally many.

    Raises:
      ValueError: they do not.
    """
    for file, count in zip(files, counts, strict=True):
        if count == 0:
            raise ValueError(f"{file} is empty: one line for each example is expected")
    if len(set(counts)) > 1:
        (first, second), (num_first, num_second) = files, counts
        longer = first if num_first > num_second else second
        raise ValueError(
            f"{first} has {num_first:,} lines, {second} has {num_second:,}: line "
            f"{min(counts) + 1:,} of {longer.name} has no partner"
        )


def file_sha256(file: Path) -> str:
    """Hexadecimal sha256 of a file's bytes.

    Raises:
      ValueError: the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableError(f"{file} cannot be read: {error.strerror}") from error


class _Reader:
    """The lines of a file, as bytes; errors name the file and how far it was read."""

    def __init__(self, file: Path) -> None:
        self.num_lines = 0  # taken so far
        self._file = file
        with self._errors_in_words():
            self._stream = _open(file)

    def take(self, num_lines: int) -> list[bytes]:
        """The next lines, fewer at the end of the file."""
        lines: list[bytes] = []
        with self._errors_in_words():
            try:
                lines.extend(itertools.islice(self._stream, num_lines))
            finally:
                self.num_lines += len(lines)
        return lines

    def count(self) -> int:
        """How many lines the file has; takes all remaining ones."""
        while self.take(LINES_AT_ONCE):
            pass
        return self.num_lines

    def close(self) -> None:
        self._stream.close()

    @contextlib.contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{self._file}, after line {self.num_lines:,}: damaged gzip file ({error})"
            ) from error
        except OSError as error:
            raise UnreadableError(f"{self._file} cannot be read: {error.strerror}") from error


def _open(file: Path) -> io.BufferedIOBase:
    """The bytes after the byte order mark."""
    # Buffered again, because GzipFile runs Python code for every line.
    plain_or_gzip = gzip.open(file) if file.suffix == ".gz" else file.open("rb", buffering=0)
    stream = io.BufferedReader(cast(io.RawIOBase, plain_or_gzip), _BLOCK_BYTES)
    try:
        if stream.read(len(_BYTE_ORDER_MARK)) != _BYTE_ORDER_MARK:
            stream.seek(0)
    except BaseException:
        stream.close()
        raise
    return stream


def _decoded_lines(block: bytes) -> list[str]:
    text = block.decode("utf-8")
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _first_mistake(chunk: LineChunk) -> str:
    """The first line of any file that is not UTF-8, in words."""
    mistakes = []
    for number, block in enumerate(chunk.blocks):
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = chunk.first_line + block.count(b"\n", 0, error.start)
            position = error.start - (block.rfind(b"\n", 0, error.start) + 1)
            mistakes.append((line, number, f"byte 0x{block[error.start]:02x}", position))
    line, number, byte, position = min(mistakes)
    return (
        f"{chunk.files[number]}, line {line:,}: not UTF-8 ({byte} at position {position}), as "
        "text must be"
    )


def _every_line_has_a_nul(file: Path) -> bool:
    with contextlib.closing(_Reader(file)) as reader:
        while lines := reader.take(LINES_AT_ONCE):
            if not all(b"\0" in line for line in lines):
                return False
    return True
