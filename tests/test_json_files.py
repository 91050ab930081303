"""JSON files that are there whole or not at all."""

import json
from pathlib import Path

import pytest

from t2t_jax.json_files import read_json, write_json


def test_writing_json_replaces_the_whole_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    write_json(path, {"b": "ä"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"b": "ä"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_is_cut_short_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})

    def cut_short(self, content):
        with open(self, "wb") as file:
            file.write(content[:3])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", cut_short)
    with pytest.raises(OSError, match="no space"):
        write_json(path, {"b": 2})
    assert read_json(path) == {"a": 1}
