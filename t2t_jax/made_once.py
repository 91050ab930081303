"""Functions that JAX compiles are made once for the same arguments.

JAX keeps what it has traced and compiled by the function itself. Of a new function that does the
same it knows nothing. `jax.clear_caches()` forgets what was traced, for code replaced meanwhile.
"""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

_MOST = 4  # functions kept of each maker, with their programs

Maker = TypeVar("Maker", bound=Callable)


def made_once(maker: Maker) -> Maker:
    """`maker`, which returns what it has lately returned for equal arguments.

    All of them are hashable, and all that the function to compile depends on is among them.
    """
    return cast(Maker, functools.lru_cache(_MOST)(maker))
