"""Strict settings for every test: several devices, no silent broadcasting, warnings are errors."""

import jax

NUM_DEVICES = 8

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Nearly all of a test's time is compilation.
jax.config.update("jax_disable_most_optimizations", True)
