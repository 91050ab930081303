"""The faults of `make faults`, a few of each."""

import signal

import pytest

from tests.faults import corpora, disks, kills, launched, poison, twice
from tests.faults.trainings import Trainings


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    return Trainings(tmp_path_factory.mktemp("trainings"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_trainings_end_as_if_they_had_not_been(trainings, tmp_path, number):
    count = kills.kills(trainings, tmp_path, 2, number, seed=0)
    assert count.tried == 2 and count.lost == ()
