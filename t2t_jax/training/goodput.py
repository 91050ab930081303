"""Where the time of a run goes: training, and everything else."""

import contextlib
import time
from collections.abc import Iterator
from typing import Literal, get_args

Kind = Literal["compile", "input", "checkpoint", "evaluation"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Goodput:
    """Shares of the seconds since its creation.

    Seconds of the host: devices may still be computing while it waits for a batch.
    """

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(_KINDS, 0.0)
        self._started = time.monotonic()

    @contextlib.contextmanager
    def spent_on(self, kind: Kind) -> Iterator[None]:
        """Counts the time inside as `kind`, not as training."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[kind] += time.monotonic() - started

    def shares(self) -> dict[str, float]:
        """`goodput`, the share of training, and the share of each other kind."""
        total = time.monotonic() - self._started
        shares = {f"share_{kind}": spent / total for kind, spent in self._seconds.items()}
        return {"goodput": 1 - sum(shares.values()), **shares}
