"""A finished run on real hardware replaces the range."""

import json

import pytest

from t2t_jax.plan import calibration as module
from t2t_jax.plan.calibration import calibration
from t2t_jax.plan.hardware import topology
from t2t_jax.plan.plan import plan
from tests.plan.stand_in import sections, settings

STEPS = 1_000


@pytest.fixture(autouse=True)
def no_corpus_is_prepared(monkeypatch):
    monkeypatch.setenv("T2T_JAX_CACHE", "/nowhere")


def record(place, **changes):
    values = {
        "config": sections().values(),
        "hardware": "8 x TPU v5 lite",
        "steps": STEPS,
        "target_tokens": 500_000,
        "seconds": {"train": 50.0, "score": 1.0},
    } | changes
    (place / "record.json").write_text(json.dumps(values))
    return place


def test_the_factor_is_seen_over_predicted(tmp_path):
    predicted = plan(sections(), topology("v5e-8"), settings(tmp_path)).step_seconds.middle
    found = calibration(record(tmp_path), settings(tmp_path))
    assert found.factor == pytest.approx(50.0 / STEPS / predicted)
    assert "50.0 ms" in found.words
    again = calibration(tmp_path / "record.json", settings(tmp_path))
    assert again == found


def test_the_runs_own_metrics_leave_out_what_compiles(tmp_path):
    entries = [
        {"split": "train", "step": 100, "target_tokens_per_second": 1_000.0},  # compiles
        {"split": "train", "step": 200, "target_tokens_per_second": 50_000.0},
        {"split": "train", "step": 300, "target_tokens_per_second": 50_000.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))
    assert "10.0 ms" in calibration(record(tmp_path), settings(tmp_path)).words


def test_the_runs_cache_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("T2T_JAX_CACHE", "/ours")
    caches = []

    def planned(sections, *others):
        caches.append(sections.data.cache)
        return plan(sections, *others)

    monkeypatch.setattr(module, "plan", planned)
    calibration(record(tmp_path), settings(tmp_path))
    assert caches == ["/ours"]


def test_a_training_of_its_own_is_a_record_too(tmp_path):
    record(tmp_path, seconds=50.0)
    (tmp_path / "record.json").rename(tmp_path / "training.json")
    assert "50.0 ms" in calibration(tmp_path, settings(tmp_path)).words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hardware": "2 x cpu"}, "is of 2 x cpu, for which nothing is predicted"),
        ({"steps": 0}, "has no usable seconds, steps or hardware .float division by zero"),
        ({"seconds": None}, "has no usable seconds, steps or hardware"),
        ({"config": None}, "is not a record of a finished run: it lacks config.json beside it"),
    ],
)
def test_what_tells_nothing_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        calibration(record(tmp_path, **changes), settings(tmp_path))


def test_a_record_from_before_a_key_came_is_read(tmp_path):
    config = sections().values()
    del config["devices"]["matmul_precision"]
    found = calibration(record(tmp_path, config=config), settings(tmp_path))
    assert found == calibration(record(tmp_path), settings(tmp_path))


def test_a_directory_without_a_record_is_refused(tmp_path):
    with pytest.raises(ValueError, match="it is of no finished run"):
        calibration(tmp_path, settings(tmp_path))
