"""Strict settings for every test: several devices, no silent broadcasting, warnings are errors."""

import gc
import os
import sys
from importlib.machinery import PathFinder

import hypothesis
import jax
from beartype.claw import beartype_package

NUM_DEVICES = 8

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Most of a test's time is tracing and compilation, here and in the processes that tests start. XLA
# reads its flags when the first program is compiled; the older way in which it writes loops takes
# it less than half the time of the newer one.
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
# A trace makes many small objects that live on: looking through all of them takes 5% of the time.
gc.set_threshold(50_000, 20, 20)

# A machine that does other work beside is no reason to fail.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# The grammar has no arrays, but millions of calls: beartype by itself checks its annotations in
# a quarter of the time that it takes beneath jaxtyping, which checks all other modules.
_GRAMMAR = "t2t_jax.data.corpora.embedded"


class _WithoutJaxtyping:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name.startswith(_GRAMMAR + ".") else None


beartype_package(_GRAMMAR)
sys.meta_path.insert(0, _WithoutJaxtyping)
