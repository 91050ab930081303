"""Worker processes: the order of results, errors, and ends of all kinds."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t_jax.data.corpora.text_files import UnreadableError
from t2t_jax.data.prepare import workers
from t2t_jax.data.prepare.workers import num_cores, ordered_map
from tests.data import work


@pytest.mark.parametrize("num_processes", [1, 3])
def test_results_come_in_the_order_of_the_items(num_processes):
    doubled = ordered_map(work.Remembering(), range(20), num_processes)
    assert list(doubled) == [2 * number for number in range(20)]
    assert list(ordered_map(work.Remembering(), [], num_processes)) == []


@pytest.mark.parametrize("num_processes", [1, 3])
def test_the_rest_of_every_process_comes_last(num_processes):
    found = list(ordered_map(work.Remembering(), range(20), num_processes, work.Remembering.rest))
    assert found[:20] == [2 * number for number in range(20)]
    assert len(found) == 20 + num_processes and sum(found[20:]) == sum(range(20))


def test_items_are_read_only_a_little_ahead():
    given = []
    numbers = (given.append(number) or number for number in itertools.count())
    doubled = ordered_map(work.Remembering(), numbers, 2)
    assert list(itertools.islice(doubled, 10)) == [2 * number for number in range(10)]
    doubled.close()
    assert len(given) <= 10 + 2 * 2 + 1


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_arrives_as_it_was_raised(num_processes):
    with pytest.raises(ValueError) as error:
        list(ordered_map(work.refuse, range(20), num_processes))
    assert str(error.value) == "number 5 is wrong"


def test_an_error_keeps_its_type_on_its_way():
    with pytest.raises(UnreadableError, match=r"^file \d can"):
        list(ordered_map(work.unreadable, range(20), 2))


def test_an_error_of_the_items_arrives_and_ends_the_workers():
    def items():
        yield 1
        raise ValueError("line 2 is damaged")

    with pytest.raises(ValueError, match="^line 2 is damaged$"):
        list(ordered_map(work.Remembering(), items(), 2))


def test_a_worker_that_was_killed_is_told():
    with pytest.raises(ChildProcessError, match="a worker process was killed, perhaps for lack of"):
        list(ordered_map(work.die, range(20), 2))


def test_a_worker_that_fails_by_itself_is_told_with_its_status():
    with pytest.raises(ChildProcessError, match="a worker process failed with exit status 3; its"):
        list(ordered_map(work.leave, range(20), 2))


@pytest.mark.parametrize("answer", [work.lock, work.refuse_with_a_lock])
def test_what_cannot_be_pickled_is_told(answer):
    with pytest.raises(RuntimeError, match="lock.* cannot be pickled"):
        list(ordered_map(answer, range(20), 2))


def test_workers_end_when_their_parent_is_killed():
    program = (
        "from t2t_jax.data.prepare.workers import ordered_map; from tests.data import work;"
        "list(ordered_map(work.sleep, range(100), 2))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        processes = [int(parent.stdout.readline()) for _ in range(2)]
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(is_running(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_there_are_as_many_processes_as_cores_but_not_too_many(monkeypatch):
    for num_there, num_used in ((1, 1), (3, 3), (20, 8)):
        monkeypatch.setattr(workers, "own_cores", lambda number=num_there: set(range(number)))
        assert num_cores() == num_used
