"""Where the time of a run goes, when a checkpoint is due by minutes, and traces of steps."""

import pytest

from t2t_jax import hosts
from t2t_jax.training import clocks, goodput, trace
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.goodput import Goodput
from t2t_jax.training.metrics_file import read_metrics
from t2t_jax.training.trace import steps_of
from tests.training.configs import short
from tests.training.runs import IDENTITY, batch
from tests.training.test_checkpoint import damage

SHARES = {"goodput", "share_compile", "share_input", "share_checkpoint", "share_evaluation"}


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(goodput, "time", clock)
    monkeypatch.setattr(clocks, "time", clock)
    return clock


def test_shares_are_of_all_the_time(clock):
    spent = Goodput()
    for kind, seconds in (("compile", 4), ("input", 1), ("compile", 1)):
        with spent.spent_on(kind):
            clock.now += seconds
    clock.now += 4
    assert spent.shares() == {
        "goodput": pytest.approx(0.4),
        "share_compile": 0.5,
        "share_input": 0.1,
        "share_checkpoint": 0.0,
        "share_evaluation": 0.0,
    }


def test_what_fails_has_taken_its_time_too(clock):
    spent = Goodput()
    with pytest.raises(OSError), spent.spent_on("checkpoint"):
        clock.now += 2
        raise OSError
    assert spent.shares()["share_checkpoint"] == 1.0


def test_metrics_have_the_shares_and_whatever_else_is_measured(run, tmp_path):
    run.train(tmp_path, options={"measures": lambda rate: {"mfu": rate / 1e9}})
    entries = [e for e in read_metrics(tmp_path / "metrics.jsonl") if e["split"] == "train"]
    for entry in entries:
        shares = {name: entry[name] for name in SHARES}
        assert sum(shares.values()) == pytest.approx(1) and min(shares.values()) >= 0
        assert entry["mfu"] == entry["target_tokens_per_second"] / 1e9
    last = entries[-1]
    assert last["share_compile"] > 0 and last["share_evaluation"] > 0 < last["share_checkpoint"]


def steps_kept(directory):
    with Checkpoints(directory / "checkpoints", identity=IDENTITY) as checkpoints:
        return checkpoints.steps


@pytest.fixture
def a_minute_each(clock):
    """A feed whose batches take a minute each."""

    def feed(start, stop):
        for i in range(start, stop):
            clock.now += 60
            yield batch(i)

    return feed


def test_a_checkpoint_is_due_after_so_many_minutes_whatever_the_step(run, tmp_path, a_minute_each):
    changes = dict(checkpoint_every_minutes=2.5, checkpoint_every_steps=1, keep_checkpoints=5)
    run.train(tmp_path, feed=a_minute_each, **changes)
    assert steps_kept(tmp_path) == [3, 6]


def test_the_minutes_to_a_checkpoint_go_on_over_a_stop(run, tmp_path, a_minute_each):
    changes = dict(checkpoint_every_minutes=2.5, checkpoint_every_steps=1, keep_checkpoints=5)
    for steps in (2, 4, 7):
        run.train(tmp_path, feed=a_minute_each, **changes, steps=steps)
    assert steps_kept(tmp_path) == [3, 6, 7]  # the last one out of turn


def test_after_damage_the_minutes_count_from_what_was_restored(run, tmp_path, a_minute_each):
    changes = dict(checkpoint_every_minutes=2.5, checkpoint_every_steps=1, keep_checkpoints=9)
    run.train(tmp_path, feed=a_minute_each, **changes, steps=7)
    for step in (6, 7):
        damage(tmp_path / "checkpoints" / str(step))
    run.train(tmp_path, feed=a_minute_each, **changes, steps=8)
    assert steps_kept(tmp_path) == [3, 6, 8]


def test_several_hosts_agree_when_it_is_due(monkeypatch, clock):
    asked = []
    monkeypatch.setattr(hosts, "are_several", lambda: True)
    # Another host's clock is ahead.
    monkeypatch.setattr(hosts, "any_of", lambda flag: asked.append(flag) or True)
    turn = clocks.CheckpointTurn(short(checkpoint_every_minutes=1))
    assert [step for step in range(1, 31) if turn.has_come(step)] == [10, 20, 30]
    assert asked == [False] * 3  # together, and not at every step
    clock.now += 61
    assert turn.has_come(40) and asked[-1] is True


def test_a_trace_of_some_steps_is_written(run, tmp_path, capsys):
    run.train(tmp_path, options={"profile_steps": trace.Steps(2, 3)})
    found = list((tmp_path / "profile").rglob("*.xplane.pb"))
    assert len(found) == 1 and found[0].stat().st_size > 0
    assert "the trace is in" in capsys.readouterr().err


def test_a_run_that_ends_within_its_trace_still_writes_it(run, tmp_path):
    run.train(tmp_path, options={"profile_steps": trace.Steps(6, 99)})
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


def test_a_step_that_is_repeated_within_its_trace_begins_no_second_one(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(trace.jax.profiler, "start_trace", begun.append)
    monkeypatch.setattr(trace.jax.profiler, "stop_trace", lambda: None)
    traced = trace.Trace(trace.Steps(2, 9), tmp_path)
    for step in (1, 2, 3, 2, 3):  # back to the checkpoint of step 1
        traced.before(step)
    traced.close()
    assert begun == [str(tmp_path)]


@pytest.mark.parametrize("text", ["", "3", "0:2", "5:4", "a:b", "-1:2"])
def test_what_is_no_range_of_steps_is_refused(text):
    with pytest.raises(ValueError, match="is no range of steps a:b, such as 10:12"):
        steps_of(text)
    assert steps_of("5:7") == (5, 7)
