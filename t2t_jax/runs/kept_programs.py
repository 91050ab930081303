"""What was compiled is found again by the next process."""

import os
import platform
from pathlib import Path

import jax

from t2t_jax import hosts
from t2t_jax.buckets import is_bucket, local_cache
from t2t_jax.cores import own_cores
from t2t_jax.runs.keys import own_cache

_WORTH_KEEPING = 0.3  # seconds of compilation


def keep_programs() -> None:
    """Has JAX keep what it compiles: on this machine seeds, some rows and retries find it again.

    Its directory may be deleted. It is another one where the environment says so, as a sweep does,
    never where a run says so, which may be somebody else's: programs are loaded from it. Several
    hosts keep them only where the environment names a place that all see, which JAX itself knows in
    a bucket too: one that finds what another does not would not wait for it.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and not hosts.are_several():
        # What is compiled for a CPU depends on which one and on the number of cores.
        machine = f"{platform.node()}-{len(own_cores())}"
        cache = own_cache()
        here = local_cache(cache) if is_bucket(cache) else Path(cache).expanduser()
        jax.config.update("jax_compilation_cache_dir", str(here / "compiled" / machine))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)
