"""In: the lengths of a corpus's pairs. Out: a few batch shapes.

A pair takes the cells (source length + target length) of the cheapest shape it fits. Shapes
are chosen on the histogram of lengths to minimise the cells of all pairs: greedily one at a time,
then each again in turn, until no move saves cells.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt

# Candidate lengths per side. With more distinct lengths, these are rounded up for the search.
_MAX_EDGES = 128

# Up to _ALWAYS_SETTLED shapes, all are placed anew after each addition, then at every multiple of
# _SETTLED_EVERY: the time grows with the square of their number, and by then it saves little.
_ALWAYS_SETTLED, _SETTLED_EVERY = 12, 8

# Indices of a source edge and a target edge in the histogram.
Shape = tuple[int, int]


class LengthHistogram(NamedTuple):
    """How many pairs have which lengths; cell (i, j) counts lengths up to the edges i and j."""

    source_edges: np.ndarray  # increasing; the last one is the longest source
    target_edges: np.ndarray
    counts: np.ndarray  # source edges x target edges

    @property
    def cost(self) -> Int[np.ndarray, "source target"]:
        """Cells of a row of shape (i, j)."""
        return self.source_edges[:, None] + self.target_edges

    def cell_of(
        self,
        source_lengths: Int[np.ndarray, " pairs"],
        target_lengths: Int[np.ndarray, " pairs"],
    ) -> tuple[UInt[np.ndarray, " pairs"], UInt[np.ndarray, " pairs"]]:
        """The indices (i, j) of each pair's cell."""
        i = _edge_of(self.source_edges, source_lengths)
        return i, _edge_of(self.target_edges, target_lengths)


def length_histogram(
    source_lengths: Int[np.ndarray, " pairs"],
    target_lengths: Int[np.ndarray, " pairs"],
    times: Int[np.ndarray, " pairs"] | None = None,
) -> LengthHistogram:
    """The histogram of the pairs' lengths; a pair counts as often as `times` says, or once."""
    source_edges, target_edges = _edges(source_lengths), _edges(target_lengths)
    size = len(source_edges), len(target_edges)
    empty = LengthHistogram(source_edges, target_edges, np.zeros(size, np.int64))
    i, j = empty.cell_of(source_lengths, target_lengths)
    cells = i.astype(np.int32) * size[1] + j
    counts = np.bincount(cells, times, size[0] * size[1]).reshape(size)
    return empty._replace(counts=counts.astype(np.int64))


def cheapest_shapes(
    histogram: LengthHistogram, shapes: Sequence[Shape]
) -> Int[np.ndarray, "source target"]:
    """For each cell of the histogram, the index of the cheapest shape that holds it.

    `shapes` go from the cheapest to the one that holds every pair.
    """
    cheapest = np.empty(histogram.counts.shape, np.int64)
    for k in reversed(range(len(shapes))):
        i, j = shapes[k]
        cheapest[: i + 1, : j + 1] = k
    return cheapest


def choose_shapes(histogram: LengthHistogram, max_shapes: int) -> Iterator[list[Shape]]:
    """Yields the best 1, 2, ... `max_shapes` shapes found, the cheapest first in each list.

    Stops early if one more would save nothing. The last shape of a list holds every pair.
    """
    largest = len(histogram.source_edges) - 1, len(histogram.target_edges) - 1
    shapes = [largest]
    yield shapes
    while len(shapes) < max_shapes:
        added, saved = _best_addition(histogram, shapes)
        if saved == 0:
            return
        shapes = _by_cost(histogram, [*shapes, added])
        number = len(shapes)
        if number <= _ALWAYS_SETTLED or number % _SETTLED_EVERY == 0 or number == max_shapes:
            shapes = _settled(histogram, shapes)
        yield shapes


def _settled(histogram: LengthHistogram, shapes: list[Shape]) -> list[Shape]:
    """Removes each shape in turn and puts it back where it saves most, until none moves."""
    moved = True
    while moved:
        moved = False
        for shape in shapes[:-1]:
            others = [other for other in shapes if other != shape]
            added, _ = _best_addition(histogram, others)
            candidate = _by_cost(histogram, [*others, added])
            if _num_cells(histogram, candidate) < _num_cells(histogram, shapes):
                shapes, moved = candidate, True
    return shapes


def _best_addition(histogram: LengthHistogram, shapes: list[Shape]) -> tuple[Shape, int]:
    """The shape that saves the most cells if added to `shapes`, and how many."""
    cost = histogram.cost
    cheapest = cheapest_shapes(histogram, shapes)
    saved = np.zeros(cost.shape, np.int64)  # cells of millions of pairs
    for k, shape in enumerate(shapes):
        of_this_shape = np.where(cheapest == k, histogram.counts, 0)
        num_inside = of_this_shape.cumsum(axis=0).cumsum(axis=1)
        saved += np.maximum(cost[shape] - cost, 0) * num_inside
    best = np.unravel_index(saved.argmax(), saved.shape)
    return (int(best[0]), int(best[1])), int(saved[best])


def _num_cells(histogram: LengthHistogram, shapes: list[Shape]) -> int:
    costs = np.array([histogram.cost[shape] for shape in shapes])
    return int((histogram.counts * costs[cheapest_shapes(histogram, shapes)]).sum())


def _by_cost(histogram: LengthHistogram, shapes: list[Shape]) -> list[Shape]:
    return sorted(shapes, key=lambda shape: (int(histogram.cost[shape]), shape))


def _edges(lengths: Int[np.ndarray, " pairs"]) -> Int[np.ndarray, " edges"]:
    edges = np.unique(lengths)
    if len(edges) > _MAX_EDGES:
        # The longest length stays an edge: else its pairs would fit nowhere.
        edges = edges[np.linspace(0, len(edges) - 1, _MAX_EDGES).round().astype(int)]
    return edges


def _edge_of(
    edges: Int[np.ndarray, " edges"], lengths: Int[np.ndarray, " pairs"]
) -> UInt[np.ndarray, " pairs"]:
    """The index of the first edge not below each length."""
    of_length = np.searchsorted(edges, np.arange(edges[-1] + 1))
    return of_length.astype(np.min_scalar_type(len(edges)))[lengths]
