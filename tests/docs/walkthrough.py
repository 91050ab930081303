"""The pages of docs/walkthrough: what their snippets print and draw, made anew or compared.

    python -m tests.docs.walkthrough             makes outputs and pictures, `make walkthrough`
    python -m tests.docs.walkthrough --check     compares, and changes nothing
    python -m tests.docs.walkthrough 03-attention.md     one page; the index trains the models

The pages are the only source. A fence that begins with `python` or `sh` is run, in the order of the
page; a fence `text` right below it is what it prints, and a linked PNG is what it writes:

    ```text                 words are equal; numbers, up to one in their last decimal
    ```text within=0.1      of a trained model: numbers with a point, up to so much

All runs in one directory, which holds the models of the index: `W` is that of the pages.
"""

import argparse
import contextlib
import io
import math
import os
import re
import shlex
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from tests.cli.command import command
from tests.docs.commands import REPOSITORY

PAGES = REPOSITORY / "docs" / "walkthrough"
INDEX = "README.md"
_FENCE = re.compile(r"^```(python|sh|text)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)")


class Snippet(NamedTuple):
    """A block to be run, and what the page says that it prints."""

    language: str  # "python" or "sh"
    code: str
    printed: str | None  # None: the page does not say
    within: float  # how far numbers with a point may be off; 0: one in the last decimal
    span: tuple[int, int]  # where `printed` stands in the page


def snippets(page: str) -> list[Snippet]:
    """Those of a page in their order.

    Raises:
      ValueError: a `text` has no code right above it.
    """
    found: list[Snippet] = []
    end = 0
    for fence in _FENCE.finditer(page):
        language, options, body = fence.groups()
        if language != "text":
            found.append(Snippet(language, body, None, 0.0, (0, 0)))
        elif not found or found[-1].printed is not None or page[end : fence.start()].strip():
            raise ValueError(f"an output without a snippet right above it: {body[:60]!r}")
        else:
            within = re.search(r"within=([\d.]+)", options)
            tolerance = float(within[1]) if within else 0.0
            found[-1] = found[-1]._replace(printed=body, within=tolerance, span=fence.span(3))
        end = fence.end()
    return found


def differences(said: str, printed: str, within: float) -> list[str]:
    """The lines in which what is printed is not what is said."""
    one, other = said.rstrip().split("\n"), printed.rstrip().split("\n")
    if len(one) != len(other):
        return [f"{len(one)} lines are said, {len(other)} are printed"]
    return [
        f"said:    {a}\nprinted: {b}"
        for a, b in zip(one, other, strict=True)
        if not _is_same(a, b, within)
    ]


def _is_same(said: str, printed: str, within: float) -> bool:
    # numpy leaves a place for a sign.
    words = [_NUMBER.sub("#", line).replace("[ ", "[").split() for line in (said, printed)]
    numbers = [_NUMBER.findall(line) for line in (said, printed)]
    return words[0] == words[1] and all(
        _is_near(a, b, within) for a, b in zip(*numbers, strict=True)
    )


def _is_near(said: str, printed: str, within: float) -> bool:
    decimals = [len(number.partition(".")[2]) for number in (said, printed)]
    if decimals[0] != decimals[1]:
        return False
    if decimals[0] == 0:
        return int(said) == int(printed)
    allowed = max(within, 10.0 ** -decimals[0])
    off = abs(float(said) - float(printed))
    return off <= allowed or math.isclose(off, allowed, rel_tol=1e-6)


def run_page(page: str, directory: Path, *, check: bool) -> tuple[str, list[str]]:
    """The page with what its snippets print, and what is wrong with it.

    Args:
      directory: where they run, and leave what they write.
      check: leave the page as it is, and say what differs.
    """
    names: dict = {"__name__": "__main__"}
    wrong: list[str] = []
    made = page
    # From the last to the first: what is put in moves only what stands behind it.
    for snippet, printed in reversed([*_run(page, directory, names)]):
        if snippet.printed is None:
            if snippet.language == "python" and printed:
                wrong.append(f"this prints what the page does not show:\n{snippet.code}{printed}")
        elif not printed:
            wrong.append(f"this prints nothing, and the page has room for it:\n{snippet.code}")
        elif check:
            wrong += differences(snippet.printed, printed, snippet.within)
        else:
            made = made[: snippet.span[0]] + printed + made[snippet.span[1] :]
    for name in _PICTURE.findall(page):
        if not (directory / name).exists():
            wrong.append(f"{name} is shown, and no snippet writes it")
    return made, wrong[::-1]


def _run(page: str, directory: Path, names: dict) -> Iterator[tuple[Snippet, str]]:
    """Each snippet, and what it prints."""
    for name in _PICTURE.findall(page):
        (directory / name).unlink(missing_ok=True)
    for snippet in snippets(page):
        stream = io.StringIO()
        with contextlib.chdir(directory), contextlib.redirect_stdout(stream):
            if snippet.language == "python":
                exec(compile(snippet.code, "<snippet>", "exec"), names)
            else:
                for line in snippet.code.replace("\\\n", " ").splitlines():
                    program, *arguments = shlex.split(line, comments=True)
                    if program != "t2t-jax":
                        raise ValueError(f"{line}: a snippet in sh has only t2t-jax")
                    done = command(*arguments)
                    if done.returncode != 0:
                        raise ValueError(f"{line}\n{done.stderr}")
                    print(done.stdout, end="")
        lines = [line.rstrip() for line in stream.getvalue().rstrip().split("\n")]
        yield snippet, "\n".join(lines) + "\n" if stream.getvalue().strip() else ""


def main(argv: Sequence[str]) -> int:
    """Makes or checks the pages; the number of those that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", help="by default all")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    parser.add_argument("--workdir", type=Path, default=REPOSITORY / "runs" / "walkthrough")
    flags = parser.parse_args(argv)
    directory = flags.workdir.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    # Snippets name these as they are named in a checkout.
    for name in ("configs", "tests"):
        if not (directory / name).exists():
            (directory / name).symlink_to(REPOSITORY / name)
    # The index first: its commands train what the others look at.
    pages = flags.pages or sorted(
        (path.name for path in PAGES.glob("*.md")), key=lambda name: (name != INDEX, name)
    )
    # A sentence that comes again is compiled once.
    jax.config.update("jax_compilation_cache_dir", str(directory / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    num_wrong = 0
    for name in pages:
        path = PAGES / name
        text = path.read_text("utf-8")
        started = time.monotonic()
        try:
            made, wrong = run_page(text, directory, check=flags.check)
        except Exception:
            made, wrong = text, [traceback.format_exc()]
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
        for each in wrong:
            print(f"{name}:\n{each}", flush=True)
        num_wrong += bool(wrong)
        if not flags.check and not wrong:
            path.write_text(made, "utf-8")
            for picture in _PICTURE.findall(text):
                shutil.copy(directory / picture, PAGES / picture)
    return num_wrong


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(min(1, main(sys.argv[1:])))
