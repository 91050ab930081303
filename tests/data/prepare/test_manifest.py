"""When a corpus is prepared again, what is logged, and which files are read as a check."""

import copy
import dataclasses
import itertools
import json
import os
import time
from pathlib import Path
from typing import get_args

import pytest

from configs import base, classifier, language_model, masked_language_model, multi30k, tiny
from t2t_jax.data.config import CorpusKind, DataConfig, Task
from t2t_jax.data.corpora.corpus import content_hashes
from t2t_jax.data.prepare import manifest
from t2t_jax.data.prepare.prepared import prepare
from tests.data.text_corpus import sentence_pairs, text_config, write_corpus, write_pairs


def silent(line: str) -> None:
    """Takes the log lines nobody asks for."""


def changed(config, field):
    """The config with another value of a field, which need not be allowed."""
    value = getattr(config, field.name)
    choices = [choice for choice in get_args(field.type) if choice != value]
    more = {str: "x", int: 1, float: -0.01, bool: True}[type(value)]
    config = copy.copy(config)
    vars(config)[field.name] = choices[0] if choices else value + more
    return config


@pytest.mark.parametrize("source", get_args(CorpusKind))
def test_every_field_changes_the_cache_key_or_is_said_to_have_no_effect(tmp_path, source):
    no_effect = {*manifest.PLACE, *manifest.AFTERWARDS, *manifest.NOT_READ.get(source, ())}
    for task, field in itertools.product(get_args(Task), dataclasses.fields(DataConfig)):
        config = copy.copy(text_config(tmp_path))
        vars(config).update(source=source, task=task)
        configs = config, changed(config, field)
        keys = {manifest.cache_key(manifest.settings(each, None), {}) for each in configs}
        assert len(keys) == (1 if field.name in no_effect else 2), field.name


def test_a_field_that_nobody_has_heard_of_is_part_of_the_cache_key(tmp_path):
    fields = [("lower_case", bool, True)]
    other = dataclasses.make_dataclass(
        "Other", fields, bases=(DataConfig,), frozen=True, kw_only=True
    )
    config = other(**vars(text_config(tmp_path)))
    assert manifest.settings(config, None)["lower_case"]


@pytest.mark.parametrize("name", [*manifest.AFTERWARDS, *manifest.NOT_READ["text"]])
def test_what_is_said_to_have_no_effect_has_none(directory, name):
    (field,) = (field for field in dataclasses.fields(DataConfig) if field.name == name)
    config = text_config(directory)
    elsewhere = dataclasses.replace(changed(config, field), cache=str(directory / "elsewhere"))
    fingerprints = {prepare(each, silent).fingerprint for each in (config, elsewhere)}
    assert len(fingerprints) == 1


@pytest.mark.parametrize(
    ("config", "changes", "key"),
    [
        (tiny, {}, "fa5e71b7e7acd2e2"),
        (language_model, {}, "8febed28615e18cf"),
        (masked_language_model, {}, "685143c71d50aaad"),
        (classifier, {}, "f000108827938f10"),
        # Without their files, which are not here.
        (base, {}, "a7996e55cbe5d01a"),
        (multi30k, {}, "4fe1405071d828e5"),
        (multi30k, {"max_length": 256}, "2939c9df3ccb2d62"),  # the kept tables'
    ],
)
def test_the_corpora_of_kept_results_have_the_same_cache_keys_as_ever(config, changes, key):
    config = DataConfig(**dict(config.get_config().data) | changes | {"directory": "d"})
    inputs = content_hashes(config) if config.source == "embedded" else {}
    assert manifest.cache_key(manifest.settings(config, None), inputs) == key


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


def test_a_file_that_another_name_is_of_has_not_changed(directory):
    def told(place=directory, **changes):
        lines = []
        prepare(text_config(place, cache=str(directory / "cache"), **changes), lines.append)
        return lines[0]

    told()
    write_pairs(directory, "t16", sentence_pairs(120)[90:])
    assert told(test="t16") == (
        "prepared anew: test.de is another file; test.en is another file; test was test, is t16"
    )
    write_pairs(directory, "dev", sentence_pairs(120)[81:101])
    assert told(test="t16") == "prepared anew: dev.de has changed; dev.en has changed"
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    write_corpus(elsewhere)
    write_pairs(elsewhere, "dev", sentence_pairs(79))
    assert told(elsewhere) == (
        "prepared anew: dev.de is another file; dev.en is another file; "
        f"directory was {directory}, is {elsewhere}"
    )


def test_a_corpus_is_not_compared_with_one_that_has_only_its_test_set(directory):
    cache = str(directory / "cache")
    stranger = directory / "stranger"
    stranger.mkdir()
    write_corpus(stranger)
    for split in ("train", "dev"):
        write_pairs(stranger, split, sentence_pairs(120)[40:])
    prepare(text_config(stranger, cache=cache, max_length=256), silent)
    lines = []
    prepare(text_config(directory, cache=cache), lines.append)
    assert lines[0].startswith("vocabulary:")


def test_a_relative_directory_is_the_same_place_only_with_the_same_files(directory, monkeypatch):
    cache = str(directory / "cache")
    lines = []
    for person, pairs in (("stranger", sentence_pairs(120)[40:]), ("me", sentence_pairs(80))):
        (directory / person / "DIR").mkdir(parents=True)
        for split in ("train", "dev", "test"):
            write_pairs(directory / person / "DIR", split, pairs)
        monkeypatch.chdir(directory / person)
        prepare(text_config(Path("DIR"), cache=cache, max_length=len(person) * 8), lines.append)
    assert not [line for line in lines if line.startswith("prepared anew")]
    prepare(text_config(Path("DIR"), cache=cache, max_length=50), lines.append)
    assert "prepared anew: max_length was 16, is 50" in lines


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


def files_that_are_read(monkeypatch):
    """The names of files whose sha256 is computed from now on."""
    read = []

    def recorded(file, file_sha256=manifest.file_sha256):
        read.append(file.name)
        return file_sha256(file)

    monkeypatch.setattr(manifest, "file_sha256", recorded)
    return read


def test_files_are_not_read_again_while_their_times_are_the_same(directory, monkeypatch):
    prepared = prepare(text_config(directory), silent)
    file = prepared.directory / "train.source_ids.bin"
    time.sleep(0.11)  # younger files are not trusted
    prepare(text_config(directory), silent)
    read = files_that_are_read(monkeypatch)
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
    read = files_that_are_read(monkeypatch)
    for _ in range(2):
        assert prepare(text_config(directory), silent).fingerprint == prepared.fingerprint
        assert set(read) >= prepared.manifest["files"].keys()
        read.clear()
