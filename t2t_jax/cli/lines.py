"""Lines of standard input, and standard output; both are UTF-8 on every machine."""

import codecs
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator

from t2t_jax import hosts

# Read at once, sorted by length and written together. Enough for full batches of every length;
# few enough that memory stays flat and output comes soon.
BYTES_AT_ONCE = 1 << 19


def read_windows() -> Iterator[list[str]]:
    """The lines of standard input without line ends, some thousands at a time.

    The last line needs no line end.

    Raises:
      ValueError: standard input is closed. While reading: a line is not UTF-8 (raised after the
        lines before it were yielded), or other hosts got other lines.
    """
    if sys.stdin is None:
        raise ValueError("standard input is closed: give it lines, such as < sentences")
    return _windows(sys.stdin.buffer.readlines)


def _windows(readlines: Callable[[int], list[bytes]]) -> Iterator[list[str]]:
    num_before = 0
    num_bytes = BYTES_AT_ONCE
    while num_bytes >= BYTES_AT_ONCE:  # fewer: the last ones
        raw = readlines(BYTES_AT_ONCE)
        num_bytes = sum(map(len, raw))
        if raw and not num_before:
            raw[0] = raw[0].removeprefix(codecs.BOM_UTF8)  # as in files
        hosts.check_same("standard input", b"".join(raw), "give all the same lines")
        lines = []
        for line in raw:
            try:
                lines.append(line.decode("utf-8").removesuffix("\n").removesuffix("\r"))
            except UnicodeDecodeError as error:
                if lines:
                    yield lines
                number = num_before + len(lines) + 1
                raise ValueError(f"line {number} of the input is not UTF-8") from error
        if lines:
            yield lines
        num_before += len(lines)


@contextlib.contextmanager
def text_output() -> Iterator[io.TextIOWrapper]:
    """Standard output, flushed after every line.

    If its reader stops early, as `head` does, the program ends silently, with the exit code that a
    shell reports after SIGPIPE.

    Raises:
      ValueError: it is closed.
    """
    if sys.stdout is None:
        raise ValueError("standard output is closed: send it somewhere, such as > file")
    output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
    try:
        yield output
        output.flush()
    except BrokenPipeError as error:
        # Otherwise Python would try to write the rest again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        hosts.leave("t2t-jax: nobody reads standard output any more", error)
        sys.exit(128 + signal.SIGPIPE)
