"""Strict settings for every test: several devices, no silent broadcasting, warnings are errors."""

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import PathFinder

import hypothesis
import jax
import pytest

NUM_DEVICES = 8

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# "" for all that are here, as `make gpu-check` has it.
jax.config.update("jax_platforms", os.environ.get("TEST_PLATFORMS", "cpu"))
jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Most of a test's time is tracing and compilation, here and in the processes that tests start.
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
# XLA reads its flags when the first program is compiled. The first has it write loops in an older
# way, which takes it less than half the time; newer releases have it no more.
_FASTER_XLA = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")


def _known_to_xla(flags: Sequence[str]) -> str:
    """Those that XLA knows. It ends a process that gives it another: one for each is asked."""
    command = [sys.executable, "-c", "from jaxlib import xla_client; xla_client.CompileOptions()"]
    asked = [
        subprocess.Popen(command, env=os.environ | {"XLA_FLAGS": flag}, stderr=subprocess.DEVNULL)
        for flag in flags
    ]
    return " ".join(flag for flag, process in zip(flags, asked, strict=True) if process.wait() == 0)


if "XLA_FLAGS" not in os.environ:  # the workers of pytest-xdist have those of who started them
    os.environ["XLA_FLAGS"] = _known_to_xla(_FASTER_XLA)
# A trace makes many small objects that live on: looking through all of them takes 5% of the time.
gc.set_threshold(50_000, 20, 20)

# Nothing that a test prepares stays on the machine; workers have the directory of who started them.
if "T2T_JAX_CACHE" not in os.environ:
    os.environ["T2T_JAX_CACHE"] = tempfile.mkdtemp(prefix="t2t_jax_tests_")
    atexit.register(shutil.rmtree, os.environ["T2T_JAX_CACHE"], ignore_errors=True)

# A machine that does other work beside is no reason to fail.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# The grammar has no arrays, but millions of calls, and functions made within them: checking its
# annotations, as jaxtyping does in all other modules, takes fifty times as long as what it does.
_GRAMMAR = ("t2t_jax.data.corpora.grammar", "t2t_jax.data.corpora.embedded.")


class _Unchecked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name.startswith(_GRAMMAR) else None


sys.meta_path.insert(0, _Unchecked)


def _round_nothing():
    from t2t_jax.devices import ROUNDS_ON_CPU  # after jaxtyping's hook, which checks what it loads

    if jax.config.jax_default_matmul_precision == ROUNDS_ON_CPU:  # pyright: ignore
        jax.config.update("jax_default_matmul_precision", None)


@pytest.fixture(autouse=True)
def exact_products():
    """Undoes what a run with `devices.matmul_precision="default"` leaves in the process.

    Before a test, since a fixture of its module may have had such a run, and after it.
    """
    _round_nothing()
    yield
    _round_nothing()
