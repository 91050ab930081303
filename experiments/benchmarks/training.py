"""Training with the real feed, compared with the matrix products alone.

    python -m experiments.benchmarks --parts=train --sizes=small --directory=DIR

On a CPU a second time, with devices.matmul_precision=default: "rounded". The roof is of float32
products for both.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks import roof, speed
from experiments.benchmarks.results import Measured, over
from experiments.benchmarks.sizes import Size
from t2t_jax.devices import make_devices
from t2t_jax.model.config import TransformerConfig

_WINDOWS = 6


def measure(size: Size, directory: str) -> list[Measured]:
    """Tokens/s without padding in the last log windows, seconds to the first step, and memory."""
    devices = make_devices(**size.read_config().devices)  # its products are in training's precision
    products = roof.of_a_step(TransformerConfig(**size.read_config().model), size)
    found = _trained(size, directory, products, "ours")
    if not devices.are_accelerators:
        rounded = {**size.changes, "devices.matmul_precision": "default"}
        found += _trained(size._replace(changes=rounded), directory, products, "ours, rounded")
    return found


def _trained(
    size: Size, directory: str, products: Callable[[], float], name: str
) -> list[Measured]:
    seconds = [products() for _ in range(4)][1:]
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        arguments = [*size.train_flags(directory), f"--config.data.cache={place}/data"]
        nothing_kept = {"T2T_JAX_CACHE": f"{place}/programs"}
        trained = speed.measure(arguments, run, _WINDOWS, nothing_kept)
    seconds += [products() for _ in range(3)]  # so both before and after it
    rates = trained.target_tokens_per_second[-speed.RATED_WINDOWS :]
    at_the_roof = [size.tokens / statistics.median(seconds)] * len(rates)
    found = [Measured(name, "tokens/s", rates), over(f"{name} over the roof", rates, at_the_roof)]
    if name == "ours":
        found += [
            Measured("first step", "s", [trained.seconds_to_first_step]),
            Measured("peak memory", "MiB", [trained.peak_memory_mib]),
        ]
    return found
