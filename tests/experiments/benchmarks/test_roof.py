"""The roof: how products are timed."""

import time

import pytest

from experiments.benchmarks.roof import seconds_after_one


def test_a_first_call_that_is_slow_does_not_count(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run():
        now[0] += 0.1 if calls else 5.0
        calls.append(1)

    assert seconds_after_one(run, 3) == pytest.approx(0.1)
    assert len(calls) == 4
