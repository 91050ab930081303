"""The most a device can do: one large product in each precision, and one copy.

    python -m experiments.benchmarks.ceilings
    python -m experiments.benchmarks.ceilings --size=512 --copy_mib=16

Prints JSON: TFLOP/s of a square product of float32 ("highest", and "default": TF32 or bfloat16 on
accelerators) and of bfloat16, and GB/s, read and written, of a copy. The best round counts: slower
ones were disturbed.
"""

import functools
import json
from collections.abc import Callable
from typing import Any

from absl import app, flags

from experiments.benchmarks.roof import seconds_after_one, seconds_of
from t2t_jax.cli.command import parse_flags

_SECONDS_A_ROUND = 0.3


def ceilings(size: int, copy_mib: int, rounds: int) -> dict[str, Any]:
    """The ceilings of JAX's first device."""
    import jax
    import jax.numpy as jnp

    import t2t_jax.devices  # noqa: F401  # its settings of the compiler, as steps have them

    def product(dtype: Any, precision: str) -> float:
        # Random: with equal numbers, which flip few bits, a GPU runs faster than with a model's.
        x = jax.random.normal(jax.random.key(0), (size, size), dtype)
        multiply = jax.jit(functools.partial(jnp.matmul, precision=precision))
        return 2 * size**3 / _best(lambda: multiply(x, x), rounds) / 1e12

    def copy() -> float:
        x = jnp.ones((copy_mib * 2**18,), jnp.float32)
        # An identity would be no work.
        negate = jax.jit(jnp.negative)
        return 2 * x.nbytes / _best(lambda: negate(x), rounds) / 1e9

    return {
        "device": jax.devices()[0].device_kind,
        "size": size,
        "float32_tflops": product(jnp.float32, "highest"),
        "float32_default_tflops": product(jnp.float32, "default"),
        "bfloat16_tflops": product(jnp.bfloat16, "default"),
        "copy_gb_per_second": copy(),
    }


def _best(run: Callable, rounds: int) -> float:
    """Seconds per call, in the best round."""
    times = max(1, round(_SECONDS_A_ROUND / seconds_after_one(run, 1)))
    return min(seconds_of(run, times) for _ in range(rounds))


def main(_: list[str]) -> None:
    """Measures."""
    given = flags.FLAGS
    print(json.dumps(ceilings(given.size, given.copy_mib, given.rounds)))


if __name__ == "__main__":
    flags.DEFINE_integer("size", 8_192, "rows and columns of both matrices", lower_bound=1)
    flags.DEFINE_integer("copy_mib", 1_024, "MiB to copy", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "rounds; the best counts", lower_bound=1)
    app.run(main, flags_parser=functools.partial(parse_flags, "ceilings"))
