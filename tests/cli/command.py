"""Runs the command, in this process or as a user would."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import grain  # noqa: F401, which defines flags when it is imported, and needs them from then on
from absl import app, flags

from t2t_jax.cli.main import main

REPOSITORY = Path(__file__).parents[2]


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def command(*arguments: str, text: str = "") -> Done:
    """`t2t-jax ARGUMENTS < text` without the seconds that a new process imports for."""
    return in_this_process(main, "t2t-jax", *arguments, text=text)


def in_this_process(function: Callable[[], Any], *argv: str, text: str = "") -> Done:
    """What `function` does as the main program with these arguments.

    A traceback would not end in the standard error: the exception leaves this function.
    """
    app.define_help_flags()
    defined_before = set(flags.FLAGS)
    stdout, stderr = _Stream(), _Stream()
    returncode = 0
    with (
        # What this process compiles from here on is not to be kept.
        mock.patch.dict(os.environ, JAX_COMPILATION_CACHE_DIR=""),
        mock.patch.multiple(sys, argv=list(argv), stdin=_Stream(text), path=[*sys.path]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        warnings.catch_warnings(),
    ):
        # As Python does by itself; ml_collections loads its files in a deprecated way.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            function()
        except SystemExit as stop:
            returncode = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
        finally:
            for name in set(flags.FLAGS) - defined_before:
                delattr(flags.FLAGS, name)
    return Done(returncode, stdout.text(), stderr.text())


def module(name: str, *arguments: str) -> Done:
    """`python -m NAME ARGUMENTS`, of a module that this process may have imported before."""

    def run() -> None:
        # Which is no harm: it is run anew, as __main__.
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return in_this_process(run, name, *arguments)


def process(*arguments: str, text: str = "") -> Done:
    """`t2t-jax ARGUMENTS < text`."""
    done = subprocess.run(
        [sys.executable, "-m", "t2t_jax.cli.main", *arguments],
        cwd=REPOSITORY,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class _Bytes(io.BytesIO):
    def close(self) -> None:
        """Is left to its last user: who wrapped it would close it too."""


class _Stream(io.TextIOWrapper):
    """A standard stream, with its bytes beneath."""

    def __init__(self, text: str = "") -> None:
        super().__init__(_Bytes(text.encode()), encoding="utf-8", write_through=True)

    def text(self) -> str:
        return self.buffer.getvalue().decode()
