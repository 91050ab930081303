import pytest

from experiments.benchmarks import speed, startup


def test_a_command_takes_seconds_or_says_why_it_failed():
    assert 0 < startup._command("t2t_jax.cli.main", "--help")() < 60
    with pytest.raises(ValueError, match=r"cli\.main trane failed: .*trane"):
        startup._command("t2t_jax.cli.main", "trane")()


def test_a_cold_start_finds_no_program_and_the_next_one_does(tmp_path, monkeypatch):
    def trained(arguments, run, num_windows, environment):
        assert not run.exists() and num_windows == 0
        programs = tmp_path / "programs"
        assert environment == {"T2T_JAX_CACHE": str(programs)}
        assert arguments[-1] == f"--config.data.cache={tmp_path / 'data'}"
        is_cold = not programs.exists()
        programs.mkdir(exist_ok=True)
        run.mkdir()
        return speed.Trained(10.0 if is_cold else 5.0, [], 0.0)

    monkeypatch.setattr(speed, "measure", trained)
    seconds = [startup._first_step(tmp_path, is_cold=cold) for cold in (True, False, True)]
    assert seconds == [10.0, 5.0, 10.0]


def test_all_that_is_waited_for_is_measured_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(startup, "_command", lambda *command: lambda: float(len(command)))
    monkeypatch.setattr(startup, "_first_step", lambda directory, is_cold: 7.0 - is_cold)
    found = {each.what: each.values for each in startup.measure(tmp_path, rounds=2)}
    assert found["t2t-jax --help"] == [2.0, 2.0] and len(found) == 6
    assert found["train, first step, cold"] == [6.0, 6.0]
