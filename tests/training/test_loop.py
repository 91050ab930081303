"""The loop: stopping and resuming, early stopping, and what it leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import types

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from t2t_jax.json_files import DiskFullError
from t2t_jax.training import clocks
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.loop import Stopped
from t2t_jax.training.loss import Metrics, sum_of
from t2t_jax.training.metrics_file import MetricsFile, read_metrics
from tests.training.runs import IDENTITY, batch


def interrupting(after):
    """A feed in which a person presses Ctrl-C while batch `after` is being read."""

    def feed(start, stop):
        for i in range(start, stop):
            if i == after:
                os.kill(os.getpid(), signal.SIGINT)
            yield batch(i)

    return feed


@pytest.mark.parametrize("after", [1, 4])
def test_a_run_that_was_stopped_and_resumed_equals_one_that_never_was(run, tmp_path, after):
    expected_summary, expected = run.train(tmp_path / "never")
    with pytest.raises(
        Stopped, match=f"stopped after step {after + 1}; run the same command again"
    ):
        run.train(tmp_path / "stopped", feed=interrupting(after))
    summary, state = run.train(tmp_path / "stopped")
    jax.tree.map(np.testing.assert_array_equal, state, expected)  # bit for bit
    with (
        Checkpoints(tmp_path / "never" / "checkpoints", identity=IDENTITY) as never,
        Checkpoints(tmp_path / "stopped" / "checkpoints", identity=IDENTITY) as stopped,
    ):
        assert never.steps[-2:] == stopped.steps[-2:]  # the same are averaged
    assert summary.target_tokens == expected_summary.target_tokens == 6 * 20


def test_the_warning_of_a_cluster_stops_a_run_unless_its_launcher_has_it_ignored(run, tmp_path):
    def warned(start, stop):
        for i in range(start, stop):
            if i == 1:
                os.kill(os.getpid(), signal.SIGUSR1)
            yield batch(i)

    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        summary, _ = run.train(tmp_path / "ignored", feed=warned)
        assert summary.steps == 6
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        with pytest.raises(Stopped, match="stopped after step 2"):
            run.train(tmp_path / "alone", feed=warned)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_metrics_are_on_the_disk_before_a_checkpoint_is(run, tmp_path, monkeypatch):
    done = []
    flush, save = MetricsFile.flush, Checkpoints.save
    monkeypatch.setattr(MetricsFile, "flush", lambda file: done.append("flush") or flush(file))
    monkeypatch.setattr(
        Checkpoints, "save", lambda *all, **how: done.append("save") or save(*all, **how)
    )
    monkeypatch.setattr(os, "fsync", lambda _: done.append("fsync"))
    run.train(tmp_path)
    first = done.index("save")
    assert done[first - 2 : first] == ["flush", "fsync"]


def test_a_signal_at_the_last_step_is_not_lost(run, tmp_path):
    with pytest.raises(Stopped, match="stopped after step 6"):
        run.train(tmp_path, feed=interrupting(5))
    summary, _ = run.train(tmp_path)
    assert summary.steps == 6 and not summary.stopped_early


def test_a_checkpoint_goes_only_when_its_successor_is_written(run, tmp_path, monkeypatch):
    with pytest.raises(Stopped, match="stopped after step 1"):
        run.train(tmp_path, feed=interrupting(0))
    done = []

    def recorded(name):
        original = getattr(ocp.CheckpointManager, name)

        def call(*arguments, **options):
            result = original(*arguments, **options)
            done.append(name)
            return result

        monkeypatch.setattr(ocp.CheckpointManager, name, call)

    for name in ("save", "wait_until_finished", "delete"):
        recorded(name)
    run.train(tmp_path)
    deleted = done.index("delete")
    assert done[deleted - 2 : deleted] == ["save", "wait_until_finished"]


def test_the_last_checkpoint_is_written_while_signals_still_find_their_handler(
    run, tmp_path, monkeypatch
):
    before, seen = signal.getsignal(signal.SIGTERM), []
    wait = Checkpoints.wait

    def waits(checkpoints):
        seen.append(signal.getsignal(signal.SIGTERM))
        wait(checkpoints)

    monkeypatch.setattr(Checkpoints, "wait", waits)
    run.train(tmp_path)
    assert seen and seen[-1] is not before


def test_a_signal_while_dev_is_evaluated_loses_no_step(run, tmp_path):
    def interrupted(params):
        os.kill(os.getpid(), signal.SIGINT)
        return Metrics(*map(np.float64, (1.0, 1.0, 1.0, 1.0)))

    with pytest.raises(Stopped, match="stopped after step 4"):
        run.train(tmp_path, evaluate=interrupted, checkpoint_every_steps=6)
    with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps == [4]


def test_a_killed_run_goes_on_from_its_last_checkpoint(run, tmp_path):
    def dying(start, stop):
        yield from map(batch, range(start, min(stop, 5)))
        raise OSError("the disk is gone")

    _, expected = run.train(tmp_path / "never")
    with pytest.raises(OSError, match="the disk is gone"):
        run.train(tmp_path / "killed", feed=dying, log_every_steps=1)
    _, state = run.train(tmp_path / "killed", log_every_steps=1)
    jax.tree.map(np.testing.assert_array_equal, state, expected)
    entries = read_metrics(tmp_path / "killed" / "metrics.jsonl")
    steps = [entry["step"] for entry in entries if entry["split"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6]  # step 5 was made twice, and stands there once


def test_a_finished_run_is_not_done_again(run, tmp_path):
    run.train(tmp_path)

    def no_feed(start, stop):
        assert start == stop
        return iter([])

    summary, _ = run.train(tmp_path, feed=no_feed)
    assert summary.steps == 6


def test_more_steps_continue_a_finished_run(run, tmp_path):
    _, expected = run.train(tmp_path / "at_once", steps=8)
    run.train(tmp_path / "in_two", steps=6)
    _, state = run.train(tmp_path / "in_two", steps=8)
    jax.tree.map(np.testing.assert_array_equal, state, expected)


def dev_perplexities(*values):
    """An `evaluate` that gives these in turn."""
    remaining = iter(values)

    def evaluate(params):
        nll = np.log(next(remaining))
        return Metrics(*map(np.float64, (nll, nll, 1.0, 1.0)))

    return evaluate


def test_training_stops_when_dev_perplexity_no_longer_improves(run, tmp_path):
    evaluate = dev_perplexities(9.0, 5.0, 6.0, 5.5, 1.0)
    summary, _ = run.train(tmp_path, evaluate=evaluate, evaluate_every_steps=1, patience=2)
    assert (summary.steps, summary.stopped_early) == (4, True)


def test_patience_is_remembered_over_a_restart(run, tmp_path):
    evaluate = dev_perplexities(5.0, 6.0)
    with pytest.raises(Stopped):
        run.train(
            tmp_path,
            evaluate=evaluate,
            feed=interrupting(1),
            evaluate_every_steps=1,
            patience=2,
        )
    evaluate = dev_perplexities(7.0, 1.0)
    summary, _ = run.train(tmp_path, evaluate=evaluate, evaluate_every_steps=1, patience=2)
    assert summary.steps == 3


def test_the_perplexity_of_a_last_step_out_of_turn_ends_no_extended_run(run, tmp_path):
    evaluate = dev_perplexities(5.0, 6.0)  # at step 2, and at 3 as the last
    run.train(tmp_path, evaluate=evaluate, evaluate_every_steps=2, patience=1, steps=3)
    evaluate = dev_perplexities(4.0, 3.0)
    summary, _ = run.train(tmp_path, evaluate=evaluate, evaluate_every_steps=2, patience=1)
    assert (summary.steps, summary.stopped_early) == (6, False)


def test_log_entries_hold_sums_divided_last(run, tmp_path):
    run.train(tmp_path)
    entries = read_metrics(tmp_path / "metrics.jsonl")
    train_entries = [entry for entry in entries if entry["split"] == "train"]
    assert [entry["target_tokens"] for entry in train_entries] == [40, 60, 80, 120]
    assert all(entry["target_tokens_per_second"] > 0 for entry in train_entries)
    assert [entry["step"] for entry in entries if entry["split"] == "dev"] == [3, 6]
    assert list((tmp_path / "tensorboard").iterdir())


def test_a_line_cut_by_a_kill_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"split": "train", "step": 2}) + '\n{"split": "tra')
    assert read_metrics(path) == [{"split": "train", "step": 2}]
    with MetricsFile(tmp_path, step=2) as metrics_file:
        metrics_file.write({"split": "train", "step": 3})
    assert [entry["step"] for entry in read_metrics(path)] == [2, 3]


def test_neither_evaluation_nor_checkpoint_counts_as_time_of_training(run, tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(clocks, "time", types.SimpleNamespace(monotonic=lambda: now))

    def takes(seconds, function):
        def call(*arguments, **options):
            nonlocal now
            now += seconds
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(run, "train_step", takes(1.0, run.train_step))
    monkeypatch.setattr(Checkpoints, "save", takes(50.0, Checkpoints.save))
    evaluate = takes(100.0, lambda params: sum_of([run.eval_step(params, batch(99))]))
    run.train(tmp_path, evaluate=evaluate)
    entries = read_metrics(tmp_path / "metrics.jsonl")
    speeds = [e["target_tokens_per_second"] for e in entries if e["split"] == "train"]
    assert speeds == [20.0] * 4


def test_a_perplexity_that_is_as_good_is_no_better(run, tmp_path):
    evaluate = dev_perplexities(5.0, 5.0, 5.0, 1.0)
    summary, _ = run.train(tmp_path, evaluate=evaluate, evaluate_every_steps=1, patience=2)
    assert summary.steps == 3


def test_a_model_that_diverged_is_not_saved(run, tmp_path, monkeypatch):
    nothing = jax.tree.map(lambda leaf: leaf * np.nan, run.initial.params)
    monkeypatch.setattr(run, "initial", run.initial._replace(params=nothing))
    with pytest.raises(FloatingPointError, match="diverged at step 1: the loss or"):
        run.train(tmp_path)
    with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
        assert checkpoints.steps == []


def _asked_twice(number):
    def feed(start, stop):
        for i in range(start, stop):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            yield batch(i)

    return feed


def test_a_second_interrupt_does_not_wait(run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run.train(tmp_path, feed=_asked_twice(signal.SIGINT))


def test_a_second_request_to_end_still_saves(run, tmp_path):
    with pytest.raises(Stopped, match="stopped after step 1"):
        run.train(tmp_path, feed=_asked_twice(signal.SIGTERM))


def test_signals_are_given_back(run, tmp_path):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    run.train(tmp_path)
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_metric_can_be_read_at_once(tmp_path):
    with MetricsFile(tmp_path, step=0) as metrics_file:
        metrics_file.write({"split": "train", "step": 1})
        assert read_metrics(tmp_path / "metrics.jsonl") == [{"split": "train", "step": 1}]


def test_metrics_are_means_over_tokens(run, tmp_path):
    totals = Metrics(*map(np.float64, (9.0, 2.0, 1.0, 2.0)))
    run.train(tmp_path, evaluate=lambda params: totals)
    entries = read_metrics(tmp_path / "metrics.jsonl")
    of_dev = next(entry for entry in entries if entry["split"] == "dev")
    assert (of_dev["loss"], of_dev["accuracy"]) == (4.5, 0.5)
    assert of_dev["perplexity"] == pytest.approx(np.e)
    first, state = entries[1], jax.tree.map(jnp.asarray, run.initial)
    metrics = []
    for i in range(2):
        state, of_step = run.train_step(state, batch(i))
        metrics.append(of_step)
    total = sum_of(metrics)
    assert first["loss"] == pytest.approx(total.loss / 40)
    assert first["perplexity"] == pytest.approx(np.exp(total.negative_log_likelihood / 40))
    assert first["accuracy"] == pytest.approx(total.correct / 40)


def test_every_start_says_when_its_first_step_was_done(run, tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(clocks, "time", types.SimpleNamespace(monotonic=lambda: now))

    def train_step(*arguments, step=run.train_step):
        nonlocal now
        now += 3.0
        return step(*arguments)

    monkeypatch.setattr(run, "train_step", train_step)
    with pytest.raises(Stopped):
        run.train(tmp_path, feed=interrupting(2))
    run.train(tmp_path)
    starts = [e for e in read_metrics(tmp_path / "metrics.jsonl") if e["split"] == "start"]
    assert [e["seconds_to_first_step"] for e in starts] == [3.0, 3.0]
    assert [e["seconds"] for e in starts] == [3.0 * e["step"] for e in starts]
    assert starts[0]["step"] == 1 < starts[1]["step"]


def test_the_rate_told_of_a_step_is_that_of_the_step(run, tmp_path):
    run.train(tmp_path)
    entries = read_metrics(tmp_path / "metrics.jsonl")
    rates = {e["step"]: e["learning_rate"] for e in entries if e["split"] == "train"}
    assert rates == {step: 0.001 * step for step in (2, 3, 4, 6)}


class _Killed(BaseException):
    """In the place of a signal that no process survives."""


def test_a_kill_before_one_out_of_turn_goes_leaves_none_of_it_in_the_average(
    run, tmp_path, monkeypatch
):
    def killed(*_):
        raise _Killed

    def steps(name):
        with Checkpoints(tmp_path / name / "checkpoints", identity=IDENTITY) as checkpoints:
            return checkpoints.steps

    run.train(tmp_path / "never")
    with pytest.raises(Stopped, match="stopped after step 3"):
        run.train(tmp_path / "stopped", feed=interrupting(2))
    with monkeypatch.context() as patch:
        patch.setattr(ocp.CheckpointManager, "delete", killed)
        with pytest.raises(_Killed):
            run.train(tmp_path / "stopped")
    assert steps("stopped") == [2, 3, 4]
    run.train(tmp_path / "stopped")
    assert steps("stopped") == steps("never") == [2, 4, 6]


def test_one_out_of_turn_stays_until_there_is_a_later_one(run, tmp_path):
    for after, left in ((2, [2, 3]), (4, [2, 4, 5])):
        with pytest.raises(Stopped):
            run.train(tmp_path, feed=interrupting(after))
        with Checkpoints(tmp_path / "checkpoints", identity=IDENTITY) as checkpoints:
            assert checkpoints.steps == left


@pytest.mark.parametrize("lines", [0, 2])
def test_what_a_run_has_seen_is_counted_on_where_its_metrics_are_lost(run, tmp_path, capsys, lines):
    with pytest.raises(Stopped, match="stopped after step 4"):
        run.train(tmp_path, feed=interrupting(3))
    path = tmp_path / "metrics.jsonl"
    before = read_metrics(path)
    if lines:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    else:
        path.unlink()
    last = before[lines - 1]["step"] if lines else 0
    summary, _ = run.train(tmp_path)
    assert summary.target_tokens == 6 * 20
    assert summary.seconds > before[-1]["seconds"]
    told = f"metrics.jsonl ends at step {last}, before the checkpoint of step 4: what was measured"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "damaged", ['{"split": "tr', "7", '{"step": 3}', '{"split": 1, "step": 2}']
)
def test_a_damaged_line_of_the_metrics_is_told(tmp_path, damaged):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"split": "train", "step": 1}}\n{damaged}\n{{"split": "dev", "step": 2}}\n')
    with pytest.raises(ValueError, match=r"^[^\n]*metrics\.jsonl is damaged, line 2 [^\n]+$"):
        read_metrics(path)


@pytest.fixture
def small_disk(tmp_path):
    """Makes a disk of so many KiB."""
    disks = []

    def make(size):
        disk = tmp_path / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only root can make a small disk here")
        disks.append(disk)
        return disk

    yield make
    for disk in disks:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # files may be open


def test_a_full_disk_is_told_in_a_sentence_and_the_run_goes_on_when_there_is_room(
    run, small_disk, tmp_path, capsys
):
    workdir = small_disk(400) / "w"
    with pytest.raises(DiskFullError, match=r"^[^\n]*disk/w[^\n]* \(No space left [^\n]+ whole$"):
        run.train(workdir, keep_checkpoints=100, steps=200)
    assert "Traceback" not in capsys.readouterr().err
    shutil.copytree(workdir, tmp_path / "roomy")
    run.train(tmp_path / "never", steps=20, keep_checkpoints=100)
    _, expected = run.train(tmp_path / "never", steps=20, keep_checkpoints=100)
    _, state = run.train(tmp_path / "roomy", steps=20, keep_checkpoints=100)
    jax.tree.map(np.testing.assert_array_equal, state, expected)


def test_a_disk_that_is_full_of_metrics_is_told_at_once(small_disk):
    disk = small_disk(64)
    with pytest.raises(DiskFullError, match=r"disk/metrics.jsonl cannot be written \(No space"):
        with MetricsFile(disk, step=0) as file:
            for step in range(10_000):
                file.write({"split": "train", "step": step, "loss": 1.0})
    assert step < 2_000
