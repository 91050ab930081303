"""A search over many batches, which sentences leave as they end.

A batch takes as long as its longest output, and most are much shorter. So a batch stops every few
positions: finished sentences leave it, and the others are merged with those of other batches at the
same position. The cache grows with the output.

On a CPU, several such searches run in parallel: a small product makes poor use of two cores, and
the work between products uses one.

Axes: B rows of sentences, W beams, N = B * W rows, S source positions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import groupby
from queue import SimpleQueue
from threading import Event
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from t2t_jax.decoding.length_batches import LengthBatch, padded_ids
from t2t_jax.decoding.step import Hypotheses, Search, searched
from t2t_jax.made_once import made_once

# Room for this many positions at first, then doubled until all fit.
_FIRST_ROOM = 16

# A batch stops after this many positions, later after a quarter of those it has.
_SHORTEST_STAGE = 4

# A batch with a smaller share still going waits for others; without others, it shrinks when only
# the share _FEW is left. A batch with fewer rows runs in one stage: one program, compiled once.
_FULL_ENOUGH = 0.75
_FEW = 0.25
_FEWEST_ROWS = 8


Item = TypeVar("Item")
_AnyArray = jax.Array | np.ndarray


class Rows(NamedTuple):
    """Sentences between two search steps. Every leaf has a leading axis B or N."""

    encoded: PyTree[Array]
    state: Any  # of the search


@runtime_checkable
class Decoder(Protocol):
    """A model and a search: pure functions of parameters."""

    @property
    def search(self) -> Search:
        """The search."""
        ...

    def most_tokens(self, source_length: int) -> int:
        """The most tokens of an output if sources are padded to this length."""
        ...

    def start(self, params: PyTree, source_ids: Int[Array, "B S"], room: int) -> Rows:
        """The rows before the first step; a row of only padding holds no sentence."""
        ...

    def decode_step(self, params: PyTree, encoded: PyTree) -> Callable:
        """The function that gives the search its logits."""
        ...


class _Batch(NamedTuple):
    places: Int[np.ndarray, " B"]  # indices of the sentences in the input; -1 where none is going
    rows: Rows
    position: int
    room: int

    @property
    def num_going(self) -> int:
        return int(np.sum(self.places >= 0))

    @property
    def is_full_enough(self) -> bool:
        return self.num_going >= _FULL_ENOUGH * len(self.places)


class StagedSearch:
    """A search on one device, see above.

    Args:
      decoder: compiled for every shape that occurs, once for equal decoders; hashable.
      params: of its model.
      side_by_side: number of parallel searches, each with its own batches; results do not depend on
        which is faster.
    """

    def __init__(self, decoder: Decoder, params: PyTree, side_by_side: int = 1) -> None:
        self._decoder = decoder
        self._params = params
        self._side_by_side = side_by_side
        self._start, self._search_on = _compiled(decoder)
        # If device and host share memory, NumPy moves rows as fast, without compilation.
        moved = _on_host if jax.default_backend() == "cpu" else jax.jit
        self._refill, self._take = moved(_refilled), moved(_taken)
        self._pad = moved(_padded, static_argnames=("axes", "missing"))

    def __call__(
        self, batches: Iterable[LengthBatch], sources: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        """The results of all sentences, some at a time, with their indices in `sources`.

        Batches of one shape must be adjacent. The arrays are NumPy's.
        """
        batches = list(batches)
        shares = [batches[i :: self._side_by_side] for i in range(self._side_by_side)]
        return _side_by_side([self._found(share, sources) for share in shares if share])

    def _found(
        self, batches: Sequence[LengthBatch], sources: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        for (_, length), alike in groupby(batches, key=lambda batch: batch[1:]):
            waiting: dict[int, _Batch] = {}  # by position
            for batch in alike:
                started = self._started(batch, padded_ids(batch, sources))
                yield from self._advanced(started, length, waiting)
            while waiting:
                batch = waiting.pop(min(waiting))
                yield from self._advanced(self._cut_down(batch), length, waiting)

    def _started(self, batch: LengthBatch, source_ids: Int[np.ndarray, "B S"]) -> _Batch:
        most = self._decoder.most_tokens(batch.length)
        room = most if batch.num_rows < _FEWEST_ROWS else min(_FIRST_ROOM, most)
        places = np.full(batch.num_rows, -1)
        places[: len(batch.places)] = batch.places
        rows = self._start(self._params, jnp.asarray(source_ids), room=room)
        return _Batch(places, rows, 0, room)

    def _advanced(
        self, batch: _Batch, length: int, waiting: dict[int, _Batch]
    ) -> Iterator[tuple[list[int], Hypotheses]]:
        """Continues until the batch is done, or is added to `waiting`."""
        most = self._decoder.most_tokens(length)
        while True:
            if batch.position == batch.room:
                batch = self._with_more_room(batch, most)
            stop = batch.room
            if len(batch.places) >= _FEWEST_ROWS:
                stop = min(stop, batch.position + max(_SHORTEST_STAGE, batch.position // 4))
            rows, is_going, found = self._search_on(
                self._params, rows=batch.rows, first=batch.position, stop=stop
            )
            is_going = np.asarray(is_going)
            if (has_ended := (batch.places >= 0) & ~is_going).any():
                ended = batch.places[has_ended].tolist()
                yield ended, jax.tree.map(lambda leaf: np.asarray(leaf)[has_ended], found)
            batch = _Batch(np.where(is_going, batch.places, -1), rows, stop, batch.room)
            if batch.num_going == 0:
                return
            if not batch.is_full_enough:
                if stop in waiting:
                    batch = self._put_together(waiting.pop(stop), batch, waiting)
                if not batch.is_full_enough:
                    waiting[stop] = batch
                    return

    def _put_together(self, one: _Batch, other: _Batch, waiting: dict[int, _Batch]) -> _Batch:
        """The larger batch filled with sentences of the other one, the rest of which waits."""
        if len(one.places) < len(other.places):
            one, other = other, one
        free, coming = np.flatnonzero(one.places < 0), np.flatnonzero(other.places >= 0)
        free, coming = free[: len(coming)], coming[: len(free)]
        sources = np.full(len(one.places), -1)
        sources[free] = coming
        places, rest = one.places.copy(), other.places.copy()
        places[free], rest[coming] = other.places[coming], -1
        if np.any(rest >= 0):
            waiting[other.position] = other._replace(places=rest)
        rows = self._refill(one.rows, other.rows, sources)
        return one._replace(places=places, rows=rows)

    def _cut_down(self, batch: _Batch) -> _Batch:
        """The batch with only as many rows as are going, if that is much fewer."""
        num_rows = len(batch.places)
        while batch.num_going <= _FEW * num_rows and _FEW * num_rows >= _FEWEST_ROWS:
            num_rows = int(_FEW * num_rows)
        if num_rows == len(batch.places):
            return batch
        sources = np.argsort(batch.places < 0, kind="stable")[:num_rows]
        rows = self._take(batch.rows, sources)
        return batch._replace(places=batch.places[sources], rows=rows)

    def _with_more_room(self, batch: _Batch, most: int) -> _Batch:
        room = 2 * batch.room
        room = most if 1.5 * room >= most else room
        rows = self._pad(batch.rows, axes=self._growing_axes, missing=room - batch.room)
        return batch._replace(rows=rows, room=room)

    @cached_property
    def _growing_axes(self) -> tuple[int | None, ...]:
        """For each leaf of a batch's rows, the axis that is as long as the room."""

        def shapes(room: int) -> list[tuple[int, ...]]:
            ids = jax.ShapeDtypeStruct((1, 1), jnp.int32)
            rows = jax.eval_shape(partial(self._decoder.start, room=room), self._params, ids)
            return [leaf.shape for leaf in jax.tree.leaves(rows)]

        unlike = zip(shapes(2), shapes(3), strict=True)
        return tuple(
            next((axis for axis, size in enumerate(one) if size != other[axis]), None)
            for one, other in unlike
        )


@made_once
def _compiled(decoder: Decoder) -> tuple[Callable, Callable]:
    """The decoder's start, and its search from one position to another."""

    def searched_on(
        params: PyTree, rows: Rows, first: Int[Array, ""], stop: Int[Array, ""]
    ) -> tuple[Rows, Bool[Array, " B"], Hypotheses]:
        search = decoder.search
        decode_step = decoder.decode_step(params, rows.encoded)
        state = searched(search, decode_step, rows.state, first, stop)
        return rows._replace(state=state), search.is_going(state), search.found(state)

    start = jax.jit(decoder.start, static_argnames="room")
    return start, jax.jit(searched_on, donate_argnames="rows")


def _side_by_side(iterators: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """The items of all iterators, each in its own thread, as they arrive."""
    results: SimpleQueue[Item | Future] = SimpleQueue()
    is_over = Event()

    def give(iterator: Iterator[Item]) -> None:
        for item in iterator:
            results.put(item)
            if is_over.is_set():
                return

    with ThreadPoolExecutor(max(len(iterators), 1)) as threads:
        for iterator in iterators:
            threads.submit(give, iterator).add_done_callback(results.put)
        try:
            num_going = len(iterators)
            while num_going:
                if isinstance(result := results.get(), Future):
                    result.result()  # raises what its thread raised
                    num_going -= 1
                else:
                    yield result
        finally:
            is_over.set()


def _on_host(function: Callable, **_: Any) -> Callable:
    """`function` on NumPy arrays; takes the arguments of `jax.jit`."""

    def on_host(*args: Any, **options: Any) -> Any:
        return function(*jax.tree.map(np.asarray, args), **options)

    return on_host


def _padded(rows: Rows, axes: tuple[int | None, ...], missing: int) -> Rows:
    """`rows` with zeros at the end of each leaf's axis in `axes`."""
    leaves, tree = jax.tree.flatten(rows)

    def padded(leaf: _AnyArray, axis: int | None) -> _AnyArray:
        widths = [(0, missing if axis == i else 0) for i in range(leaf.ndim)]
        return leaf if axis is None else leaf.__array_namespace__().pad(leaf, widths)

    return tree.unflatten(map(padded, leaves, axes))


def _refilled(rows: Rows, others: Rows, sources: Int[_AnyArray, " B"]) -> Rows:
    """`rows` with sentence b replaced by `sources[b]` of the `others`, where that is not -1."""
    num_rows, num_others = _num_rows(rows), _num_rows(others)

    def refilled(leaf: _AnyArray, other: _AnyArray) -> _AnyArray:
        old = _by_sentence(leaf, num_rows)
        new = _by_sentence(other, num_others)[sources]
        is_new = (sources >= 0).reshape(-1, *[1] * (old.ndim - 1))
        return leaf.__array_namespace__().where(is_new, new, old).reshape(leaf.shape)

    return jax.tree.map(refilled, rows, others)


def _taken(rows: Rows, sources: Int[_AnyArray, " new_B"]) -> Rows:
    """Some sentences of `rows`."""
    num_rows = _num_rows(rows)
    return jax.tree.map(
        lambda leaf: _by_sentence(leaf, num_rows)[sources].reshape(-1, *leaf.shape[1:]), rows
    )


def _by_sentence(leaf: _AnyArray, num_rows: int) -> _AnyArray:
    return leaf.reshape(num_rows, -1, *leaf.shape[1:])


def _num_rows(rows: Rows) -> int:
    return rows.state.limits.shape[0]
