"""A step with non-finite numbers: stopped at, skipped or rolled back, and never believed."""

import errno
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t2t_jax.compilation import compile_init, compile_train_step, summed_over
from t2t_jax.devices import make_devices
from t2t_jax.training import checkpoint
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.loop import Stopped
from t2t_jax.training.loss import Metrics, make_loss_fn
from t2t_jax.training.metrics_file import read_metrics
from t2t_jax.training.nonfinite import Diverged
from t2t_jax.training.step import make_train_step
from tests.training.runs import IDENTITY, batch
from tests.training.test_layouts import LAYOUTS, built
from tests.training.test_loop import interrupting
from tests.training.test_step import unequal_batch

_POISON = 3  # a token that no batch of these tests has


def poisoned(batch, row=-1):
    """The batch with a token in one row that has no finite loss."""
    target_ids = batch.target_ids.copy()
    target_ids[row, 0] = _POISON
    return batch._replace(target_ids=target_ids)


def poisonable(loss_fn):
    """The loss, and of poison no number, nor gradients that are."""

    def poisonable_loss(params, batch, key):
        loss, metrics = loss_fn(params, batch, key)
        factor = jnp.where((batch.target_ids == _POISON).any(), jnp.nan, 1.0)
        return loss * factor, metrics._replace(loss=loss * factor)

    return poisonable_loss


def feed_with(*bad):
    """A feed of which these batches are poisoned."""

    def numbered(i):
        return poisoned(batch(i)) if i in bad else batch(i)

    return lambda start, stop: map(numbered, range(start, stop))


@pytest.fixture
def poison(run, monkeypatch):
    """The run, whose steps know poison; called with how many bad steps in a row are skipped."""

    @functools.cache
    def compiled(max_bad_steps):
        return run.compiled(poisonable(run.loss_fn), max_bad_steps=max_bad_steps)

    def use(max_bad_steps=0):
        monkeypatch.setattr(run, "train_step", compiled(max_bad_steps))
        return run

    return use


def assert_same(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)  # bit for bit


def learned(state):
    return state.params, state.opt_state


def after(run, *numbers):
    """The state after a step of each of these batches; a None is a step that does nothing."""
    state = jax.tree.map(jnp.asarray, run.initial)
    for number in numbers:
        if number is None:
            state = state._replace(step=state.step + 1)
        else:
            state, _ = run.train_step(state, batch(number))
    return jax.device_get(state)


# The step.


def test_a_bad_step_changes_nothing_and_holds_the_state_whatever_follows(poison):
    run = poison()
    before = after(run, 0, 1)
    state, metrics = run.train_step(jax.tree.map(jnp.asarray, before), poisoned(batch(2)))
    assert_same(state, before._replace(bad_steps=np.int32(1)))
    assert not any(map(float, metrics))
    again, metrics = run.train_step(state, batch(3))
    assert_same(again, state)
    assert not any(map(float, metrics))


def test_a_bad_step_is_skipped_as_often_in_a_row_as_is_allowed(poison):
    run = poison(max_bad_steps=2)
    before = after(run, 0, 1)
    state = jax.tree.map(jnp.asarray, before)
    for number in (2, 3):
        state, _ = run.train_step(state, poisoned(batch(number)))
    assert (int(state.step), int(state.bad_steps), int(state.skipped)) == (4, 2, 2)
    assert_same(learned(state), learned(before))
    good, _ = run.train_step(state, batch(4))
    assert (int(good.step), int(good.bad_steps), int(good.skipped)) == (5, 0, 2)
    bad, _ = run.train_step(state, poisoned(batch(4)))
    assert (int(bad.step), int(bad.bad_steps), int(bad.skipped)) == (4, 3, 2)


def test_gradients_that_are_none_are_found_though_the_loss_is_a_number(run):
    def steep(params, batch, key):
        loss, metrics = run.loss_fn(params, batch, key)
        return loss * jnp.where((batch.target_ids == _POISON).any(), jnp.inf, 1.0), metrics

    step = run.compiled(steep)
    state, _ = step(jax.tree.map(jnp.asarray, run.initial), poisoned(batch(0)))
    assert int(state.bad_steps) == 1
    assert_same(learned(state), learned(run.initial))


def test_a_loss_that_is_none_is_found_though_its_gradients_are_numbers(run):
    def odd(params, batch, key):
        loss, metrics = run.loss_fn(params, batch, key)
        added = jnp.where((batch.target_ids == _POISON).any(), jnp.inf, 0.0)
        return loss + added, metrics._replace(loss=loss + added)

    state, _ = run.compiled(odd)(jax.tree.map(jnp.asarray, run.initial), poisoned(batch(0)))
    assert int(state.bad_steps) == 1
    assert_same(learned(state), learned(run.initial))


@pytest.mark.slow
@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_row_of_one_device_spoils_the_step_of_all(layout, microbatches):
    model, optimizer, make_state = built()
    devices = make_devices(**layout)
    state = compile_init(devices, make_state, 7)
    train_step = compile_train_step(
        devices,
        make_train_step(
            poisonable(make_loss_fn(model, 0.1)),
            optimizer,
            microbatches=microbatches,
            over_devices=summed_over(devices),
        ),
        state,
    )
    before = jax.device_get(state)
    bad = devices.put_batch(poisoned(unequal_batch(rows=16), row=5))
    state, metrics = train_step(state, bad)
    assert_same(jax.device_get(state), before._replace(bad_steps=np.int32(1)))
    assert float(metrics.tokens) == 0


# The policies.


def test_stop_tells_step_and_batch_and_keeps_the_state_before_it(poison, tmp_path):
    run = poison()
    kept = []

    def dump(state, batch):
        kept.append((jax.device_get(state), batch))
        return "kept"

    for _ in range(2):  # the same command meets it again
        with pytest.raises(Diverged, match=r"^diverged at step 4: .* of batch 3 are not fin.*kept"):
            run.train(tmp_path, feed=feed_with(3), dump=dump, checkpoint_every_steps=1)
    for state, bad in kept:
        assert_same(learned(state), learned(after(run, 0, 1, 2)))
        assert (int(state.step), int(state.bad_steps)) == (3, 1)
        assert_same(bad, poisoned(batch(3)))
    with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps[-1] == 3


def test_what_happens_after_a_bad_step_before_it_is_seen_does_not_matter(poison, tmp_path):
    run = poison()
    with pytest.raises(Diverged, match="diverged at step 2: .* of batch 1 "):
        run.train(tmp_path, feed=feed_with(1, 3), log_every_steps=6, checkpoint_every_steps=6)


def test_the_last_step_is_checked_too(poison, tmp_path):
    with pytest.raises(Diverged, match="diverged at step 6"):
        poison().train(tmp_path, feed=feed_with(5))


def test_skip_makes_no_update_and_counts(poison, tmp_path):
    run = poison(max_bad_steps=2)
    policy = dict(nonfinite="skip", max_nonfinite=2, log_every_steps=1)
    summary, state = run.train(tmp_path, feed=feed_with(1, 2, 4), **policy)
    assert_same(learned(state), learned(after(run, 0, None, None, 3, None, 5)))
    assert (summary.steps, summary.skipped, summary.target_tokens) == (6, 3, 3 * 20)
    entries = [e for e in read_metrics(tmp_path / "metrics.jsonl") if e["split"] == "train"]
    assert [entry["skipped"] for entry in entries] == [0, 1, 2, 2, 3, 3]
    assert [entry["loss"] is None for entry in entries] == [False, True, True, False, True, False]
    # A rate is that of an update, of which there are fewer.
    assert entries[-1]["learning_rate"] == 0.001 * 3


def test_skip_ends_after_so_many_in_a_row(poison, tmp_path):
    run = poison(max_bad_steps=2)
    with pytest.raises(Diverged, match="step 4: .* of batch 3 .* of 2 steps in a row before it"):
        run.train(tmp_path, feed=feed_with(1, 2, 3), nonfinite="skip", max_nonfinite=2)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [{}, dict(nonfinite="rewind", max_nonfinite=1)])
def test_what_was_skipped_is_forgiven_under_another_policy(poison, tmp_path, policy):
    skips = dict(nonfinite="skip", max_nonfinite=2, steps=2, checkpoint_every_steps=1)
    poison(max_bad_steps=2).train(tmp_path, feed=feed_with(0, 1), **skips)
    summary, state = poison().train(tmp_path, steps=4, **policy)
    assert (summary.steps, summary.skipped, summary.rewinds) == (4, 2, 0)
    assert_same(learned(state), learned(after(poison(), None, None, 2, 3)))


def test_a_step_that_cannot_be_kept_hides_nothing(poison, tmp_path):
    def dump(state, batch):
        raise OSError(errno.ENOSPC, "No space left on device", "state")

    told = "diverged at step 2: .*; the step could not be kept: state: No space left on device$"
    with pytest.raises(Diverged, match=told):
        poison().train(tmp_path, feed=feed_with(1), dump=dump)


def test_rewind_goes_on_from_the_last_checkpoint_past_the_batch(poison, tmp_path):
    run = poison()
    summary, state = run.train(tmp_path, feed=feed_with(3, 7), nonfinite="rewind", steps=8)
    # Of a checkpoint every second step: 2, left out 2 and 3; 4 is after batches 4 and 5; left out
    # are 6 and 7.
    assert_same(learned(state), learned(after(run, 0, 1, 4, 5, 8, 9, 10, 11)))
    assert (summary.steps, summary.rewinds, summary.left_out) == (8, 2, 4)
    assert summary.target_tokens == 8 * 20
    entries = read_metrics(tmp_path / "metrics.jsonl")
    told = [
        {name: entry[name] for name in ("step", "bad_step", "bad_batch", "left_out", "rewinds")}
        for entry in entries
        if entry["split"] == "rewind"
    ]
    assert [tuple(each.values()) for each in told] == [(3, 4, 3, 2, 1), (5, 6, 7, 4, 2)]
    steps = [entry["step"] for entry in entries if entry["split"] == "train"]
    assert steps == [2, 3, 4, 6, 8]  # none twice


def test_rewind_begins_anew_where_there_is_no_checkpoint(poison, tmp_path):
    run = poison()
    _, state = run.train(tmp_path, feed=feed_with(1), nonfinite="rewind")
    assert_same(learned(state), learned(after(run, 2, 3, 4, 5, 6, 7)))
    assert int(state.left_out) == 2
    # The time to the first step was taken once, and stays.
    entries = read_metrics(tmp_path / "metrics.jsonl")
    assert [entry["step"] for entry in entries if entry["split"] == "start"] == [1]


def test_two_batches_in_a_row_are_gone_back_from_twice(poison, tmp_path):
    run = poison()
    _, state = run.train(tmp_path, feed=feed_with(2, 4), nonfinite="rewind", log_every_steps=1)
    assert_same(learned(state), learned(after(run, 0, 1, 5, 6, 7, 8)))
    entries = read_metrics(tmp_path / "metrics.jsonl")
    assert [e["rewinds"] for e in entries if e["split"] == "rewind"] == [1, 2]


def test_rewind_ends_after_so_many_in_a_run(poison, tmp_path):
    policy = dict(nonfinite="rewind", max_nonfinite=2)
    with pytest.raises(Diverged, match="of batch 5 are not finite, and the run has gone back 2 t"):
        poison().train(tmp_path, feed=feed_with(1, 3, 5), **policy)


@pytest.mark.slow
@pytest.mark.parametrize("nonfinite", ["skip", "rewind"])
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_run_that_ended_meanwhile_repeats_it(poison, tmp_path, nonfinite, end):
    run = poison(max_bad_steps=10 * (nonfinite == "skip"))
    bad = (2, 5, 6)
    policy = dict(nonfinite=nonfinite, steps=8, checkpoint_every_steps=3, log_every_steps=1)
    expected_summary, expected = run.train(tmp_path / "never", feed=feed_with(*bad), **policy)
    # Skipping, a run reads eight batches; going back, three more.
    for number in (4, 7) if nonfinite == "skip" else (4, 7, 10):
        read = []

        def ending(start, stop, number=number, read=read):
            feed = feed_with(*bad)(start, stop)
            if end == "stopped":
                together = zip(feed, interrupting(number)(start, stop), strict=True)
                yield from (ours for ours, _ in together)
                return
            for each in feed:
                read.append(each)
                if len(read) == number:
                    raise OSError("the machine is gone")
                yield each

        with pytest.raises(OSError if end == "killed" else Stopped):
            run.train(tmp_path / str(number), feed=ending, **policy)
        summary, state = run.train(tmp_path / str(number), feed=feed_with(*bad), **policy)
        assert_same(state, expected)
        assert summary._replace(seconds=0) == expected_summary._replace(seconds=0)
        kept = ("split", "step", "loss", "left_out", "rewinds", "skipped", "target_tokens")
        both = (
            [
                {name: value for name, value in entry.items() if name in kept}
                for entry in read_metrics(tmp_path / where / "metrics.jsonl")
                if entry["split"] != "start"
            ]
            for where in ("never", str(number))
        )
        ours, theirs = both
        assert ours == theirs


# What is written.


def test_a_dev_loss_that_is_none_ends_the_run(run, tmp_path):
    def lost(params):
        return Metrics(*map(np.float64, (math.nan, math.nan, 1.0, 1.0)))

    with pytest.raises(Diverged, match="diverged at step 3: the loss of dev is nan"):
        run.train(tmp_path, evaluate=lost)


def test_a_perplexity_too_large_for_a_float_ends_nothing_and_is_null(run, tmp_path):
    def large(params):
        return Metrics(*map(np.float64, (1000.0, 1000.0, 0.0, 1.0)))

    summary, _ = run.train(tmp_path, evaluate=large, evaluate_every_steps=1, patience=2)
    assert summary.stopped_early and summary.steps == 3  # it is no better than itself
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [(e["loss"], e["perplexity"]) for e in entries if e["split"] == "dev"] == [
        (1000.0, None)
    ] * 3


def test_a_state_that_is_no_number_is_not_saved(run, tmp_path):
    def spoiled(state, batch):
        state, metrics = step(state, batch)
        return state._replace(params=jax.tree.map(lambda x: x * jnp.nan, state.params)), metrics

    step, run.train_step = run.train_step, spoiled
    try:
        with pytest.raises(Diverged, match=r"step 1: .* \(.*/.*\) and is not saved"):
            run.train(tmp_path, checkpoint_every_steps=1)
    finally:
        run.train_step = step
    with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps == []


def test_a_checkpoint_from_before_bad_steps_were_counted_is_taken_up(run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        progress = checkpoint._progress
        old = ("seed", "step", "opt_state")
        patch.setattr(
            checkpoint, "_progress", lambda state: {name: progress(state)[name] for name in old}
        )
        with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
            checkpoints.save(after(run, 0, 1))
    _, state = run.train(tmp_path)
    assert_same(state, after(run, *range(6)))
