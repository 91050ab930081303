"""Real tuning of the smallest model: rows with a known outcome."""

import math

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from experiments.launchers.event import Event
from experiments.report.summary import summaries
from experiments.run import record
from experiments.run.run import run
from experiments.sweep import prepared_runs
from experiments.tables import tuning
from experiments.tables.ablation import Row, Table
from tests.runs import conftest as runs
from tests.runs.configs import smallest_config

pytestmark = pytest.mark.slow

few_sentences_to_evaluate = pytest.fixture(scope="module", autouse=True)(runs.with_few_sentences)
cache = pytest.fixture(scope="module")(runs.with_cache)


@pytest.fixture(scope="module", autouse=True)
def kept_programs(cache):
    """Runs of one config compile once."""
    settings = {
        "jax_compilation_cache_dir": str(cache),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    before = {name: jax.config.values[name] for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


RATE = "training.peak_learning_rate"
BASE_RATE = 0.1
# No score depends on how many checkpoints are kept, so that at one rate these are the same config.
TABLE = Table(
    "planted",
    "Planted",
    lambda base: [
        Row("base", {}),
        Row("ten_times_too_high", {RATE: 10 * BASE_RATE, "training.keep_checkpoints": 3}),
        Row("worse", {"training.steps": base.training.steps // 5}),
    ],
)


def _launch(directories):
    for directory in directories:
        yield Event(directory, "started", 0.0)
        run(directory)
        yield Event(directory, "finished", 0.0)


@pytest.fixture(scope="module")
def workdir(cache, tmp_path_factory):
    """A sweep of one seed and two trials."""
    steps = {"training.steps": 60, "training.evaluate_every_steps": 60}
    steps |= {"training.checkpoint_every_steps": 60, "decoding.beam_size": 1}
    few_programs = {"data.num_buckets": 1, "evaluation.num_probes": 0}
    base = smallest_config(cache, **{RATE: BASE_RATE}, **steps, **few_programs)
    workdir = tmp_path_factory.mktemp("planted")
    space = tuning.space([f"{RATE}=log(0.01,1)"], 2, base)
    rows = TABLE.rows(base)
    directories = prepared_runs.prepare(TABLE, rows, base, 1, workdir, space=space)
    assert prepared_runs.do_unfinished(directories, _launch) == 0
    return workdir


@pytest.fixture(scope="module")
def rows(workdir):
    [table] = summaries(workdir)
    return {row.name: row for row in table.rows}


def _perplexity(row):
    return row.means["dev_perplexity"].mean


def test_a_row_whose_rate_is_ten_times_too_high_recovers(rows):
    base, row = rows["base"], rows["ten_times_too_high"]
    assert _perplexity(row) > 1.1 * _perplexity(row.tuned)
    assert row.tuned.chosen == base.tuned.chosen == {RATE: 0.01}


def test_two_rows_that_are_one_config_tie(rows):
    base, twin = rows["base"].tuned, rows["ten_times_too_high"].tuned
    assert twin.trials == base.trials and twin.chosen == base.chosen and twin.means == base.means
    assert twin.effects["dev_perplexity"].difference == 0


def test_a_row_that_is_worse_stays_worse(rows):
    base, worse = rows["base"], rows["worse"]
    assert _perplexity(worse.tuned) > 1.1 * _perplexity(base.tuned)
    assert worse.tuned.effects["dev_perplexity"].difference > 0
    assert worse.tuned.chosen == base.tuned.chosen


def test_trials_are_scored_by_dev_perplexity_alone_and_are_of_another_seed(workdir):
    for path in workdir.glob("planted/*/*/record.json"):
        values = record.read_record(path.parent)
        is_trial = path.parent.name.startswith("trial-")
        assert values["scores"].keys() == ({"dev"} if is_trial else {"dev", "test"})
        assert (values["seed"] == 0) != is_trial
        assert (path.parent / "translations").exists() != is_trial
        assert math.isfinite(values["scores"]["dev"]["perplexity"])
