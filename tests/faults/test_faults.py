"""A few of each of the faults of `make faults`, which has the slow ones."""

import signal
import sys

import pytest

from tests.faults import __main__ as long_form
from tests.faults import corpora, disks, kills, launched, poison, twice
from tests.faults.count import Count
from tests.faults.trainings import Moment, Trainings


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    return Trainings(tmp_path_factory.mktemp("trainings"))


def check(count, tried):
    if count.skipped:
        pytest.skip(count.skipped)
    assert count.lost == () and count.tried == tried
    assert count.in_time != 0, "the fault came too late to disturb anything"


@pytest.mark.slow
def test_a_training_that_is_killed_ends_as_if_it_had_not_been(trainings, tmp_path):
    kill = (signal.SIGKILL, Moment("save", 0.005))
    stop = (signal.SIGTERM, Moment("step", 0.05))
    for number in range(5):  # until the first comes while a checkpoint is written
        run = kills.killed_run(trainings, tmp_path / f"run-{number}", (kill, stop))
        assert run.wrong == ()
        if run == ((kill[1], stop[1]), 1, ()):
            return
    pytest.fail(f"no kill came while a checkpoint was written: {run}")


@pytest.mark.slow
def test_a_training_whose_disk_was_full_ends_as_if_it_had_not_been(trainings, tmp_path):
    check(disks.full(trainings, tmp_path, 1, seed=10), 1)  # as a checkpoint is written


@pytest.mark.parametrize("policy", poison.POLICIES)
def test_each_policy_does_with_nan_what_it_promises(tmp_path, policy):
    check(poison.plants(tmp_path, 1, policy, seed=0), 1)


@pytest.mark.parametrize("killed", [launched.sweeps, launched.runs])
def test_a_killed_sweep_or_run_counts_every_step_once(tmp_path, killed):
    check(killed(tmp_path, 1, seed=0), 1)


def test_no_line_of_odd_bytes_comes_to_stand_beside_another(tmp_path):
    check(corpora.pairs_of_bytes(tmp_path, 40, seed=0), 40)


@pytest.mark.slow
@pytest.mark.parametrize("two", [twice.trains, twice.prepares])
def test_two_at_once_break_nothing(trainings, tmp_path, two):
    check(two(trainings, tmp_path, 1), 1)


def test_a_part_that_is_not_there_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["faults", "--only=disks,kill"])
    with pytest.raises(SystemExit, match="2"):
        long_form.main()
    assert "--only=kill is none of kills, layouts, damage" in capsys.readouterr().err


@pytest.mark.parametrize(("lost", "held", "exit_code"), [((), 3, 0), (("seed 7",), 2, 1)])
def test_the_table_counts_and_what_was_lost_is_told(monkeypatch, capsys, lost, held, exit_code):
    counts = [("one", lambda: Count("a kill", 3, lost, "so")), ("other", lambda: pytest.fail())]
    monkeypatch.setattr(long_form, "parts", lambda *_: counts)
    monkeypatch.setattr(sys, "argv", ["faults", "--only=one"])
    with pytest.raises(SystemExit) as end:
        long_form.main()
    said = capsys.readouterr()
    assert f"| a kill | 3 | {held} | so | 0 |" in said.out
    assert said.err == "".join(f"{each}\n" for each in lost)
    assert end.value.code == exit_code
