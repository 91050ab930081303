"""Statistics of attention heads, one row per head.

Axes: H heads, T query positions, S key positions.
"""

import csv
import io
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from t2t_jax.explain.document import Attention, Document


class HeadStatistics(NamedTuple):
    """Means over the queries of one head. None: there is no distance between source and target."""

    attention: str
    layer: int  # from 1
    number: int  # of the self-attention in this layer, from 1
    head: int  # from 1
    entropy: float  # nats; at most log S, 0 if each query attends to one key
    largest_weight: float
    distance: float | None  # tokens between query and key, averaged by weight
    previous: float | None  # share of the weight on the token before the query's own
    same: float | None
    next: float | None
    first: float  # share on the first key
    last: float  # share on the last key


def head_statistics(document: Document) -> list[HeadStatistics]:
    """The statistics of every head of the model."""
    return [
        _of_head(attention, head)
        for attention in document.attentions()
        for head in range(len(attention.weights))
    ]


def csv_text(found: list[HeadStatistics]) -> str:
    """A header, and a row for each head with five digits after the decimal point."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(HeadStatistics._fields)
    for row in found:
        writer.writerow(
            f"{value:.5f}" if isinstance(value, float) else value for value in row
        )  # None is an empty cell
    return stream.getvalue()


def _of_head(attention: Attention, head: int) -> HeadStatistics:
    weights = attention.weights[head].astype(np.float64)
    is_self = attention.looks in ("encoder", "decoder")
    return HeadStatistics(
        attention=attention.looks,
        layer=attention.layer + 1,
        number=attention.number + 1,
        head=head + 1,
        entropy=entropy(weights),
        largest_weight=float(weights.max(-1).mean()),
        distance=_distance(weights) if is_self else None,
        previous=_share(weights, -1) if is_self else None,
        same=_share(weights, 0) if is_self else None,
        next=_share(weights, 1) if is_self else None,
        first=float(weights[:, 0].mean()),
        last=float(weights[:, -1].mean()),
    )


def entropy(weights: Float[np.ndarray, "T S"]) -> float:
    """Mean over the queries of -sum p log p, in nats."""
    logarithms = np.log(np.where(weights > 0, weights, 1))
    return float(-(weights * logarithms).sum(-1).mean())


def _distance(weights: Float[np.ndarray, "T S"]) -> float:
    queries, keys = np.indices(weights.shape)
    return float((weights * np.abs(keys - queries)).sum(-1).mean())


def _share(weights: Float[np.ndarray, "T S"], offset: int) -> float:
    """Mean over the queries of the weight `offset` keys after each; 0 if there is no such key."""
    return float(np.diagonal(weights, offset).sum() / len(weights))
