"""The settings and prices of a plan, from the command line."""

from collections.abc import Callable
from typing import Any

from t2t_jax.buckets import is_bucket, local_cache, local_path
from t2t_jax.plan.calibration import calibration
from t2t_jax.plan.facts import Keeper
from t2t_jax.plan.plan import Settings
from t2t_jax.plan.prices import PRICES, Prices, read_prices
from t2t_jax.runs.keys import own_cache


def tools(
    values: Any, log: Callable[[str], None]
) -> tuple[Settings, Prices, Callable[[], list[str]]]:
    """Settings, prices, and a function for closing remarks about them.

    `values` has the flags `programs`, `facts`, `prices`, `old_prices` and `calibrate`.

    Raises:
      ValueError: the prices are too old, or `calibrate` names no usable record.
    """
    prices_file = local_path(values.prices, "--prices") if values.prices else PRICES
    prices = read_prices(prices_file, may_be_old=values.old_prices)
    cache = own_cache()
    here = local_cache(cache) if is_bucket(cache) else local_path(cache, "T2T_JAX_CACHE")
    kept = local_path(values.facts, "--facts") if values.facts else here / "plan.json"
    keeper = Keeper(kept, log=log)
    settings = Settings(keeper, all_programs=values.programs == "all")
    words = ["hours and dollars are predictions; dollars at the middle of the range of hours"]
    if values.calibrate:
        found = calibration(local_path(values.calibrate, "--calibrate"), settings)
        settings = settings._replace(factors={found.chip: found.factor})
        words.append(found.words)
    return settings, prices, lambda: [*words, *sorted(keeper.told)]
