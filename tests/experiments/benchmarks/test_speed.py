"""The measurement of speed, on a short training."""

import pytest

from experiments.benchmarks import speed
from tests.runs.configs import OVERRIDES


def flags(cache, **changes):
    values = OVERRIDES | {"data.cache": cache, "data.num_buckets": 1} | changes
    values |= {"training.log_every_steps": 2, "training.checkpoint_every_steps": 8}
    return ["--config=configs/tiny.py", *(f"--config.{key}={v}" for key, v in values.items())]


@pytest.mark.slow
def test_a_short_training_has_a_speed_and_a_peak_memory(tmp_path):
    held = bytearray(b"1") * 2**30  # of which a child is told as if it were its own
    arguments = flags(tmp_path / "cache")
    measured = speed.measure(arguments, tmp_path / "run", num_windows=3)
    assert 0 < measured.seconds_to_first_step < 300
    assert len(measured.target_tokens_per_second) >= 3
    assert min(measured.target_tokens_per_second) > 0
    assert 50 < measured.peak_memory_mib < 1_024 < len(held)
    # What ends it before: here another config in the same directory.
    with pytest.raises(ValueError, match=r"ended after [345] log windows: .* model\.d_ff was 16"):
        speed.measure([*arguments, "--config.model.d_ff=32"], tmp_path / "run", num_windows=9)
