"""Runs that differ in their seed, trained by one program: each is the run that it is alone."""

import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from t2t_jax.cli import score, train
from t2t_jax.training.metrics_file import read_metrics
from tests.cli.configs import smallest_config

SEEDS = (3, 4, 5)
# The gradient of a key's bias is rounding noise, which Adam makes full steps of.
CHANGES = {
    "model.attention_biases": False,
    "model.dropout_rate": 0.1,
    "training.log_every_steps": 1,
}


@pytest.fixture(scope="module")
def together(cache, tmp_path_factory):
    """The directories of three seeds, trained together in two goes."""
    workdir = tmp_path_factory.mktemp("together")
    workdirs = {seed: workdir / f"seed-{seed}" for seed in SEEDS}
    schedule = {"training.schedule": "peak"}
    for steps in (4, 8):
        config = smallest_config(cache, **CHANGES, **schedule, **{"training.steps": steps})
        train.train_together(config, workdirs)
    return workdirs


def test_each_seed_is_the_run_that_it_is_alone(together, cache, tmp_path):
    config = smallest_config(cache, **CHANGES, **{"seed": 4, "training.schedule": "peak"})
    train.train(config, tmp_path)
    assert json.loads((together[4] / "config.json").read_text())["seed"] == 4
    losses, expected = (
        [(entry["split"], entry["step"], entry["loss"]) for entry in read_metrics(path)]
        for path in (together[4] / "metrics.jsonl", tmp_path / "metrics.jsonl")
    )
    assert [entry[:2] for entry in losses] == [entry[:2] for entry in expected]
    np.testing.assert_allclose([e[2] for e in losses], [e[2] for e in expected], rtol=1e-5)
    params, expected_params = (
        ocp.StandardCheckpointer().restore((workdir / "checkpoints" / "8" / "params").resolve())
        for workdir in (together[4], tmp_path)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), params, expected_params
    )


def test_the_seeds_differ_and_each_can_be_scored(together):
    losses = [read_metrics(path / "metrics.jsonl")[-1]["loss"] for path in together.values()]
    assert len(set(losses)) == len(SEEDS)
    assert score.score(together[3], "dev", translates=False)["perplexity"] > 1
    facts = [json.loads((path / "training.json").read_text()) for path in together.values()]
    assert all(each["seeds_together"] == len(SEEDS) for each in facts)


def test_seeds_that_have_not_come_equally_far_are_told(together, cache, tmp_path):
    config = smallest_config(cache, **CHANGES, **{"training.schedule": "peak"})
    workdirs = {3: together[3], 9: tmp_path}
    with pytest.raises(ValueError, match="only some of the seeds have begun"):
        train.train_together(config, workdirs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.patience": 2}, "training.patience=2: seeds that may stop train alone"),
        ({"devices.compile": "pmap"}, "devices.compile='pmap' trains one seed at a time"),
    ],
)
def test_what_cannot_be_trained_together_is_told(cache, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train.train_together(
            smallest_config(cache, **changes), {0: tmp_path / "0", 1: tmp_path / "1"}
        )
