"""Time left of a sweep: start-up, training and scoring of all remaining runs.

In: the directories of its runs, and how many run at a time. Out: seconds, and what they leave out.
Finished runs show how long one takes; before there are any, the progress of those in training.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from experiments.run import presence, record
from t2t_jax.json_files import flat_dict
from t2t_jax.training.metrics_file import read_metrics

# The share of a training step, and of decoding, that does not grow with the model. With these, the
# runs of experiments/results/table3_tiny predict each other, most of them to a tenth.
_FIXED_SHARE_OF_TRAINING = 0.25
_FIXED_SHARE_OF_SCORING = 0.5
# Of a run's steps. With fewer, its own speed, which includes compiling the first dev evaluation,
# is off by more than a factor of two in the runs of experiments/results.
_ENOUGH = 0.1
# Scoring takes a minute or so: a forecast without it says nothing about a sweep this short.
_LEAST_SECONDS_WITHOUT_SCORING = 100.0
_OVERDUE = 0.1
# A file may hold any number; products of larger ones would overflow.
_LARGEST = 1e15

NOTHING_KNOWN = "no run has come far enough to tell"
NO_SCORING = "without scoring, which no run has done yet"


class Job(NamedTuple):
    """What is known about one run; None is unknown."""

    row: str  # runs of one row differ only in their seed
    tokens: float  # to train on, padding included
    size: float  # of the model: see `_size`
    beam: float  # 0 for a trial, which translates nothing: its scoring counts as overhead
    stage: str = "waiting"  # waiting | starting | training | scoring | over
    trained: float = 0.0  # the share of its training that need not be repeated
    elapsed: float = 0.0  # seconds since the stage began, or since its last sign of progress
    train: float | None = None  # seconds of all its training, without compilation
    score: float | None = None
    overhead: float | None = None  # seconds from its start to its first step, and the like
    train_left: float | None = None  # by its own speed, when `elapsed` began
    spent: float = 0.0  # seconds
    repeats: bool = False  # whether an earlier run of its row has compiled its programs


_DAMAGED = Job("", 1.0, 1.0, 1.0, stage="over")


class Forecast(NamedTuple):
    """How long a sweep still takes."""

    seconds: float | None  # None if unknown
    missing: str  # what the seconds leave out, or why there are none; else empty
    of_runs: list[float | None]  # seconds left for each, 0 once it is over
    share: float  # the part of the sweep's total time that is over


def forecast(jobs: Sequence[Job], parallel: int) -> Forecast:
    """The forecast for runs started in this order, `parallel` at a time."""
    rows = [job.row for job in jobs]
    jobs = [job._replace(repeats=job.row in rows[:at]) for at, job in enumerate(jobs)]
    trains = _predictor(jobs, lambda job: job.train, _training_ratio)
    scores = _predictor([job for job in jobs if job.beam], lambda job: job.score, _scoring_ratio)
    overheads = _predictor(jobs, lambda job: job.overhead, lambda one, other: 1.0)
    lefts: list[float | None] = []
    totals = []
    for job in jobs:
        train = trains(job)
        score = scores(job) if job.beam else 0.0
        overhead = overheads(job) or 0.0
        lefts.append(_left(job, train, score, overhead))
        totals.append((train or 0.0) + (score or 0.0) + overhead)
    to_come = [(job, left) for job, left in zip(jobs, lefts, strict=True) if job.stage != "over"]
    seconds = makespan(
        [left or 0.0 for job, left in to_come if job.stage != "waiting"],
        [left or 0.0 for job, left in to_come if job.stage == "waiting"],
        parallel,
    )
    has_scores = any(job.score is not None for job in jobs)
    is_too_early = to_come and not has_scores and seconds < _LEAST_SECONDS_WITHOUT_SCORING
    if is_too_early or any(left is None for _, left in to_come):
        share = sum(job.stage == "over" for job in jobs) / len(jobs)
        return Forecast(None, NOTHING_KNOWN, lefts, share)
    whole = sum(totals)
    # A run that takes longer than predicted has nothing left of its predicted time.
    rest = sum(min(left or 0.0, total) for left, total in zip(lefts, totals, strict=True))
    share = 1 - rest / whole if whole else 1.0
    return Forecast(seconds, "" if has_scores or not to_come else NO_SCORING, lefts, share)


def _left(job: Job, train: float | None, score: float | None, overhead: float) -> float | None:
    if job.stage == "over":
        return 0.0
    if job.stage == "scoring":
        return None if score is None else _rest(score, job.elapsed)
    if job.trained == 1:
        return None if score is None else _rest(overhead, job.elapsed) + score
    train_left = job.train_left
    if train_left is None:
        if train is None:
            return None
        train_left = train * (1 - job.trained)
    if job.stage != "training":
        train_left += overhead
    return _rest(train_left, job.elapsed) + (score or 0.0)


def _rest(seconds: float, elapsed: float) -> float:
    """Seconds left of a stage; one that is overdue is not expected to end at any moment."""
    return max(seconds - elapsed, _OVERDUE * elapsed)


def makespan(running: Iterable[float], waiting: Iterable[float], parallel: int) -> float:
    """Time until the last one ends, if each of `waiting`, in order, begins once there is room."""
    ends = sorted(running)
    ends = [0.0] * (parallel - len(ends)) + ends
    for seconds in waiting:
        ends.sort()
        ends[0] += seconds
    return max(ends, default=0.0)


def _predictor(
    jobs: Sequence[Job],
    seconds: Callable[[Job], float | None],
    ratio: Callable[[Job, Job], float],
) -> Callable[[Job], float | None]:
    """Predicts what a job takes: by itself, else by others, first its row, then finished ones."""
    known = [(job, took) for job in jobs if (took := seconds(job)) is not None]
    over = [(job, took) for job, took in known if job.stage == "over"]
    firsts = {job.row: took for job, took in over if took and not job.repeats}
    shares = [took / firsts[job.row] for job, took in over if job.repeats and job.row in firsts]
    repeating = statistics.median(shares) if shares else 1.0  # relative to the first of its row

    def predicted(job: Job) -> float | None:
        if (own := seconds(job)) is not None:
            return own
        of_row = [(other, took) for other, took in known if other.row == job.row]
        evidence = of_row or over or known
        if not evidence:
            return None
        alike = [(other, took) for other, took in evidence if other.repeats == job.repeats]
        share = repeating if job.repeats and not alike else 1.0
        return share * statistics.median(
            took * ratio(job, other) for other, took in alike or evidence
        )

    return predicted


def _training_ratio(one: Job, other: Job) -> float:
    size = _with_fixed_share(one.size / other.size, _FIXED_SHARE_OF_TRAINING)
    return one.tokens / other.tokens * size


def _scoring_ratio(one: Job, other: Job) -> float:
    size = _with_fixed_share(one.size / other.size, _FIXED_SHARE_OF_SCORING)
    return one.beam / other.beam * size


def _with_fixed_share(ratio: float, fixed: float) -> float:
    return fixed + (1 - fixed) * ratio


def job_of(directory: Path) -> Job:
    """A run's times from its files; a run with damaged files counts as over."""
    try:
        return _read(directory)
    except (OSError, ValueError):
        return _DAMAGED


def _read(directory: Path) -> Job:
    run = record.read_run(directory)
    config = flat_dict(run.config)
    steps = _number(config, "training.steps")
    job = Job(
        f"{run.table} {run.row}",
        steps * _number(config, "data.target_tokens_per_batch"),
        _size(config),
        0.0 if run.kind == "trial" else _number(config, "decoding.beam_size"),
    )
    entries = [entry for entry in read_metrics(directory / "metrics.jsonl") if _is_timed(entry)]
    if record.is_finished(directory):
        return _over(job, record.read_record(directory), _compiling(entries))
    spent = entries[-1]["seconds"] if entries else 0.0
    job = job._replace(trained=_trained(directory, entries, steps), spent=spent)
    if job.trained == 1:
        took = record.read_json(directory / record.TRAINING_FILE).get("seconds")
        compiling = sum(_compiling(entries))
        job = job._replace(train=max(0.0, took - compiling) if _is_time(took) else None)
    sign = presence.read(directory)
    if sign is None or not sign.is_alive:
        return job
    now = time.time()
    since_start = max(0.0, now - sign.started)
    if job.trained == 1 and sign.stage == "scoring":
        since = _seconds_since(directory / record.TRAINING_FILE, now)
        return job._replace(stage="scoring", elapsed=min(since, since_start))
    if job.trained == 1 or sign.stage != "training" or not entries:
        return job._replace(stage="starting", elapsed=since_start)
    since = _seconds_since(directory / "metrics.jsonl", now)
    at = entries[-1]["step"]
    job = job._replace(
        stage="training", trained=min(at / steps, 0.999), elapsed=min(since, since_start)
    )
    return job._replace(**_own_speed(entries, steps))


def _over(job: Job, values: dict[str, Any], compiling: Sequence[float]) -> Job:
    seconds = values.get("seconds", {})
    train, score = seconds.get("train"), seconds.get("score")
    overhead = values.get("overhead_seconds")
    train, score, overhead = (each if _is_time(each) else None for each in (train, score, overhead))
    spent = sum(each or 0.0 for each in (train, score, overhead))
    if not job.beam:
        overhead, score = (overhead or 0.0) + (score or 0.0), None
    if train is not None:
        train = max(0.0, train - sum(compiling))
    if compiling:
        overhead = (overhead or 0.0) + compiling[-1]
    return job._replace(stage="over", train=train, score=score, overhead=overhead, spent=spent)


def _own_speed(entries: Sequence[dict[str, Any]], steps: float) -> dict[str, float]:
    """Times of a run in training, without the first step since its start, which compiles."""
    last = entries[-1]
    starts = [entry for entry in entries if entry["split"] == "start"]
    first = starts[-1] if starts else entries[0]
    num_steps = last["step"] - first["step"]
    if num_steps < _ENOUGH * steps or num_steps < 1:
        return {}
    left = (last["seconds"] - first["seconds"]) / num_steps * max(0, steps - last["step"])
    train = max(0.0, last["seconds"] - sum(_compiling(entries)))
    return {"train": train + left, "train_left": left}


def _compiling(entries: Sequence[dict[str, Any]]) -> list[float]:
    """Seconds to the first step, for each start of the training.

    They are compilation, and so do not grow with the number of steps.
    """
    seconds = (entry.get("seconds_to_first_step") for entry in entries)
    return [each for each in seconds if _is_time(each)]


def _trained(directory: Path, entries: Sequence[dict[str, Any]], steps: float) -> float:
    """The share of its steps that a resumed run need not repeat."""
    if (directory / record.TRAINING_FILE).exists():
        return 1.0
    last = entries[-1]["step"] if entries else 0
    checkpoints = directory / "checkpoints"
    if checkpoints.is_dir():  # else they are on the machine of the run
        names = [path.name for path in checkpoints.iterdir()]
        last = max((int(name) for name in names if name.isdecimal()), default=0)
    return min(last / steps, 0.999)


def _size(config: dict[str, Any]) -> float:
    """Roughly how many parameters each token passes through; only the ratio of two sizes is used.

    Computed from the config alone: a display refreshed every two seconds cannot wait for jax.
    """
    d_model = _number(config, "model.d_model")
    widths = _number(config, "model.d_k") + _number(config, "model.d_v")
    attention = 2 * d_model * _number(config, "model.num_heads") * widths
    feed_forward = 2 * d_model * _number(config, "model.d_ff")
    encoder = _number(config, "model.num_encoder_layers", 0) * (attention + feed_forward)
    decoder = _number(config, "model.num_decoder_layers", 0) * (2 * attention + feed_forward)
    each = encoder + decoder + d_model * _number(config, "model.vocabulary_rows")
    return _number(config, "model.ensemble_size") * each


def _number(config: dict[str, Any], key: str, least: float = 1) -> float:
    value = config.get(key)
    if not record.is_number(value) or not math.isfinite(value):
        return least
    return min(max(least, value), _LARGEST)


def _is_timed(entry: dict[str, Any]) -> bool:
    return _is_time(entry.get("seconds")) and 0 <= entry["step"] <= _LARGEST


def _is_time(value: Any) -> TypeGuard[int | float]:
    return record.is_number(value) and math.isfinite(value) and value >= 0


def _seconds_since(path: Path, now: float) -> float:
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return 0.0


def left_text(found: Forecast) -> str:
    """The time left in words: "about 12 min"."""
    if found.seconds is None:
        return f"time left unknown: {found.missing}"
    return f"about {duration_text(found.seconds)}" + (f", {found.missing}" if found.missing else "")


def duration_text(seconds: float) -> str:
    """ "12 s", "34 min" or "5 h 06 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
