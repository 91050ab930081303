"""The manifest of a prepared directory: what it was made from, and the sha256 of every file."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.text_files import UnreadableError, file_sha256
from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.json_files import read_json, write_json

# Raise when the same input and config would give other files: old directories are then not used.
FORMAT = 2
# Config fields that change no token. All others are part of the cache key: a field forgotten here
# only causes needless preparation.
PLACE = ("name", "directory", "mixture", "train", "dev", "test")  # the bytes there are hashed
AFTERWARDS = (
    *("cache", "batching", "packed_length", "num_buckets", "length_multiple"),
    "mask_rate",
    *("source_tokens_per_batch", "target_tokens_per_batch"),
)
_GRAMMAR = ("corpus_seed", "train_pairs")
NOT_READ = {"embedded": PLACE, "text": _GRAMMAR, "tfds": _GRAMMAR}  # by source
VOCABULARY = (
    *("vocabulary_kind", "vocabulary_size", "character_coverage", "lowercase"),
    "vocabulary_sentences",
)
FILE = "manifest.json"
_SHA256 = "sha256"  # of everything else in the manifest
MADE_WITH = "made_with"  # versions of the libraries that make the tokens
_STAMP = "checked.json"
_CLOCK_TICK_NS = 100_000_000  # longer than a tick of any file system's clock in use


def settings(config: DataConfig, vocabulary: Vocabulary | None) -> dict[str, Any]:
    """The config keys that change a token; a given `vocabulary` replaces the keys to learn one."""
    no_effect = {*PLACE, *AFTERWARDS, *NOT_READ.get(config.source, ())}
    if config.task == "translation":
        no_effect.add("task")  # as when it was the only task
    if not config.lowercase:
        no_effect.add("lowercase")  # as before there was this key
    if vocabulary is not None:
        no_effect.update(VOCABULARY)
    keys = [field.name for field in dataclasses.fields(config) if field.name not in no_effect]
    given = {} if vocabulary is None else {"vocabulary": vocabulary.fingerprint}
    return {key: getattr(config, key) for key in keys} | given


def place(config: DataConfig) -> dict[str, Any]:
    """Where the corpus comes from; other places may have the same corpus."""
    not_read = NOT_READ.get(config.source, ())
    values = {key: getattr(config, key) for key in ("source", *PLACE) if key not in not_read}
    if values.pop("mixture", None) is not None:  # without the weights, which are no place
        values["corpora"] = [corpus for corpus, _ in config.corpora]
    return values


def cache_key(settings: dict[str, Any], inputs: dict[str, str]) -> str:
    """16 hexadecimal digits over all that a prepared corpus depends on."""
    return sha256_of({"format": FORMAT, "config": settings, "inputs": inputs})[:16]


def sha256_of(values: Any) -> str:
    """Hexadecimal sha256 of what JSON can hold."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode("utf-8")).hexdigest()


def described_files(files: list[Path]) -> dict[str, dict[str, Any]]:
    """Size and sha256 of each file, by its name."""
    return {
        file.name: {"bytes": file.stat().st_size, "sha256": file_sha256(file)} for file in files
    }


def write_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest, with its own sha256; the files must match it."""
    write_json(directory / FILE, manifest | {_SHA256: sha256_of(manifest)})
    _write_stamp(directory, _stamp(directory, manifest["files"]))


def checked_manifest(directory: Path) -> dict[str, Any]:
    """The manifest, after checking that every file has the stated size and sha256.

    A sha256 is not computed again while the file has the same size and times as at its last
    successful check: `checked.json` remembers them. Writing and copying change the times.

    Raises:
      ValueError: a file, or the manifest itself, is missing or is not what was written.
    """
    advice = f"delete {directory} and prepare again"
    try:
        manifest = read_json(directory / FILE)
        is_as_written = _is_as_written(manifest)
        files = manifest["files"]
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError) as error:
        raise ValueError(f"{directory / FILE} cannot be read: {advice}") from error
    except OSError as error:  # of the disk, or of rights: it may be whole
        raise UnreadableError(f"{directory / FILE} cannot be read: {error.strerror}") from error
    if not is_as_written:
        raise ValueError(f"{directory / FILE} is not what was written (other sha256): {advice}")
    known, now = _read_stamp(directory), _stamp(directory, files)
    for name, expected in files.items():
        if name in known and known[name] == now.get(name):
            continue
        file = directory / name
        num_bytes = file.stat().st_size if file.is_file() else None
        if num_bytes != expected["bytes"]:
            found = "is missing" if num_bytes is None else f"has {num_bytes:,} bytes"
            raise ValueError(f"{file} {found}, not {expected['bytes']:,} bytes: {advice}")
        if file_sha256(file) != expected["sha256"]:
            raise ValueError(f"{file} is not what was written (other sha256): {advice}")
    if now != known:
        _write_stamp(directory, now)
    return manifest


def other_versions(manifest: dict[str, Any], vocabulary: Vocabulary) -> str | None:
    """A message if the token ids were made with other versions than those here, else None.

    Directories prepared before versions were recorded give None.
    """
    here = vocabulary.libraries
    differing = {
        name: version
        for name, version in manifest.get(MADE_WITH, {}).items()
        if here.get(name, version) != version
    }
    if not differing:
        return None
    were = ", ".join(f"{name} {version}" for name, version in differing.items())
    are = ", ".join(str(here[name]) for name in differing)
    return (
        f"prepared with {were}, but {are} is installed: the token ids stay as they are; only text "
        f"read from now on, such as lines to translate, is tokenised by {are}"
    )


def _is_as_written(manifest: dict[str, Any]) -> bool:
    if _SHA256 not in manifest:
        return MADE_WITH not in manifest  # both were introduced together
    rest = {key: value for key, value in manifest.items() if key != _SHA256}
    return manifest[_SHA256] == sha256_of(rest)


def changes(cache: Path, made_from: dict[str, Any]) -> str | None:
    """How a corpus differs from the most similar prepared one in `cache`, in words.

    None if `cache` has none from the same place or with a file of train in common.

    Args:
      made_from: its `settings` as "config", its `place`, and its "inputs": sha256 by name.
    """
    inputs = _train_files(made_from["inputs"])
    place = made_from["place"] if _is_one_place(made_from["place"]) else None
    wanted = {"format": FORMAT} | made_from
    wanted_facts = _facts(wanted)
    found = []
    for file in cache.glob(f"*/{FILE}"):
        try:
            other = read_json(file)
            facts = _facts(other)
            shares_input = not inputs.isdisjoint(_train_files(other["inputs"]))
            if shares_input or place is not None and other.get("place") == place:
                num_alike = len(wanted_facts.items() & facts.items())
                found.append((num_alike, file.stat().st_mtime_ns, file.parent.name, other))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged, or not ours
    if not found:
        return None
    *_, other = max(found, key=lambda each: each[:3])
    return "; ".join(_differences(other, wanted))


def _is_one_place(place: dict[str, Any]) -> bool:
    """Whether it means the same everywhere, unlike a relative directory."""
    directories = [place["directory"], *place["corpora"]] if place["source"] == "text" else []
    return all(os.path.isabs(os.path.expanduser(each)) for each in directories if each)


def _train_files(inputs: dict[str, str]) -> set[str]:
    """sha256 of the files of train: different corpora may share a test set."""
    splits = {name: _split_of(name) for name in inputs}
    return {inputs[name] for name, split in splits.items() if split in ("train", None)}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    old_facts, new_facts = _facts(old), _facts(new)
    old_place, new_place = old.get("place", {}), new["place"]
    moved = {key for key in old_place.keys() & new_place if old_place[key] != new_place[key]}
    told = set()
    for kind, name in sorted(old_facts.keys() | new_facts.keys()):
        before, now = old_facts.get((kind, name)), new_facts.get((kind, name))
        if before == now:
            continue
        keys = moved & _place_keys(name) if kind == "file" else set()
        told |= keys
        if before is None:
            yield f"{name} is new" if kind == "file" else f"{name} is {now}"
        elif now is None:
            yield f"{name} is gone" if kind == "file" else f"{name} was {before}"
        elif kind == "file":
            yield f"{name} is another file" if keys else f"{name} has changed"
        else:
            yield f"{name} was {before}, is {now}"
    yield from (f"{key} was {old_place[key]}, is {new_place[key]}" for key in sorted(told))


def _place_keys(file: str) -> set[str]:
    """The keys of `place` that locate this input file; none for our own code."""
    split = _split_of(file)
    return {"name", "directory", "corpora", split} if split else set()


def _split_of(file: str) -> str | None:
    found = re.match(r"(?:corpus \d+/)?(train|dev|test)[.:]", file)
    return found[1] if found else None


def _facts(manifest: dict[str, Any]) -> dict[tuple[str, str], Any]:
    settings = {"format": manifest["format"], "task": "translation"} | manifest["config"]
    return {("config", key): value for key, value in settings.items()} | {
        ("file", name): sha256 for name, sha256 in manifest["inputs"].items()
    }


def _stamp(directory: Path, files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What to remember of files that have the sha256 in `files`.

    A file just written is left out: written again, it could have the same times.
    """
    stamp = {}
    for name, expected in files.items():
        with contextlib.suppress(OSError):
            status = (directory / name).stat()
            times = status.st_mtime_ns, status.st_ctime_ns
            if time.time_ns() - max(times) > _CLOCK_TICK_NS:
                stamp[name] = [expected["sha256"], status.st_size, *times]
    return stamp


def _read_stamp(directory: Path) -> dict[str, Any]:
    try:
        return read_json(directory / _STAMP)
    except (OSError, ValueError):
        return {}


def _write_stamp(directory: Path, stamp: dict[str, Any]) -> None:
    # The directory may be another user's, or full: then every check computes the sha256.
    with contextlib.suppress(OSError):
        write_json(directory / _STAMP, stamp)
