"""The training loop: steps, with logging, evaluation and saving in between."""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from jaxtyping import PyTree

from t2t_jax import buckets, hosts
from t2t_jax.data.batches.batches import Batch
from t2t_jax.json_files import error_text
from t2t_jax.training import trace
from t2t_jax.training.about import About
from t2t_jax.training.checkpoint import Checkpoints
from t2t_jax.training.clocks import CheckpointTurn, Clock, Window
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.goodput import Goodput
from t2t_jax.training.loss import Metrics, perplexity
from t2t_jax.training.metrics_file import MetricsFile
from t2t_jax.training.nonfinite import BadStep, Diverged, past
from t2t_jax.training.progress import Progress
from t2t_jax.training.step import TrainState, TrainStep, count_like
from t2t_jax.training.stop_requests import StopRequests, left_text

Feed = Callable[[int, int], Iterator[Batch]]  # batches from one step up to another
Evaluate = Callable[[PyTree], Metrics]  # on the dev split
Dump = Callable[[TrainState, Batch], str]  # saves a failed step; says what failed, and where


class Stopped(Exception):
    """The run was asked to stop, and saved a checkpoint to resume from."""


class Summary(NamedTuple):
    """The totals of a finished run, over all its starts, without what a kill made it repeat."""

    steps: int
    target_tokens: int  # seen in training, without padding
    seconds: float  # in the loop, evaluation and compilation included
    stopped_early: bool
    skipped: int = 0  # steps without an update, since their numbers were not finite
    rewinds: int = 0  # times it went back to a checkpoint for that reason
    left_out: int = 0  # batches skipped by going back


def train(
    state: TrainState,
    config: TrainingConfig,
    *,
    train_step: TrainStep,
    feed: Feed,
    evaluate: Evaluate,
    learning_rate: Callable[[int], float],
    checkpoints: Checkpoints,
    workdir: Path,
    restore: Callable[[], TrainState],
    dump: Dump,
    as_saved: Callable[[TrainState], TrainState] = lambda state: state,
    measures: Callable[[float], dict[str, float]] = lambda rate: {},
    profile_steps: trace.Steps | None = None,
) -> Summary:
    """Trains from `state` to the last step, or until dev perplexity stops improving.

    Args:
      learning_rate: of an update, counted from 1.
      restore: returns the state of the last checkpoint, else the one before the first step.
      dump: takes the state before a bad step, and its batch.
      as_saved: the state in the form that checkpoints have.
      measures: extra numbers for the metrics, given target tokens/s.
      profile_steps: steps to trace.

    Raises:
      Stopped: on SIGTERM, SIGINT or SIGUSR1, after writing a checkpoint.
      Diverged: non-finite numbers, in steps more often than `config` allows, or on dev.
      DiskFullError: no space for a checkpoint or the metrics; in words.
    """
    if int(state.bad_steps) > config.max_bad_steps:  # saved while `nonfinite` allowed so many
        state = state._replace(bad_steps=count_like(state.bad_steps, 0))
    step = int(state.step)
    stops = has_started = False
    window = Window()
    checkpoints.tidy()
    goodput, turn, shapes_seen = Goodput(), CheckpointTurn(config), set()
    with (
        contextlib.closing(trace.Trace(profile_steps, workdir / "profile")) as traced,
        StopRequests(
            lambda: _stop_text(window, state), lambda: left_text(checkpoints.directory)
        ) as stop_requested,
        Progress("train", config.steps, step) as progress,
        MetricsFile(workdir, step) as file,
    ):
        _tell_what_is_lost(file.entries, checkpoints.restored)
        clock = Clock(file.entries, checkpoints.restored)
        if checkpoints.restored is not None:
            turn.restart(clock.seconds - checkpoints.seconds_in_turn)
        batches = _batches(state, feed, config)
        while step < config.steps and not _out_of_patience(file.entries, config.patience):
            with goodput.spent_on("input"):
                batch = next(batches)
            traced.before(step + 1)
            shape = tuple(leaf.shape for leaf in jax.tree.leaves(batch))
            is_compiled = shape in shapes_seen
            with contextlib.nullcontext() if is_compiled else goodput.spent_on("compile"):
                state, metrics = train_step(state, batch)
            shapes_seen.add(shape)
            step += 1
            traced.after(step, metrics)
            window.add(metrics)
            if not has_started:
                has_started = True
                jax.block_until_ready(metrics)
                entry = _start_entry(step, clock)
                file.write(entry)
                progress.log(f"first step after {entry['seconds_to_first_step']:.1f} s in the loop")
            is_last = step == config.steps
            stops = hosts.stop_together(stop_requested.is_set()) and not is_last
            is_due = turn.has_come(step)
            saves = is_due or is_last or stops
            evaluates = step % config.evaluate_every_steps == 0 or is_last
            if step % config.log_every_steps == 0 or evaluates or saves:
                if int(state.bad_steps) > config.max_bad_steps:
                    bad = _bad_step_to_leave_out(state, config, feed, dump)
                    state = past(bad, _restored(state, checkpoints, restore))
                    step = int(state.step)
                    file.forget_after(step)
                    file.write(_rewind_entry(bad, state, clock))
                    progress.log(_rewind_text(bad, step))
                    clock.go_back(file.entries, checkpoints.restored)
                    window, batches = Window(), _batches(state, feed, config)
                    continue
                skipped = int(state.skipped)
                entry = window.close(step, learning_rate(step - skipped), clock)
                if config.nonfinite == "skip":
                    entry["skipped"] = skipped
                entry |= measures(entry["target_tokens_per_second"]) | goodput.shares()
                file.write(entry)
                progress.update(step, _train_text(entry))
            if evaluates:
                with goodput.spent_on("evaluation"):
                    entry = _dev_entry(step, evaluate(state.params), clock)
                if step % config.evaluate_every_steps:
                    entry["out_of_turn"] = True
                file.write(entry)
                progress.log(f"step {step}: dev perplexity {entry['perplexity']:.3f}")
                window.restart()
            if saves:
                with goodput.spent_on("checkpoint"):
                    _save(
                        checkpoints, as_saved, state, file, clock, workdir, out_of_turn=not is_due
                    )
                turn.restart()
                window.restart()
            if stops:
                break
        # Unless it has one.
        _save(checkpoints, as_saved, state, file, clock, workdir, out_of_turn=True)
        checkpoints.wait()  # while requests to stop are still handled
        if stops or hosts.any_of(stop_requested.is_set()):
            raise Stopped(
                f"stopped after step {step}; run the same command again to go on from there"
            )
    counts = (int(count) for count in (state.skipped, state.rewinds, state.left_out))
    return Summary(step, clock.target_tokens, clock.seconds, step < config.steps, *counts)


def _batches(state: TrainState, feed: Feed, config: TrainingConfig) -> Iterator[Batch]:
    """The batches left for a run in this state."""
    left_out = int(state.left_out)
    return feed(int(state.step) + left_out, config.steps + left_out)


def _bad_step_to_leave_out(
    state: TrainState, config: TrainingConfig, feed: Feed, dump: Dump
) -> BadStep:
    """The bad step of `state`; raises Diverged if the run may not go back once more."""
    bad = BadStep.of(state)
    if config.nonfinite != "rewind" or bad.rewinds >= config.max_nonfinite:
        [batch] = feed(bad.batch, bad.batch + 1)
        try:
            kept = dump(state, batch)
        except Exception as error:  # a full disk, or memory: it must not hide what happened
            [why, *_] = error_text(error).splitlines() or [type(error).__name__]
            kept = f"the step could not be kept: {why}"
        raise Diverged(_diverged_text(bad, config) + kept)
    return bad


def _restored(
    state: TrainState, checkpoints: Checkpoints, restore: Callable[[], TrainState]
) -> TrainState:
    """What `restore` returns, to replace `state`."""
    jax.tree.map(lambda leaf: leaf.delete(), state)  # a device may have no room for two
    # With one of them, a stopped run would go back to another place.
    checkpoints.delete_out_of_turn()
    restored = restore()
    checkpoints.tidy()
    return restored


def _save(
    checkpoints: Checkpoints,
    as_saved: Callable[[TrainState], TrainState],
    state: TrainState,
    file: MetricsFile,
    clock: Clock,
    workdir: Path,
    *,
    out_of_turn: bool,
) -> None:
    """Saves the measurements, then a checkpoint: on disk, they never lag behind it."""
    file.flush()
    if hosts.is_first():
        try:
            buckets.upload(workdir)
        except Exception as error:  # they go with the next ones; a checkpoint has tries of its own
            hosts.log(f"measurements have not reached {buckets.name_of(workdir)}: {error}")
    if int(state.step) not in checkpoints.steps:
        checkpoints.save(
            as_saved(state),
            target_tokens=clock.target_tokens,
            seconds=clock.seconds,
            out_of_turn=out_of_turn,
        )
    checkpoints.tidy()


def _tell_what_is_lost(entries: list[dict], restored: About | None) -> None:
    """Warns if the metrics file ends before the checkpoint that the run resumes from."""
    last = max((entry["step"] for entry in entries), default=0)
    if restored is not None and last < restored.step:
        counts = "" if restored.target_tokens is None else ", tokens and seconds are counted on"
        hosts.log(
            f"metrics.jsonl ends at step {last}, before the checkpoint of step {restored.step}: "
            f"what was measured between is lost{counts}"
        )


def _start_entry(step: int, clock: Clock) -> dict:
    """Records that the first step of this start is compiled and done."""
    seconds = clock.seconds_since_start
    return {
        "split": "start",
        "step": step,
        "seconds_to_first_step": seconds,
        "seconds": clock.seconds,
    }


def _dev_entry(step: int, total: Metrics, clock: Clock) -> dict:
    if not math.isfinite(total.loss) or not math.isfinite(total.negative_log_likelihood):
        raise Diverged(
            f"diverged at step {step}: the loss of dev is {float(total.loss / total.tokens)} after "
            "it; the checkpoints before it are kept"
        )
    return {
        "split": "dev",
        "step": step,
        "loss": float(total.loss / total.tokens),
        "perplexity": perplexity(total),
        "accuracy": float(total.correct / total.tokens),
        "seconds": clock.seconds,
    }


def _train_text(entry: dict) -> str:
    speed = entry["target_tokens_per_second"]
    skipped = f"  {entry['skipped']} steps skipped" if entry.get("skipped") else ""
    return (
        f"loss {entry['loss']:.3f}  lr {entry['learning_rate']:.2e}  {speed:,.0f} target tokens/s"
        f"{skipped}"
    )


def _diverged_text(bad: BadStep, config: TrainingConfig) -> str:
    before = ""
    if config.nonfinite == "skip":
        before = f", nor were those of {config.max_nonfinite} steps in a row before it"
    elif config.nonfinite == "rewind":
        times = "once" if config.max_nonfinite == 1 else f"{config.max_nonfinite} times"
        before = f", and the run has gone back {times}"
    return (
        f"diverged at step {bad.number}: the loss or the gradients of batch {bad.batch} are not "
        f"finite{before}; "
    )


def _rewind_entry(bad: BadStep, state: TrainState, clock: Clock) -> dict:
    """Records that the run goes back to `state`; its step is the one that comes next."""
    return {
        "split": "rewind",
        "step": int(state.step) + 1,
        "bad_step": bad.number,
        "bad_batch": bad.batch,
        "left_out": int(state.left_out),
        "rewinds": int(state.rewinds),
        "seconds": clock.seconds,
    }


def _rewind_text(bad: BadStep, step: int) -> str:
    return (
        f"step {bad.number}: the loss or the gradients of batch {bad.batch} are not finite; "
        f"back to step {step}, which batch {bad.batch + 1} follows"
    )


def _out_of_patience(entries: list[dict], patience: int) -> bool:
    """Whether the last `patience` dev perplexities are all no better than the best before.

    That of a last step out of turn does not count, should the run be extended.
    """
    if patience == 0:
        return False
    perplexities = [
        math.inf if entry["perplexity"] is None else entry["perplexity"]  # as JSON has it
        for entry in entries
        if entry["split"] == "dev" and not entry.get("out_of_turn")
    ]
    if len(perplexities) <= patience:
        return False
    return min(perplexities[-patience:]) >= min(perplexities[:-patience])


def _stop_text(window: Window, state: TrainState) -> str:
    """The answer to a request to stop: what happens first, and how long it may take."""
    seconds = window.seconds_a_step
    takes = "the first may be compiled for a minute" if seconds is None else f"{seconds:.1f} s each"
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state)) / 1e6
    return (
        f"stopping: the steps that have begun end first ({takes}), then a checkpoint of "
        f"{size:,.1f} MB is written; a second Ctrl-C leaves at once, without it"
    )
