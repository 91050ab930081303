"""The time left of a sweep, against what recorded and made-up runs really took."""

import itertools
import json
import os
import time
from pathlib import Path

import pytest

from configs import tiny
from experiments.run import presence, record
from experiments.sweep import time_left
from experiments.sweep.time_left import Job
from t2t_jax.training.metrics_file import read_metrics
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, prepared

RESULTS = Path(__file__).parents[3] / "experiments" / "results"


def _to_come(job: Job) -> Job:
    return job._replace(stage="waiting", train=None, score=None, overhead=None)


def _seconds(job: Job) -> float:
    return sum(each or 0.0 for each in (job.train, job.score, job.overhead))


def _end(jobs: list[Job], parallel: int) -> float:
    """When the last is over, if each begins as soon as another has ended."""
    ends = [0.0] * parallel
    for job in jobs:
        first = ends.index(min(ends))
        ends[first] += _seconds(job)
    return max(ends)


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize(
    ("sweep", "seed"),
    # Models 64 to 256 wide, of one to three layers. In other sweeps the machine was busy now and
    # then: the same row took up to three times as long with one seed as with another.
    [("table3_tiny", 2), ("positions_tiny", 2), ("table3_multi30k_dropout01", 0)],
)
def test_after_any_first_run_it_is_right_within_a_third(sweep, seed, parallel):
    directories = sorted((RESULTS / sweep).glob(f"*/*/seed-{seed}"))
    took = [time_left.job_of(directory)._replace(overhead=12.0) for directory in directories]
    assert len(took) > 5
    for number, first in enumerate(took):
        others = [*took[:number], *took[number + 1 :]]
        found = time_left.forecast([first, *map(_to_come, others)], parallel)
        assert found.missing == ""
        assert found.seconds == pytest.approx(_end(others, parallel), rel=1 / 3), first.row


def test_over_all_kept_sweeps_it_is_mostly_within_half_and_twice():
    shares = []
    for sweep in sorted(path.parent for path in RESULTS.glob("*/report.csv")):
        for seed, parallel in itertools.product(range(5), (1, 2)):
            took = [
                time_left.job_of(directory)._replace(overhead=12.0)
                for directory in sorted(sweep.glob(f"*/*/seed-{seed}"))
            ]
            for number, first in enumerate(took):
                if others := [*took[:number], *took[number + 1 :]]:
                    found = time_left.forecast([first, *map(_to_come, others)], parallel)
                    shares.append((found.seconds or 0) / _end(others, parallel))
    within = sum(0.5 < share < 2 for share in shares) / len(shares)
    told = f"{within:.0%} of {len(shares)} forecasts".replace("%", " %")
    worst = f"{min(shares):.1f} and {max(shares):.1f} times"
    document = (RESULTS.parents[1] / "docs" / "CLUSTERS.md").read_text("utf-8")
    assert told in document and worst in document


@pytest.mark.parametrize("parallel", [1, 2])
def test_rows_of_other_steps_batches_and_beams_take_longer(parallel):
    base = Job("base", 1000.0, 1.0, 4.0, "over", train=100.0, score=50.0, overhead=10.0)
    others = [
        base._replace(row="steps", tokens=3000.0, train=300.0),
        base._replace(row="tokens", tokens=250.0, train=25.0),
        base._replace(row="beam", beam=8.0, score=100.0),
        base._replace(row="base"),
    ]
    found = time_left.forecast([base, *map(_to_come, others)], parallel)
    assert found.seconds == pytest.approx(_end(others, parallel))
    assert found.of_runs == pytest.approx([0.0, 360.0, 85.0, 210.0, 160.0])
    assert found.share == pytest.approx(160 / (160 + 360 + 85 + 210 + 160))


def test_the_longest_of_the_last_runs_counts_and_not_the_mean():
    base = Job("base", 1.0, 1.0, 1.0, "over", train=100.0, score=0.0, overhead=0.0)
    jobs = [base, _to_come(base._replace(row="long", tokens=5.0)), _to_come(base)]
    assert time_left.forecast(jobs, 2).seconds == pytest.approx(500)
    assert time_left.forecast(jobs, 1).seconds == pytest.approx(600)


def test_before_a_run_is_over_its_progress_tells_and_what_is_missing_is_said():
    base = Job("base", 1.0, 1.0, 1.0)
    nothing = time_left.forecast([base, base], 1)
    assert (nothing.seconds, nothing.missing) == (None, time_left.NOTHING_KNOWN)
    assert time_left.left_text(nothing).startswith("time left unknown: no run has come far")
    training = base._replace(stage="training", train=200.0, train_left=150.0, elapsed=10.0)
    found = time_left.forecast([training, base], 1)
    assert found.seconds == pytest.approx(140 + 200)
    assert time_left.left_text(found) == ("about 6 min, without scoring, which no run has done yet")


def test_of_what_is_short_nothing_is_told_before_a_run_is_scored():
    base = Job("base", 1.0, 1.0, 1.0)
    training = base._replace(stage="training", train=60.0, train_left=20.0)
    scoring = base._replace(stage="scoring", trained=1.0, train=60.0, elapsed=2.0)
    stopped = base._replace(trained=1.0, train=6000.0)
    for jobs in ([training], [training, base], [scoring], [stopped], [stopped, training]):
        found = time_left.forecast(jobs, 1)
        assert (found.seconds, found.missing) == (None, time_left.NOTHING_KNOWN)
    assert time_left.forecast([scoring], 1).of_runs == [None]
    over = _over(training)
    assert time_left.forecast([over, training], 1).seconds == pytest.approx(20 + 5)


def _over(job: Job) -> Job:
    return job._replace(stage="over", train_left=None, score=5.0, overhead=1.0)


@pytest.mark.parametrize("sweep", ["table3_tiny", "positions_tiny", "table3_multi30k_dropout01"])
def test_the_first_word_of_a_run_about_itself_is_at_most_twice_the_truth(sweep):
    paths = sorted((RESULTS / sweep).glob("*/*/seed-*/metrics.jsonl"))
    assert paths
    for path in paths:
        entries = [entry for entry in read_metrics(path) if "seconds" in entry]
        steps, end = entries[-1]["step"], entries[-1]["seconds"]
        told = (
            found["train_left"] / (end - entries[number - 1]["seconds"])
            for number in range(1, len(entries))
            if (found := time_left._own_speed(entries[:number], steps))
        )
        assert 0.5 < next(told) < 2, path


def test_a_run_that_takes_longer_than_others_takes_nothing_from_what_is_over():
    over = Job("base", 1.0, 1.0, 1.0, "over", train=100.0, score=40.0, overhead=10.0)
    scoring = _to_come(over)._replace(stage="scoring", trained=1.0, elapsed=6000.0)
    found = time_left.forecast([over, over, scoring], 1)
    assert found.seconds == pytest.approx(600) and found.share == pytest.approx(2 / 3)


def test_a_row_is_told_by_its_own_seeds():
    base = Job("base", 1.0, 1.0, 1.0, "over", train=100.0, score=10.0, overhead=0.0)
    odd = Job("odd", 1.0, 1.0, 1.0, "over", train=900.0, score=90.0, overhead=0.0)
    assert time_left.forecast([base, base, odd, _to_come(odd)], 1).seconds == pytest.approx(990)


def test_later_seeds_find_what_the_first_of_a_row_has_compiled():
    first = Job("base", 1000.0, 1.0, 4.0, "over", train=60.0, score=30.0, overhead=10.0)
    later = first._replace(train=30.0, score=20.0, overhead=5.0)
    other, rest = (
        first._replace(row="other"),
        [_to_come(later), _to_come(first)._replace(row="new")],
    )
    nothing_seen = time_left.forecast([first, other, _to_come(later)], 1)
    assert nothing_seen.seconds == pytest.approx(100.0)
    found = time_left.forecast([first, other, later, _to_come(later)._replace(row="other")], 1)
    assert found.seconds == pytest.approx(55.0)
    # The third of base takes as long as its second, and a row's first as others' firsts.
    assert time_left.forecast([first, other, later, *rest], 1).seconds == pytest.approx(155.0)


def test_of_a_run_under_way_only_what_is_to_come_counts():
    over = Job("base", 1.0, 1.0, 1.0, "over", train=100.0, score=40.0, overhead=10.0)
    run = _to_come(over)

    def left(**changes) -> float | None:
        return time_left.forecast([over, run._replace(**changes)], 1).seconds

    assert left() == pytest.approx(150)
    assert left(stage="starting", elapsed=4.0) == pytest.approx(146)
    assert left(trained=0.5) == pytest.approx(10 + 50 + 40)  # it was stopped
    assert left(trained=0.5, stage="starting", elapsed=4.0) == pytest.approx(6 + 50 + 40)
    assert left(trained=0.75, stage="training", elapsed=5.0) == pytest.approx(20 + 40)
    assert left(trained=1.0) == pytest.approx(10 + 40)  # stopped while it was scored
    assert left(trained=1.0, stage="scoring", elapsed=15.0) == pytest.approx(25)
    assert left(trained=1.0, stage="scoring", elapsed=60.0) == pytest.approx(6)  # overdue


@pytest.fixture
def directory(tmp_path):
    config = tiny.get_config()
    config.training.update(steps=200, warmup_steps=10)
    return prepared(tmp_path, "base", config=config)[0]


def _entry(split: str, step: int, seconds: float) -> str:
    entry = {"split": split, "step": step, "loss": 2.5, "seconds": seconds}
    if split == "start":
        entry["seconds_to_first_step"] = 20.0
    return json.dumps(entry) + "\n"


def _write(directory, *entries, age=0.0):
    path = directory / "metrics.jsonl"
    path.write_text("".join(_entry(*entry) for entry in entries))
    written = time.time() - age
    os.utime(path, (written, written))


def _sign(directory, stage, age):
    now = time.time()
    values = presence.Sign("elsewhere", 7, now - age, now, stage)._asdict()
    record.write_json(directory / presence.RUNNING_FILE, values)


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(directory):
    _write(directory, ("start", 1, 20.0), ("train", 100, 40.0), ("train", 150, 50.0))
    assert time_left.job_of(directory).trained == 0.75
    for step in ("50", "100", "100.orbax-checkpoint-tmp"):
        (directory / "checkpoints" / step).mkdir(parents=True)
    job = time_left.job_of(directory)
    assert (job.stage, job.trained, job.spent) == ("waiting", 0.5, 50.0)
    (directory / "training.json").write_text("{}")
    assert time_left.job_of(directory).trained == 1


def test_its_own_speed_is_that_since_it_was_started_again(directory):
    slow = [("start", 1, 20.0), ("train", 50, 500.0)]
    _write(directory, *slow, ("start", 51, 520.0), ("train", 101, 570.0), age=3.0)
    _sign(directory, "training", 60.0)
    job = time_left.job_of(directory)
    assert job.stage == "training"
    assert job.train_left == pytest.approx(99)
    assert job.train == pytest.approx(570 - 2 * 20 + 99)
    assert job.elapsed == pytest.approx(3.0, abs=1.0)
    # Not what it had written before it was stopped.
    _sign(directory, "compiling", 5.0)
    job = time_left.job_of(directory)
    assert (job.stage, job.train_left) == ("starting", None)


def test_scoring_is_timed_from_its_start(directory):
    path = directory / "training.json"
    path.write_text('{"seconds": 70.5}')
    begun = time.time() - 30
    os.utime(path, (begun, begun))
    _sign(directory, "scoring", 100.0)
    job = time_left.job_of(directory)
    assert (job.stage, job.trained, job.train) == ("scoring", 1.0, 70.5)
    assert job.elapsed == pytest.approx(30, abs=1)
    _sign(directory, "scoring", 12.0)  # the training was over before this start
    assert time_left.job_of(directory).elapsed == pytest.approx(12, abs=1)


def test_a_record_tells_what_a_run_took(tmp_path):
    seconds = {"train": 60.0, "score": 4.0}
    at = fakes.write_record(
        *(tmp_path, TABLE, CONFIG, "base", 0),
        **{"perplexity": 1.0, "bleu": 1.0, "seconds": seconds, "overhead_seconds": 9.0},
    )
    job = time_left.job_of(at)
    assert (job.stage, job.train, job.score, job.overhead) == ("over", 60.0, 4.0, 9.0)
    assert job.spent == 73.0


def test_the_compiler_does_not_take_longer_for_more_steps(tmp_path):
    seconds = {"train": 60.0, "score": 4.0}
    at = fakes.write_record(
        *(tmp_path, TABLE, CONFIG, "base", 0),
        **{"perplexity": 1.0, "bleu": 1.0, "seconds": seconds, "overhead_seconds": 9.0},
    )
    _write(at, ("start", 1, 20.0), ("train", 20, 60.0))
    job = time_left.job_of(at)
    assert (job.train, job.overhead, job.spent) == (40.0, 29.0, 73.0)
    longer = _to_come(job._replace(tokens=10 * job.tokens))
    assert time_left.forecast([job, longer], 1).seconds == pytest.approx(29 + 400 + 4)


@pytest.mark.parametrize("value", [10**300, float("inf"), float("nan"), -1, "x", None, True])
def test_no_number_in_a_file_breaks_it(directory, value):
    values = json.loads((directory / "run.json").read_text())
    for section, key in (("model", "d_model"), ("training", "steps"), ("decoding", "beam_size")):
        values["config"][section][key] = value
    (directory / "run.json").write_text(json.dumps(values))
    _write(directory, ("start", 1, 20.0), ("train", 100, 40.0))
    _sign(directory, "training", 60.0)
    job = time_left.job_of(directory)
    over = Job("other", 1.0, 1.0, 1.0, "over", train=100.0, score=40.0, overhead=10.0)
    time_left.left_text(time_left.forecast([over, job], 1))
