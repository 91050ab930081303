"""One cache for the verbs, and a small corpus: they do not care how large it is."""

import pytest

from t2t_jax.data.corpora import embedded_corpus


@pytest.fixture(scope="package", autouse=True)
def few_sentences_to_evaluate():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_corpus, "_EVALUATION_PAIRS", 100)
        yield


@pytest.fixture(scope="package")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")
