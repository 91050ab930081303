"""The feed: every batch, in order, ahead of time, and a clean end."""

import subprocess
import sys
import threading
import time

import pytest

from t2t_jax.data.batches.batches import BucketedBatches, PackedBatches
from t2t_jax.data.batches.feed import feed
from tests.data.splits import RANDOM_LENGTHS, assert_equal_batches, split_of


class Numbers:
    """Stands for batches: batch i is i; counts what was asked for."""

    def __init__(self, bad: int | None = None) -> None:
        self.asked: list[int] = []
        self.bad = bad

    def __getitem__(self, i):
        if i == self.bad:
            raise ValueError(f"batch {i} is bad")
        self.asked.append(i)
        return i


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (7, 20), (7, 8), (5, 5), (10**9, 10**9 + 4)])
def test_batches_come_in_order_from_start_to_stop(start, stop):
    assert list(feed(Numbers(), start, stop, lambda i: -i)) == [-i for i in range(start, stop)]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(BucketedBatches, {"num_buckets": 3}), (PackedBatches, {"packed_length": 30})],
)
def test_batches_come_as_they_were_assembled(kind, size):
    budgets = {"source_tokens_per_batch": 300, "target_tokens_per_batch": 300}
    batches = kind(split_of(RANDOM_LENGTHS), row_multiple=2, seed=0, **budgets, **size)
    # Beyond the end of an epoch, too.
    last = batches.batches_per_epoch + 3
    for i, batch in enumerate(feed(batches, 0, last, lambda batch: batch)):
        assert_equal_batches(batch, batches[i])
    assert i == last - 1


def test_put_runs_in_the_callers_thread_two_batches_ahead():
    put_numbers = []

    def put(i):
        assert threading.current_thread() is threading.main_thread()
        put_numbers.append(i)
        return i

    seen = []
    for i in feed(Numbers(), 0, 6, put):
        seen.append((i, len(put_numbers)))
    assert seen == [(0, 3), (1, 4), (2, 5), (3, 6), (4, 6), (5, 6)]


def test_batches_are_assembled_ahead_but_not_without_end():
    numbers = Numbers()
    iterator = feed(numbers, 0, 1_000, lambda i: i)
    next(iterator)
    deadline = time.monotonic() + 10
    while len(numbers.asked) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert 8 <= len(numbers.asked) <= 20
    iterator.close()


def test_an_error_of_a_batch_reaches_the_caller():
    got = []
    with pytest.raises(ValueError, match="batch 6 is bad"):
        for i in feed(Numbers(bad=6), 0, 20, lambda i: i):
            got.append(i)
    assert got == [0, 1, 2, 3]


def test_an_error_of_put_reaches_the_caller():
    def put(i):
        raise RuntimeError("no device")

    with pytest.raises(RuntimeError, match="no device"):
        next(feed(Numbers(), 0, 20, put))


def test_stopping_early_stops_the_assembly():
    before = set(threading.enumerate())
    iterator = feed(Numbers(), 0, 1_000_000, lambda i: i)
    next(iterator)
    its_threads = set(threading.enumerate()) - before
    assert its_threads
    iterator.close()
    deadline = time.monotonic() + 10
    while any(thread.is_alive() for thread in its_threads):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_a_wrong_range_is_told_at_the_call(start, stop):
    with pytest.raises(ValueError, match="0 <= start <= stop must hold"):
        feed(Numbers(), start, stop, lambda i: i)


def test_importing_the_data_room_loads_neither_grain_nor_jax():
    program = (
        "import sys, t2t_jax.data.batches.feed, t2t_jax.data.prepare.prepared;"
        "print([name for name in ('grain', 'jax') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr
