"""Shared by several files of training tests."""

import pytest

from tests.training.runs import Run


@pytest.fixture(scope="module")
def run():
    return Run()
