import pytest

from experiments.benchmarks import roof, speed, training
from experiments.benchmarks.sizes import SIZES


def test_the_last_windows_are_rated_and_set_beside_the_roof(monkeypatch):
    def trained(arguments, run, num_windows, environment):
        *others, cache = arguments
        rounds = "--config.devices.matmul_precision=default" in others
        as_configured = [flag for flag in others if "matmul_precision" not in flag]
        assert as_configured == SIZES["tiny"].train_flags("DIR") and not run.exists()
        # Nothing that an earlier run has prepared or compiled is there.
        assert cache == f"--config.data.cache={run.parent}/data"
        assert environment == {"T2T_JAX_CACHE": f"{run.parent}/programs"}
        rates = [100.0, 100.0, 100.0, 256.0, 512.0, 1024.0]
        seconds, factor = (5.0, 2) if rounds else (9.0, 1)
        return speed.Trained(seconds, [factor * rate for rate in rates[:num_windows]], 800.0)

    monkeypatch.setattr(speed, "measure", trained)
    monkeypatch.setattr(roof, "of_a_step", lambda config, size: lambda: 0.5)  # of 1,024 tokens
    found = {each.what: each.values for each in training.measure(SIZES["tiny"], "DIR")}
    assert found["ours"] == [256.0, 512.0, 1024.0]
    assert found["ours over the roof"] == pytest.approx([0.125, 0.25, 0.5])
    assert found["ours, rounded"] == [512.0, 1024.0, 2048.0]
    assert found["ours, rounded over the roof"] == pytest.approx([0.25, 0.5, 1.0])
    assert (found["first step"], found["peak memory"]) == ([9.0], [800.0])
