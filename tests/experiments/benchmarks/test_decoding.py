import pytest

from experiments.benchmarks import decoding
from t2t_jax.data.corpora.corpus import read_pairs
from t2t_jax.runs.train import train
from t2t_jax.runs.workdir import load_trained
from tests.runs.configs import smallest


@pytest.fixture
def trained(tmp_path):
    train(smallest(tmp_path / "cache"), tmp_path / "w")
    return load_trained(tmp_path / "w")


def test_tokens_a_second_of_a_trained_model(trained):
    lines = [source for source, _ in read_pairs(trained.sections.data, "test")][:40]
    found = decoding.measure(trained, lines, rounds=2, against="")
    assert found["sentences"] == 40
    assert 40 <= found["output_tokens"] <= 40 * (60 + 3)
    assert 0 < found["tokens_per_second"]
    assert found["first_pass_seconds"] > found["output_tokens"] / found["tokens_per_second"]
