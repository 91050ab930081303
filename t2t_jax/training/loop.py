"""The training loop: steps, and between them what must be logged, measured and saved."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from t2t_jax import hosts
from t2t_jax.data.batches import Batch
from t2t_jax.training.checkpoint import Checkpoints, CheckpointsOfSeeds
from t2t_jax.training.config import TrainingConfig
from t2t_jax.training.loss import Metrics, perplexity, sum_of
from t2t_jax.training.metrics_file import MetricsFile
from t2t_jax.training.progress import Progress
from t2t_jax.training.step import TrainState, TrainStep

# What the log says once the first step is compiled and done.
FIRST_STEP = "first step after"

# A question takes as long as a small step; a machine that is to be taken away has seconds.
_STEPS_BETWEEN_QUESTIONS = 10

Feed = Callable[[int, int], Iterator[Batch]]  # batches from a step, up to one
Evaluate = Callable[[PyTree], Metrics]  # of the dev split


class Stopped(Exception):
    """The run was asked to stop, and saved a checkpoint from which it will go on."""


class Summary(NamedTuple):
    """What a finished run amounts to, over all the times it was started."""

    steps: int
    target_tokens: int  # seen in training, without padding
    seconds: float  # in the loop, evaluation and compilation included; with other seeds its share
    stopped_early: bool


def train(
    state: TrainState,
    config: TrainingConfig,
    *,
    train_step: TrainStep,
    feed: Feed,
    evaluate: Evaluate,
    learning_rate: Callable[[int], float],
    checkpoints: Checkpoints | CheckpointsOfSeeds,
    workdirs: Sequence[Path],
) -> list[Summary]:
    """Trains from `state` to the last step, or until dev perplexity has stopped to improve.

    With several `workdirs` these are of runs that differ in their seed and are trained together:
    everything that `state`, `train_step`, `feed` and `evaluate` take and give then has a first
    axis of seeds.

    Raises:
      Stopped: on SIGTERM, SIGINT or SIGUSR1, after a checkpoint was written.
      FloatingPointError: the loss is not a number any more.
      ValueError: see `common_step`.
    """
    step = common_step(state)
    with (
        contextlib.ExitStack() as stack,
        _stop_requests() as stop_requested,
        Progress("train", config.steps, step) as progress,
    ):
        files = [stack.enter_context(MetricsFile(workdir, step)) for workdir in workdirs]
        clocks = [_Clock(file.entries, len(files)) for file in files]
        first, seconds_before = step, clocks[0].seconds
        window = _Window()
        batches = feed(step, config.steps)
        while step < config.steps and not _out_of_patience(files[0].entries, config.patience):
            state, metrics = train_step(state, next(batches))
            step += 1
            window.add(metrics)
            if step == first + 1:
                jax.block_until_ready(metrics)
                seconds = clocks[0].seconds - seconds_before
                progress.log(f"{FIRST_STEP} {seconds:.1f} s in the loop")
            is_last = step == config.steps
            stops = not is_last and _stops(stop_requested, step)
            saves = step % config.checkpoint_every_steps == 0 or is_last or stops
            evaluates = step % config.evaluate_every_steps == 0 or is_last
            if step % config.log_every_steps == 0 or evaluates or saves:
                entries = window.close(step, learning_rate(step), clocks)
                for file, entry in zip(files, entries, strict=True):
                    file.write(entry)
                progress.update(step, _train_text(entries))
                _check_finite(entries)
            if evaluates:
                totals = _by_seed(evaluate(state.params))
                entries = [
                    _dev_entry(step, total, clock)
                    for total, clock in zip(totals, clocks, strict=True)
                ]
                for file, entry in zip(files, entries, strict=True):
                    file.write(entry)
                perplexities = ", ".join(f"{entry['perplexity']:.3f}" for entry in entries)
                progress.log(f"step {step}: dev perplexity {perplexities}")
                window.restart()
            if saves:
                _save(checkpoints, state, files)
                window.restart()
                if first % config.checkpoint_every_steps != 0:
                    # It was saved out of turn, when the run was stopped, and is no longer needed:
                    # what is averaged at the end is then the same as if it had not been.
                    checkpoints.delete(first)
            if stops:
                break
        _save(checkpoints, state, files)
        checkpoints.wait()  # while a request to stop still finds its handler
        if hosts.any_of(stop_requested.is_set()):
            raise Stopped(f"stopped after step {step}; the same command goes on from there")
    return [
        Summary(step, clock.target_tokens, clock.share, step < config.steps) for clock in clocks
    ]


def _save(
    checkpoints: Checkpoints | CheckpointsOfSeeds, state: TrainState, files: list[MetricsFile]
) -> None:
    """Saves a checkpoint, and first what was measured, which is never behind it on the disk."""
    for file in files:
        file.flush()
    checkpoints.save(state)


class _Clock:
    """Seconds and target tokens of a run, counted on from what its metrics file says."""

    def __init__(self, entries: list[dict], num_together: int) -> None:
        last = next((entry for entry in reversed(entries) if "target_tokens" in entry), {})
        self.target_tokens = int(last.get("target_tokens", 0))
        self._seconds_before = float(entries[-1]["seconds"]) if entries else 0.0
        self._share_before = self._seconds_before
        if entries:
            self._share_before = float(entries[-1].get("seconds_share", self._seconds_before))
        self._num_together = num_together
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """In the loop, over all the times it was started."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def share(self) -> float:
        """Of these the run's own, where several seeds are or were trained together."""
        return self._share_before + (time.monotonic() - self._started) / self._num_together

    def times(self) -> dict[str, float]:
        """What an entry says of them; the share where it is another."""
        if self._num_together == 1 and self._share_before == self._seconds_before:
            return {"seconds": self.seconds}
        return {"seconds": self.seconds, "seconds_share": self.share}


class _Window:
    """The steps since the last log entry. Sums stay on the devices until it is closed."""

    def __init__(self) -> None:
        self._metrics: list[Metrics] = []
        self.restart()

    def restart(self) -> None:
        """Starts the clock, after something that is no training."""
        self._started = time.monotonic()

    def add(self, metrics: Metrics) -> None:
        self._metrics.append(metrics)

    def close(self, step: int, learning_rate: float, clocks: Sequence[_Clock]) -> list[dict]:
        """The log entry of the window, for each seed; a new one starts."""
        seconds = time.monotonic() - self._started
        entries = []
        for total, clock in zip(_by_seed(sum_of(self._metrics)), clocks, strict=True):
            tokens = float(total.tokens)
            clock.target_tokens += int(tokens)
            entries.append(
                {
                    "split": "train",
                    "step": step,
                    "loss": float(total.loss) / tokens,  # nats per token, label-smoothed
                    "perplexity": perplexity(total),
                    "accuracy": float(total.correct) / tokens,
                    "learning_rate": learning_rate,
                    "target_tokens_per_second": tokens / seconds,
                    "target_tokens": clock.target_tokens,
                    **clock.times(),
                }
            )
        self._metrics = []
        self.restart()
        return entries


def _by_seed(total: Metrics) -> list[Metrics]:
    """The sums of each seed; of one alone they have no axis."""
    if np.ndim(total.tokens) == 0:
        return [total]
    columns: Any = total
    return [Metrics(*sums) for sums in zip(*columns, strict=True)]


def common_step(state: TrainState) -> int:
    """How many updates have been made, of all seeds where there are several.

    Raises:
      ValueError: the seeds have not come equally far.
    """
    steps = np.unique(jax.device_get(state.step))
    if len(steps) > 1:
        raise ValueError(
            f"the runs of the seeds have come to different steps, {steps.tolist()}: they must be "
            "trained one by one"
        )
    return int(steps[0])


def _dev_entry(step: int, total: Metrics, clock: _Clock) -> dict:
    return {
        "split": "dev",
        "step": step,
        "loss": float(total.loss / total.tokens),
        "perplexity": perplexity(total),
        "accuracy": float(total.correct / total.tokens),
        **clock.times(),
    }


def _train_text(entries: Sequence[dict]) -> str:
    losses = ", ".join(f"{entry['loss']:.3f}" for entry in entries)
    speed = sum(entry["target_tokens_per_second"] for entry in entries)
    return f"loss {losses}  lr {entries[0]['learning_rate']:.2e}  {speed:,.0f} target tokens/s"


def _check_finite(entries: Sequence[dict]) -> None:
    for entry in entries:
        if not math.isfinite(entry["loss"]):
            raise FloatingPointError(
                f"the training loss is {entry['loss']} at step {entry['step']}: a lower learning "
                "rate or a longer warm-up helps; the last checkpoint is kept"
            )


def _out_of_patience(entries: list[dict], patience: int) -> bool:
    """Whether the last `patience` dev perplexities are all no better than the best before."""
    perplexities = [entry["perplexity"] for entry in entries if entry["split"] == "dev"]
    if patience == 0 or len(perplexities) <= patience:
        return False
    return min(perplexities[-patience:]) >= min(perplexities[:-patience])


def _stops(requested: threading.Event, step: int) -> bool:
    """Whether to stop after this step. Several hosts ask each other, but not at every step."""
    if hosts.are_several() and step % _STEPS_BETWEEN_QUESTIONS != 0:
        return False
    return hosts.any_of(requested.is_set())


class _stop_requests:
    """Turns SIGTERM, SIGINT and SIGUSR1 into an event while the loop runs."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)  # the last is usual in SLURM

    def __enter__(self) -> threading.Event:
        event = threading.Event()
        self._handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                if number == signal.SIGUSR1 and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # whoever started this has it sent, and deals with it
                self._handlers[number] = signal.signal(
                    number, lambda number, _: self._request(event, number)
                )
        return event

    @staticmethod
    def _request(event: threading.Event, number: int) -> None:
        # A person who asks twice is in haste: a step may take long, or never come. A machine that
        # is to be taken away may tell the run as well as whoever started it.
        if event.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        event.set()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
