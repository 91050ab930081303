"""What a killed run leaves behind, and which run may continue it."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from t2t_jax.data.prepare import unfinished as unfinished_module
from t2t_jax.data.prepare.tokenise import Side, Tokenised
from t2t_jax.data.prepare.unfinished import (
    ARRAYS,
    Unfinished,
    array_file,
    finish,
    only_one_process,
    write_whole,
    writing,
)
from t2t_jax.json_files import DiskFullError

IDENTITY = {"vocabulary": "0123", "examples_per_chunk": 3}


def chunk(*lengths: int) -> Tokenised:
    """Pairs of so many source tokens and one target token more; one was dropped."""
    sides = []
    for extra in (0, 1):
        of_side = np.array(lengths, np.int64) + extra
        ids = np.arange(of_side.sum(), dtype=np.uint16)
        sides.append(Side(ids.tobytes(), of_side))
    return Tokenised(len(lengths) + 1, {"blank": 1}, *sides)


CHUNKS = [chunk(2, 3), chunk(), chunk(1, 0, 4)]


def written(directory, chunks=CHUNKS, split="train"):
    directory.mkdir(exist_ok=True)
    with Unfinished(directory, IDENTITY, 2) as unfinished:
        for each in chunks[len(unfinished.entries) :]:
            unfinished.add(split, 0, each)
        return unfinished.entries


def arrays(directory, split="train"):
    return {name: array_file(directory, split, name).read_bytes() for name in ARRAYS}


def test_arrays_are_the_chunks_one_after_the_other(tmp_path):
    written(tmp_path)
    found = arrays(tmp_path)
    assert np.frombuffer(found["source_offsets"], np.int64).tolist() == [0, 2, 5, 6, 6, 10]
    assert np.frombuffer(found["target_offsets"], np.int64).tolist() == [0, 3, 7, 9, 10, 15]
    ids = np.frombuffer(found["source_ids"], np.uint16)
    assert ids.tolist() == [*range(5), *range(5)]


def test_another_process_that_writes_there_too_is_told(tmp_path):
    with Unfinished(tmp_path, IDENTITY, 2) as one, Unfinished(tmp_path, IDENTITY, 2) as other:
        for each in (one, other):
            each.add("train", 0, chunk())  # whoever comes later begins anew
        one.add("train", 0, chunk(2, 3))
        with pytest.raises(OSError, match="another process writes to .*bin: the locks of this"):
            other.add("train", 0, chunk(2, 3))


@pytest.mark.parametrize("num_chunks", [0, 1, 2, 3])
def test_who_comes_later_goes_on_after_the_chunks_that_are_there(tmp_path, num_chunks):
    written(tmp_path / "a")
    first = written(tmp_path / "b", CHUNKS[:num_chunks])
    assert [entry.num_examples for entry in first] == [3, 1, 4][:num_chunks]
    with Unfinished(tmp_path / "b", IDENTITY, 2) as unfinished:
        assert unfinished.entries == first == unfinished.of("train", 0)
        assert unfinished.of("train", 1) == unfinished.of("dev", 0) == []
    assert written(tmp_path / "b") == written(tmp_path / "a")
    assert arrays(tmp_path / "b") == arrays(tmp_path / "a")


def torn_line(directory):
    with (directory / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"split": "train", "corp')


def tail_of_a_chunk(directory):
    with array_file(directory, "train", "target_ids").open("ab") as stream:
        stream.write(b"abc")


@pytest.mark.parametrize("damage", [torn_line, tail_of_a_chunk])
def test_a_chunk_that_was_being_written_is_written_again(tmp_path, damage):
    written(tmp_path / "a")
    written(tmp_path / "b", CHUNKS[:2])
    damage(tmp_path / "b")
    assert written(tmp_path / "b") == written(tmp_path / "a")
    assert arrays(tmp_path / "b") == arrays(tmp_path / "a")


def shortened(file):
    file.write_bytes(file.read_bytes()[:-1])


def flipped(file):
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    "damage",
    [
        (b'"num_pairs": 2', b'"num_pairs": 3'),
        (b"dropped", b"drapped"),
        (b'"num_bytes": [', b'"num_bytes": [-'),
        (b'"num_bytes": [', b'"num_bytes": [1, '),
    ],
)
def test_a_damaged_line_of_the_journal_is_not_believed(tmp_path, damage):
    expected, before = written(tmp_path), arrays(tmp_path)
    journal = tmp_path / "journal.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content.replace(*damage, 1))
    assert journal.read_bytes() != content
    with Unfinished(tmp_path, IDENTITY, 2) as unfinished:
        assert unfinished.entries == []
    assert written(tmp_path) == expected and arrays(tmp_path) == before


@pytest.mark.parametrize("damage", [shortened, flipped, os.unlink])
@pytest.mark.parametrize("name", ["source_ids", "target_offsets"])
def test_what_a_power_cut_has_damaged_is_written_again(tmp_path, damage, name):
    written(tmp_path)
    before = arrays(tmp_path)
    damage(array_file(tmp_path, "train", name))
    with Unfinished(tmp_path, IDENTITY, 2) as unfinished:
        assert len(unfinished.entries) < 3
    written(tmp_path)
    assert arrays(tmp_path) == before


def test_a_split_after_a_damaged_one_is_written_again(tmp_path):
    written(tmp_path)
    with Unfinished(tmp_path, IDENTITY, 2) as unfinished:
        unfinished.add("dev", 0, CHUNKS[0])
    flipped(array_file(tmp_path, "train", "source_ids"))
    with Unfinished(tmp_path, IDENTITY, 2) as unfinished:
        assert [entry.split for entry in unfinished.entries] == ["train", "train"]


@pytest.mark.parametrize("content", [b"", b"\0\0\0\n", b"[]\n", b"{}\n"])
def test_what_was_begun_otherwise_is_thrown_away(tmp_path, content):
    written(tmp_path)
    with Unfinished(tmp_path, IDENTITY | {"vocabulary": "4567"}, 2) as unfinished:
        assert unfinished.entries == []
    (tmp_path / "journal.jsonl").write_bytes(content)
    with Unfinished(tmp_path, IDENTITY, 2) as unfinished:
        assert unfinished.entries == []
        unfinished.add("train", 0, CHUNKS[2])
    offsets = np.frombuffer(arrays(tmp_path)["source_offsets"], np.int64)
    assert offsets.tolist() == [0, 1, 1, 5]


def test_a_finished_directory_has_no_journal(tmp_path):
    written(tmp_path / "a")
    finish(tmp_path / "a", tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["b"]
    assert sorted(os.listdir(tmp_path / "b")) == sorted(f"train.{name}.bin" for name in ARRAYS)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            errno.ENOSPC,
            r"No space left on device.* run the same command again to resume once there is space$",
        ),
        (
            errno.EDQUOT,
            r"Disk quota exceeded.* run the same command again to resume once there is space$",
        ),
        (errno.EACCES, r"Permission denied.* run the same command again to resume$"),
    ],
)
def test_what_cannot_be_written_is_told_and_what_is_there_stays(
    tmp_path, monkeypatch, number, words
):
    written(tmp_path / "a")
    written(tmp_path / "b", [])
    with Unfinished(tmp_path / "b", IDENTITY, 2) as unfinished:
        unfinished.add("train", 0, CHUNKS[0])
        write_all, left = unfinished_module._write_all, [6]

        def until_it_is_full(stream, content):
            if left[0] < len(content):
                write_all(stream, content[: left[0]])
                raise OSError(number, os.strerror(number))
            write_all(stream, content)
            left[0] -= len(content)

        with monkeypatch.context() as patch:
            patch.setattr(unfinished_module, "_write_all", until_it_is_full)
            with pytest.raises(OSError, match=rf"train.source_ids.bin cannot .*{words}"):
                unfinished.add("train", 0, CHUNKS[2])
    assert written(tmp_path / "b") == written(tmp_path / "a")
    assert arrays(tmp_path / "b") == arrays(tmp_path / "a")


def test_what_says_by_itself_that_the_disk_is_full_keeps_its_words(tmp_path):
    with pytest.raises(OSError, match=r"^m.json cannot .* 3 MiB left: finished work is kept"):
        with writing(tmp_path):
            raise DiskFullError("m.json cannot be written, 3 MiB left")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "vocabulary.model"
    write_whole(file, b"first")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unfinished_module, "_write_all", fail)
    with pytest.raises(OSError, match=r"vocabulary.model cannot be written \(No space left"):
        write_whole(file, b"second")
    assert file.read_bytes() == b"first"


def test_the_second_waits_until_the_first_is_out(tmp_path):
    lock, events = tmp_path / "cache" / "x.lock", []
    waits = threading.Event()

    def second():
        with only_one_process(lock, lambda line: (events.append(line), waits.set())):
            events.append("second is in")

    with only_one_process(lock, events.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(30)
        events.append("first goes out")
    thread.join()
    waiting = "another process is preparing this corpus: waiting for it"
    assert events == [waiting, "first goes out", "second is in"]
    assert os.listdir(tmp_path / "cache") == []


def test_a_process_that_was_killed_leaves_no_lock(tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from t2t_jax.data.prepare.unfinished import only_one_process\n"
        "with only_one_process(Path(sys.argv[1]), print): os.kill(os.getpid(), signal.SIGKILL)"
    )
    lock = tmp_path / "x.lock"
    assert subprocess.run([sys.executable, "-c", program, lock]).returncode == -9
    assert lock.exists()
    lines = []
    with only_one_process(lock, lines.append):
        pass
    assert lines == [] and not lock.exists()


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match=r"cannot be locked \(No locks available\): name another"):
        with only_one_process(tmp_path / "x.lock", print):
            pass


@pytest.mark.parametrize("where", [(fcntl, "flock"), (os, "fstat")])
def test_a_lock_that_another_machine_removes_is_made_anew(tmp_path, monkeypatch, where):
    module, name = where
    does, errors = getattr(module, name), [OSError(errno.ESTALE, "Stale file handle")]

    def stale_once(*arguments):
        if errors:
            raise errors.pop()
        return does(*arguments)

    lock = tmp_path / "x.lock"
    with monkeypatch.context() as patch:
        patch.setattr(module, name, stale_once)
        with only_one_process(lock, print):
            assert lock.exists()
    assert errors == [] and not lock.exists()


def test_the_journal_is_a_line_a_chunk(tmp_path):
    written(tmp_path)
    first, *lines = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    assert first == IDENTITY
    assert [line["num_pairs"] for line in lines] == [2, 0, 3]
    assert lines[0]["dropped"] == {"blank": 1}


def _recorded(monkeypatch):
    done, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: done.append("fsync") or fsync(fd))
    for name in ("rename", "replace"):
        original = getattr(Path, name)

        def call(*both, original=original, name=name):
            done.append(name)
            return original(*both)

        monkeypatch.setattr(Path, name, call)
    return done


def test_what_is_finished_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    for name in ("one", "journal.jsonl"):
        (tmp_path / "a" / name).write_text("x")
    done = _recorded(monkeypatch)
    finish(tmp_path / "a", tmp_path / "b")
    assert done == ["fsync", "fsync", "rename"]


def test_a_whole_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = _recorded(monkeypatch)
    write_whole(tmp_path / "a", b"x")
    assert done == ["fsync", "replace"]
