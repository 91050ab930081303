"""One cache, a small corpus and a trained model for all tests of runs and verbs."""

import pytest

from t2t_jax.data.corpora import embedded_corpus
from t2t_jax.runs.train import train
from tests.runs.configs import smallest


def with_few_sentences():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_corpus, "_EVALUATION_PAIRS", 100)
        yield


def with_cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("T2T_JAX_CACHE", str(directory))
        yield directory


few_sentences_to_evaluate = pytest.fixture(scope="package", autouse=True)(with_few_sentences)
cache = pytest.fixture(scope="package")(with_cache)


@pytest.fixture(scope="package")
def trained(cache, tmp_path_factory):
    """The directory of a translation model."""
    workdir = tmp_path_factory.mktemp("run") / "w"
    train(smallest(cache), workdir)
    return workdir
