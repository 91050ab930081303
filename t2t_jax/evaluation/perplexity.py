"""Perplexity per token of the vocabulary, from sums over a whole split."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import jax

Params = TypeVar("Params")
Batch = TypeVar("Batch")
Metrics = TypeVar("Metrics")


def sum_metrics(
    eval_step: Callable[[Params, Batch], Metrics], params: Params, batches: Iterable[Batch]
) -> Metrics:
    """The metrics of all batches, added up, as Python floats.

    They are added in double precision on the host, and read only after the last step was handed
    out, so that no batch waits for the one before.

    Args:
      eval_step: gives sums over one batch, all leaves scalars, never means.
      params: of the model.
      batches: what `eval_step` takes.

    Raises:
      ValueError: there are no batches.
    """
    per_batch = jax.device_get([eval_step(params, batch) for batch in batches])
    if not per_batch:
        raise ValueError("there are no batches to evaluate on")
    return jax.tree.map(lambda *sums: math.fsum(sums), *per_batch)


def perplexity(loss: float, tokens: int | float) -> float:
    """exp(loss / tokens): `loss` is the unsmoothed negative log-likelihood, summed, in nats.

    Infinite where it is larger than a float can hold.

    Raises:
      ValueError: there are no tokens.
    """
    if tokens <= 0:
        raise ValueError(f"perplexity needs at least one token, but tokens={tokens}")
    try:
        return math.exp(loss / tokens)
    except OverflowError:
        return math.inf
