"""Puts batches on devices ahead of time. In: batch numbers. Out: the results of `put`."""

import collections
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

from t2t_jax.data.batches.batches import Batch

T = TypeVar("T")

# One thread assembles 17 million tokens a second or more; more would contend for the interpreter.
_THREADS = 1
_BATCHES_ASSEMBLED_AHEAD = 8
# The batch being computed on, and the next, already on its way to the devices.
_BATCHES_PUT_AHEAD = 2


@runtime_checkable
class BatchSource(Protocol):
    """Returns a batch by its number, from any thread."""

    def __getitem__(self, i: int, /) -> Batch: ...


def feed(batches: BatchSource, start: int, stop: int, put: Callable[[Batch], T]) -> Iterator[T]:
    """Yields `put(batches[i])` for i from `start` to `stop` - 1, in order.

    Batches are assembled in a thread. `put`, which starts the copy to the devices and does not
    wait for it, is called two batches ahead, in the caller's thread. Errors of both reach the
    caller. Closing the iterator early stops the thread.

    Raises:
      ValueError: `start` is negative or after `stop`.
    """
    if not 0 <= start <= stop:
        raise ValueError(f"start={start} and stop={stop}: 0 <= start <= stop must hold")
    return _feed(batches, start, stop, put)


def _feed(batches: BatchSource, start: int, stop: int, put: Callable[[Batch], T]) -> Iterator[T]:
    # Imported here: it takes most of a second, which reading a config or vocabulary need not pay.
    import grain

    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_BATCHES_ASSEMBLED_AHEAD)
    numbers = grain.MapDataset.range(start, stop)
    assembled = iter(numbers.map(batches.__getitem__).to_iter_dataset(options))
    on_device: collections.deque[T] = collections.deque()
    try:
        for batch in assembled:
            on_device.append(put(batch))
            if len(on_device) > _BATCHES_PUT_AHEAD:
                yield on_device.popleft()
        while on_device:
            yield on_device.popleft()
    finally:
        assembled.close()
