"""What several files of tests of training share."""

import pytest

from tests.training.runs import Run


@pytest.fixture(scope="module")
def run():
    return Run()
