"""A corpus of text files."""

import pytest

from tests.data.text_corpus import write_corpus


@pytest.fixture
def directory(tmp_path):
    """Holds train, dev and test."""
    write_corpus(tmp_path)
    return tmp_path
