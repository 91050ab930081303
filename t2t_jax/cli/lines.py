"""Standard input as lines and standard output, both UTF-8 wherever they are."""

import io
import sys

from t2t_jax import hosts


def read_lines() -> list[str]:
    """The lines of standard input, without their ends; a last one needs none.

    Raises:
      ValueError: a line is not UTF-8, says which; or other hosts were given other lines.
    """
    data = sys.stdin.buffer.read()
    hosts.check_same("standard input", data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {number} of the input is not UTF-8") from error
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def text_output() -> io.TextIOWrapper:
    """Standard output, which every line reaches at once."""
    return io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
