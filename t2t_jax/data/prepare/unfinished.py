"""A prepared corpus under construction: chunks, once added, survive a kill.

The arrays grow chunk by chunk in a directory with a fixed name. A journal has a line for each
completely written chunk, with the sizes of the arrays after it and a checksum. A later process
cuts off anything without a line and continues. Only one process at a time does: it holds a
lock, which the operating system releases if the process dies.
"""

import contextlib
import errno
import fcntl
import io
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_jax.data.prepare.tokenise import Side, Tokenised
from t2t_jax.json_files import NO_SPACE, DiskFullError
from t2t_jax.locks import told_waiting

ARRAYS = ("source_ids", "source_offsets", "target_ids", "target_offsets")
WHAT_IS_LEFT = "finished work is kept; run the same command again to resume"
_JOURNAL = "journal.jsonl"
# On NFS, a file open here is stale after another machine removes it.
_HAS_GONE = (errno.ENOENT, errno.ESTALE)


class Entry(NamedTuple):
    """The journal's line for a chunk."""

    split: str
    corpus: int  # of a mixture, counted from 0
    num_examples: int  # in the chunk, before any was dropped
    num_pairs: int  # kept
    dropped: dict[str, int]
    num_bytes: tuple[int, ...]  # of each of ARRAYS after this chunk
    crc32: int  # of the fields above, and of the bytes this chunk added to the arrays

    @property
    def crc32_of_fields(self) -> int:
        """Of the fields above: what the checksum of the bytes begins with."""
        return zlib.crc32(json.dumps(self[:-1]).encode())


def array_file(directory: Path, split: str, name: str) -> Path:
    """Where an array is, or will be."""
    return directory / f"{split}.{name}.bin"


class Unfinished:
    """The growing arrays in `directory`; use it in a `with` statement.

    Args:
      identity: of the contents; arrays begun with another identity are discarded.
      bytes_per_id: 2 or 4.

    Raises:
      OSError: a file cannot be written; in words.
    """

    def __init__(self, directory: Path, identity: dict[str, Any], bytes_per_id: int) -> None:
        self._directory = directory
        self._bytes_per_id = bytes_per_id
        self.entries = _whole_entries(directory, identity)
        self._journal = directory / _JOURNAL
        self._split = None
        self._streams: list[io.FileIO] = []
        self._num_bytes = (0,) * len(ARRAYS)
        lines = [identity, *(entry._asdict() for entry in self.entries)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_whole(self._journal, text.encode("utf-8"))

    def __enter__(self) -> "Unfinished":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.close()

    def of(self, split: str, corpus: int) -> list[Entry]:
        """The chunks of a corpus that are already there, in order."""
        return [entry for entry in self.entries if entry[:2] == (split, corpus)]

    def add(self, split: str, corpus: int, chunk: Tokenised) -> None:
        """Appends a chunk to a split; splits are written one after the other."""
        if split != self._split:
            self._begin(split)
        source = self._ids_and_offsets(chunk.source, self._num_bytes[:2])
        parts = source + self._ids_and_offsets(chunk.target, self._num_bytes[2:])
        sizes = zip(self._num_bytes, map(len, parts), strict=True)
        self._num_bytes = tuple(before + added for before, added in sizes)
        entry = Entry(
            split=split,
            corpus=corpus,
            num_examples=chunk.num_examples,
            num_pairs=len(chunk.source.lengths),
            dropped=chunk.dropped,
            num_bytes=self._num_bytes,
            crc32=0,
        )
        crc32 = entry.crc32_of_fields
        ends = zip(ARRAYS, self._streams, parts, self._num_bytes, strict=True)
        for name, stream, part, num_bytes in ends:
            file = array_file(self._directory, split, name)
            with writing(file):
                _write_all(stream, part)
            if part and stream.tell() != num_bytes:
                raise OSError(
                    f"another process writes to {file}: the locks of this disk do not reach "
                    "beyond a machine; name another directory as data.cache, or prepare once first"
                )
            crc32 = zlib.crc32(part, crc32)
        entry = entry._replace(crc32=crc32)
        with writing(self._journal), self._journal.open("ab", buffering=0) as stream:
            _write_all(stream, json.dumps(entry._asdict()).encode("utf-8") + b"\n")
        self.entries.append(entry)

    def _begin(self, split: str) -> None:
        for stream in self._streams:
            stream.close()
        self._split = split
        there = [entry.num_bytes for entry in self.entries if entry.split == split]
        self._num_bytes = there[-1] if there else (0,) * len(ARRAYS)
        self._streams = []
        for name, num_bytes in zip(ARRAYS, self._num_bytes, strict=True):
            file = array_file(self._directory, split, name)
            with writing(file):
                self._streams.append(file.open("ab", buffering=0))
                self._streams[-1].truncate(num_bytes)

    def _ids_and_offsets(self, side: Side, num_bytes: tuple[int, ...]) -> tuple[bytes, bytes]:
        """The bytes to append to a side's two arrays, which have `num_bytes` so far."""
        num_ids, num_offset_bytes = num_bytes[0] // self._bytes_per_id, num_bytes[1]
        first = [] if num_offset_bytes else [0]
        offsets = np.concatenate([first, num_ids + np.cumsum(side.lengths)]).astype(np.int64)
        return side.ids, offsets.tobytes()


def finish(directory: Path, final: Path) -> None:
    """Renames a complete directory to its final name; after a power cut it is still complete."""
    with writing(directory):
        for file in directory.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        directory.rename(final)
        (final / _JOURNAL).unlink()


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file atomically.

    Raises:
      OSError: it cannot be written; in words.
    """
    aside = file.with_name(f".{file.name}.aside")
    with writing(file):
        with aside.open("wb", buffering=0) as stream:
            _write_all(stream, content)
            os.fsync(stream.fileno())
        aside.replace(file)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Rewords errors: that `path` cannot be written, why, and that finished work is kept."""
    try:
        yield
    except DiskFullError as error:  # in words already, without a number
        raise OSError(f"{error}: {WHAT_IS_LEFT}") from error
    except OSError as error:
        when = " once there is space" if error.errno in NO_SPACE else ""
        raise OSError(
            f"{path} cannot be written ({error.strerror}): {WHAT_IS_LEFT}{when}"
        ) from error


@contextlib.contextmanager
def only_one_process(lock: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Lets one process in at a time; the others wait.

    Raises:
      OSError: the file `lock` cannot be created or locked.
    """
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            stream = lock.open("w")
        except OSError as error:
            raise OSError(
                f"{lock.parent} cannot be written ({error.strerror}): name another directory with "
                "data.cache or T2T_JAX_CACHE"
            ) from error
        with stream:
            _wait_for(stream, lock, log)
            # The last holder may have removed its file, and the next made another.
            if not _is_at(stream, lock):
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _wait_for(stream: io.TextIOWrapper, lock: Path, log: Callable[[str], None]) -> None:
    try:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with told_waiting("another process is preparing this corpus", log):
                fcntl.flock(stream, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno in _HAS_GONE:
            return
        raise OSError(
            f"{lock} cannot be locked ({error.strerror}): name another directory as data.cache"
        ) from error


def _is_at(stream: io.TextIOWrapper, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except OSError as error:
        if error.errno not in _HAS_GONE:
            raise
        return False


def begun_with(directory: Path) -> dict[str, Any]:
    """The identity of the arrays that were begun in a directory; empty if it cannot be read."""
    try:
        first, *_ = (directory / _JOURNAL).read_bytes().split(b"\n")
        found = json.loads(first)
    except (FileNotFoundError, ValueError):  # no line, or one torn by a power cut
        return {}
    return found if isinstance(found, dict) else {}


def _whole_entries(directory: Path, identity: dict[str, Any]) -> list[Entry]:
    """The chunks in the journal that are as they were written, with their bytes in the arrays."""
    if begun_with(directory) != identity:
        return []
    entries = []
    for line in (directory / _JOURNAL).read_bytes().split(b"\n")[1:-1]:
        try:
            values = json.loads(line)
            entry = Entry(**values | {"num_bytes": tuple(values["num_bytes"])})
            if len(entry.num_bytes) != len(ARRAYS):
                break
            entries.append(entry)
        except (KeyError, TypeError, ValueError):  # damaged
            break
    whole = []
    for split, of_split in itertools.groupby(entries, lambda entry: entry.split):
        of_split = list(of_split)
        whole_of_split = list(_in_the_arrays(directory, split, of_split))
        whole += whole_of_split
        if len(whole_of_split) < len(of_split):
            break
    return whole


def _in_the_arrays(directory: Path, split: str, entries: Iterable[Entry]) -> Iterator[Entry]:
    with contextlib.ExitStack() as stack:
        try:
            files = [array_file(directory, split, name) for name in ARRAYS]
            streams = [stack.enter_context(file.open("rb")) for file in files]
        except FileNotFoundError:
            return
        for entry in entries:
            crc32 = entry.crc32_of_fields
            for stream, num_bytes in zip(streams, entry.num_bytes, strict=True):
                crc32 = zlib.crc32(stream.read(max(0, num_bytes - stream.tell())), crc32)
            if crc32 != entry.crc32:
                return
            yield entry


def _write_all(stream: io.FileIO, content: bytes) -> None:
    # A raw stream may write only a part; a buffered one would fail again on closing.
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]
