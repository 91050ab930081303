"""The help of every command, which does not wait for heavy libraries."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import experiments.benchmarks
import experiments.inspect
from experiments.report import __main__ as command
from experiments.report import report

_HEAVY = ("jax", "flax", "optax", "orbax", "sentencepiece", "sacrebleu", "scipy", "matplotlib")


def _starts_by_itself(room, file):
    path = Path(room.__path__[0], f"{file.name}.py")
    return file.name != "__main__" and path.exists() and "__main__" in path.read_text("utf-8")


_COMMANDS = (
    *(
        f"experiments.{name}"
        for name in (
            *("benchmarks", "quickstart", "report", "report.evidence", "report.export"),
            *("run", "speedrun", "speedrun.records", "sweep"),
        )
    ),
    *(
        f"{room.__name__}.{file.name}"
        for room in (experiments.benchmarks, experiments.inspect)
        for file in pkgutil.iter_modules(room.__path__)
        if _starts_by_itself(room, file)
    ),
)
_CODE = """
import runpy, sys
sys.argv[1:] = ["--help"]
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
finally:
    print([name for name in %r if name in sys.modules])
"""


@pytest.mark.parametrize("name", _COMMANDS)
def test_help_waits_for_no_library_that_is_heavy(name):
    code = f"import sys; sys.argv[0] = {name!r}\n{_CODE % (_HEAVY,)}"
    arguments = [sys.executable, "-c", code]
    found = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert f"python -m {name}" in found.stdout, found.stderr
    assert found.stdout.splitlines()[-1] == "[]"
    assert found.returncode == 0


def test_the_formats_in_the_help_are_those_there_are():
    assert command.FORMATS == tuple(report.FORMATS)
