"""One cache, a small corpus and a trained model for all tests of runs and of verbs."""

import pytest

from t2t_jax.data.corpora import embedded_corpus
from t2t_jax.runs.train import train
from tests.runs.configs import smallest


@pytest.fixture(scope="package", autouse=True)
def few_sentences_to_evaluate():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_corpus, "_EVALUATION_PAIRS", 100)
        yield


@pytest.fixture(scope="package")
def cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("T2T_JAX_CACHE", str(directory))
        yield directory


@pytest.fixture(scope="package")
def trained(cache, tmp_path_factory):
    """The directory of a translation model."""
    workdir = tmp_path_factory.mktemp("run") / "w"
    train(smallest(cache), workdir)
    return workdir
