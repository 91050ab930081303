"""The roof: how products are timed."""

import time

from experiments.benchmarks.roof import seconds_after_one


def test_a_first_call_that_is_slow_does_not_count():
    calls = []

    def run():
        time.sleep(0 if calls else 0.5)
        calls.append(1)

    assert seconds_after_one(run, 3) < 0.1
    assert len(calls) == 4
