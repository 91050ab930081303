"""When a corpus is prepared again, what is told of it, and which files are read to be checked."""

import json
import os
import time

import pytest

from t2t_jax.data.prepare import manifest
from t2t_jax.data.prepare.prepared import prepare
from tests.data.text_corpus import sentence_pairs, text_config, write_corpus, write_pairs


def silent(line: str) -> None:
    """Takes the log lines nobody asks for."""


def test_what_has_changed_is_told(directory):
    def told(**changes):
        lines = []
        prepare(text_config(directory, **changes), lines.append)
        return lines[0]

    assert told() == "vocabulary: 60 bpe pieces learned from train"
    assert told(max_length=64) == "prepared anew: max_length was 100, is 64"
    write_pairs(directory, "dev", sentence_pairs(120)[81:101])
    assert told() == "prepared anew: dev.de has changed; dev.en has changed"
    assert told(vocabulary_size=61, max_length=64) == (
        "prepared anew: max_length was 100, is 64; vocabulary_size was 60, is 61"
    )
    # What was there before comes back.
    assert told(max_length=100).startswith("train: 80 pairs kept")


def test_what_has_changed_is_told_of_the_same_corpus_only(directory):
    cache = str(directory / "cache")
    for name in ("a", "b", "c"):
        (directory / name).mkdir()
        write_corpus(directory / name)
    for split in ("train", "dev", "test"):
        write_pairs(directory / "b", split, sentence_pairs(120)[40:])
    lines = []
    prepare(text_config(directory / "a", cache=cache), silent)
    prepare(text_config(directory / "b", cache=cache), lines.append)
    assert lines[0].startswith("vocabulary:")
    # The same files elsewhere.
    prepare(text_config(directory / "c", cache=cache, max_length=50), lines.append)
    assert "prepared anew: max_length was 100, is 50" in lines


def test_another_version_and_damaged_neighbours_do_no_harm(directory):
    first = prepare(text_config(directory), silent)
    file = first.directory / "manifest.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"format": 1}))
    for name, content in {"x": "[]", "y": "{}", "z": "\xff", "w": '{"inputs": 3}'}.items():
        (directory / "cache" / name).mkdir()
        (directory / "cache" / name / "manifest.json").write_text(content, "latin-1")
    lines = []
    prepare(text_config(directory, max_length=64), lines.append)
    assert lines[0] == (
        f"prepared anew: format was 1, is {manifest.FORMAT}; max_length was 100, is 64"
    )


def test_files_are_not_read_again_while_their_times_are_the_same(directory, monkeypatch):
    prepared = prepare(text_config(directory), silent)
    file = prepared.directory / "train.source_ids.bin"
    time.sleep(0.11)  # younger files are not trusted
    prepare(text_config(directory), silent)
    read = []

    def recorded(file, file_sha256=manifest.file_sha256):
        read.append(file.name)
        return file_sha256(file)

    monkeypatch.setattr(manifest, "file_sha256", recorded)
    prepare(text_config(directory), silent)
    assert read == []
    os.utime(file)
    prepare(text_config(directory), silent)
    assert read == [file.name]
    # Its old times do not make another content the right one.
    before = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ValueError, match="train.source_ids.bin is not what was written"):
        prepare(text_config(directory), silent)


def test_a_directory_that_cannot_be_written_to_is_checked_every_time(directory, monkeypatch):
    prepared = prepare(text_config(directory), silent)
    (prepared.directory / "checked.json").unlink()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(manifest, "write_json", refuse)
    assert prepare(text_config(directory), silent).fingerprint == prepared.fingerprint
