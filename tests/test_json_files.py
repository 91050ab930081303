"""JSON files that are there whole or not at all."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from t2t_jax.json_files import json_text, read_json, write_json


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
