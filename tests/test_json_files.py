"""JSON files are written completely or not at all."""

import errno
import json
import math
import os
import stat

import numpy as np
import pytest

from t2t_jax.json_files import (
    DiskFullError,
    error_text,
    full_disk_told,
    json_text,
    read_json,
    write_bytes,
    write_json,
)


def test_writing_json_replaces_the_whole_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    write_json(path, {"b": "ä"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"b": "ä"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_file_as_it_was_and_no_other(tmp_path, monkeypatch, call):
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, no_space)
        with pytest.raises(DiskFullError, match=r"record.json cannot .*No space left.* MiB left"):
            write_json(path, {"b": 2})
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_and_its_name_are_on_the_disk_when_it_is_written(tmp_path, monkeypatch):
    done = []
    replace, fsync = os.replace, os.fsync

    def synced(descriptor):
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("name") or replace(*paths))
    write_json(tmp_path / "record.json", {"a": 1})
    assert done == ["file", "name", "directory"]


def test_what_a_library_says_of_a_full_disk_is_told_in_our_words(tmp_path):
    with pytest.raises(
        DiskFullError, match=r"^[^\n]* cannot be written \(No space left on device;"
    ):
        with full_disk_told(tmp_path / "not" / "there"):
            try:
                raise ValueError("DATA_LOSS: [OS error 28: No space left on device]\nwritten")
            except ValueError as error:
                raise RuntimeError("handle is closed") from error
    with pytest.raises(OSError, match="^something else$"):
        with full_disk_told(tmp_path):
            raise OSError("something else")


@pytest.mark.parametrize("content", [b'{"a": 1', b"", b'{"a": "\xff"}', b"[1]"])
def test_damaged_json_is_told_by_its_file(tmp_path, content):
    path = tmp_path / "training.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^[^\n]*training\.json is damaged, it [^\n]+$"):
        read_json(path)


def test_a_number_that_is_none_is_null(tmp_path):
    path = tmp_path / "record.json"
    nothing = {
        "a": math.nan,
        "b": [1.5, math.inf, (-math.inf, "nan")],
        "c": {"d": np.float64("nan")},
    }
    write_json(path, nothing)
    strict = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert strict == {"a": None, "b": [1.5, None, [None, "nan"]], "c": {"d": None}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(nothing)


def test_an_error_of_the_system_begins_with_the_file(tmp_path):
    with pytest.raises(OSError) as caught:
        (tmp_path / "none").read_text()
    assert error_text(caught.value) == f"{tmp_path}/none: No such file or directory"
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError) as caught:
        (tmp_path / "there").rename(tmp_path / "none" / "there")
    assert error_text(caught.value) == f"{tmp_path}/none/there: No such file or directory"
    assert error_text(DiskFullError("no space")) == "no space"
    assert error_text(ValueError("wrong")) == "wrong"


def test_a_write_that_is_refused_names_the_file_and_not_the_one_beside_it(tmp_path):
    path = tmp_path / "none" / "a.json"
    with pytest.raises(FileNotFoundError) as refused:
        write_bytes(path, b"")
    assert refused.value.filename == str(path)
