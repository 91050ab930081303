"""The measurement of speed, on a training of seconds."""

import pytest

from experiments import speed
from tests.cli.test_verbs import OVERRIDES


def flags(cache, **changes):
    values = OVERRIDES | {"data.cache": cache, "training.log_every_steps": 2} | changes
    return ["--config=configs/tiny.py", *(f"--config.{key}={v}" for key, v in values.items())]


def test_a_short_training_has_a_speed_and_a_peak_memory(tmp_path):
    arguments = flags(tmp_path / "cache")
    measured = speed.measure(arguments, tmp_path / "run", num_windows=3)
    assert 0 < measured["seconds_to_first_step"] < 300
    assert measured["target_tokens_per_second"] > 0
    assert measured["peak_memory_mib"] > 50
    # Five, where the first measurement stopped it between two entries.
    with pytest.raises(ValueError, match="training ended after [45] log windows"):
        speed.measure(arguments, tmp_path / "run", num_windows=9)
