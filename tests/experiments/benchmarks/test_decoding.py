import subprocess

import pytest

from experiments.benchmarks import decoding
from t2t_jax.runs.train import train
from tests.runs.configs import smallest


@pytest.fixture
def trained(tmp_path):
    train(smallest(tmp_path / "cache"), tmp_path / "w")


def test_a_trained_model_is_rated_greedy_and_with_beams(tmp_path, trained):
    measured = list(decoding.measure_run(tmp_path / "w", 20, rounds=2, peers=()))
    found = {each.what: each.values for each in measured}
    assert len(found) == len(measured) == 2 * 7
    for search in ("greedy", "beam of 4"):
        assert len(found[f"{search}, ours"]) == 2 and min(found[f"{search}, ours"]) > 0
        # A pass that compiles takes longer than one that does not.
        [first] = found[f"{search}, ours, first pass"]
        num_tokens = first * max(found[f"{search}, ours"])
        assert num_tokens > 20
        shares = found[f"{search}, ours over the roof"]
        assert all(0 < share < 1 for share in shares)
        [first] = found[f"{search}, first sentence, ours"]
        half = found[f"{search}, one sentence, 50th percentile, ours"]
        most = found[f"{search}, one sentence, 95th percentile, ours"]
        assert all(0 < one <= other < first for one, other in zip(half, most, strict=True))


def test_another_library_is_compared_in_its_first_pass_too(tmp_path, trained, monkeypatch):
    monkeypatch.setitem(decoding.PEERS, "echo", lambda _: lambda size: list)
    measured = list(decoding.measure_run(tmp_path / "w", 20, rounds=1, peers=("echo",)))
    found = {each.what: each.values for each in measured}
    seconds = [found[f"greedy, {name}, first pass"][0] for name in ("echo", "ours")]
    assert seconds[0] < seconds[1]
    # An echo is fast, but we have to compile.
    assert found["greedy, ours over echo, first pass"] < found["greedy, ours over echo"] < [1.0]


def test_a_run_that_is_given_is_not_trained(tmp_path):
    assert decoding.trained_or_kept(str(tmp_path)) == tmp_path


def test_without_one_tiny_is_trained_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("T2T_JAX_CACHE", str(tmp_path))
    asked = []

    def run(command):
        asked.append(command)
        return subprocess.CompletedProcess(command, len(asked) - 1)

    monkeypatch.setattr(decoding.subprocess, "run", run)
    kept = decoding.trained_or_kept("")
    assert kept == tmp_path / "benchmarks" / "tiny"
    assert asked[0][-2:] == ["--config=configs/tiny.py", f"--workdir={kept}"]
    with pytest.raises(ValueError, match="tiny cannot be trained: the reason stands above"):
        decoding.trained_or_kept("")
