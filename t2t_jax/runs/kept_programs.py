"""Keeps compiled programs for later processes."""

import os
import platform
from pathlib import Path

import jax

from t2t_jax import hosts
from t2t_jax.buckets import is_bucket, local_cache
from t2t_jax.cores import own_cores
from t2t_jax.json_files import error_text
from t2t_jax.runs.keys import own_cache

_WORTH_KEEPING = 0.3  # seconds of compilation


def keep_programs() -> None:
    """Turns on JAX's compilation cache: seeds, some rows and retries on this machine reuse it.

    Its directory may be deleted. The environment may name another one, as a sweep does, but a run's
    config may not: the run may be someone else's, and programs are loaded from there. Several hosts
    use it only if the environment names a place that all see, which may be in a bucket: a host that
    finds a program would not wait for one that does not. Where it cannot be, nothing is kept.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and not hosts.are_several():
        # Programs for a CPU depend on its model and its number of cores.
        machine = f"{platform.node()}-{len(own_cores())}"
        cache = own_cache()
        here = local_cache(cache) if is_bucket(cache) else Path(cache).expanduser()
        directory = here / "compiled" / machine
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hosts.log(f"compiled programs are not kept: {error_text(error)}")
            return
        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)
