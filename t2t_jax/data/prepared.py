"""Token ids on disk: sentences go in once, memory-mapped arrays come out ever after.

A prepared corpus is a directory named after all it depends on: the keys of the config that
change a token, and the bytes of the input. It holds `manifest.json`, `vocabulary.model` and
for every split four arrays, `SPLIT.{source,target}_{ids,offsets}.bin`. It is built beside its
final place and renamed when complete, so a directory under its final name is whole.
"""

import errno
import hashlib
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import DTypeLike

from t2t_jax.data.config import DataConfig, Task
from t2t_jax.data.corpus import (
    check_corpus,
    class_names,
    content_hashes,
    file_sha256,
    read_examples,
    split_names,
)
from t2t_jax.data.vocabulary import END_ID, START_ID, Vocabulary, learn_vocabulary

# Raise when the same input and config would give other files: old directories are then left alone.
_FORMAT = 1
_VOCABULARY_KEYS = ("vocabulary_kind", "vocabulary_size", "character_coverage")
_KEYS = (
    "source",
    "source_language",
    "target_language",
    "max_length",
    *_VOCABULARY_KEYS,
)
_EMBEDDED_KEYS = ("corpus_seed", "train_pairs")
_ARRAYS = ("source_ids", "source_offsets", "target_ids", "target_offsets")
# Enough sentences to keep SentencePiece's threads busy, few enough for any memory.
_PAIRS_PER_CHUNK = 10_000


class PreparedSplit(NamedTuple):
    """Pair p is `source_ids[source_offsets[p] : source_offsets[p + 1]]` and likewise the target.

    translation                two sentences, each with the end token, without a start token
    language_modelling         source: nothing; target: a sentence with the end token
    masked_language_modelling  source and target: the same sentence with start and end tokens
    classification             source: a sentence with start and end tokens; target: 1 + its class

    All arrays are memory-mapped and read-only.
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray

    @property
    def num_pairs(self) -> int:
        """Number of sentence pairs, or of sentences if the task has no pairs."""
        return len(self.source_offsets) - 1

    @property
    def source_lengths(self) -> Int[np.ndarray, " pairs"]:
        """Tokens of each source, start and end tokens included."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> Int[np.ndarray, " pairs"]:
        """Tokens of each target, start and end tokens included."""
        return np.diff(self.target_offsets)


class Prepared(NamedTuple):
    """A corpus as token ids."""

    directory: Path
    vocabulary: Vocabulary
    splits: dict[str, PreparedSplit]
    fingerprint: str  # 16 hexadecimal digits over the vocabulary and all token ids
    manifest: dict  # direction, pairs and tokens, what was dropped and why, sha256 of each file
    classes: tuple[str, ...]  # their names by number; none unless the task is classification


def prepare(
    config: DataConfig, log: Callable[[str], None], vocabulary: Vocabulary | None = None
) -> Prepared:
    """Learns the vocabulary and tokenises every split, or loads what an earlier call has made.

    Pairs with a blank side are dropped from every split; pairs with a side of more than
    `max_length` tokens from train only, so that every model is scored on the same sentences.

    Args:
      log: called with one line of text per split, and one for the directory.
      vocabulary: to be used in the place of one that is learned.

    Raises:
      ValueError: the input is wrong (see `check_corpus`), the vocabulary cannot be learned (see
        `learn_vocabulary`), nothing is left of a split, or the prepared files are damaged.
    """
    if vocabulary is not None and config.task == "masked_language_modelling":
        if not vocabulary.has_mask:
            raise ValueError(f"data.task={config.task!r} needs a vocabulary with a mask token")
    inputs = content_hashes(config)
    settings = _settings(config, vocabulary)
    directory = Path(config.cache).expanduser() / _cache_key(settings, inputs)
    if directory.exists():
        prepared = _load(directory, vocabulary)
        for split, entry in prepared.manifest["splits"].items():
            log(_split_line(config, split, entry))
        log(f"prepared data loaded from {directory}")
    else:
        check_corpus(config)
        _build_aside(config, directory, settings, inputs, log, vocabulary)
        prepared = _load(directory, vocabulary)
        log(f"prepared data written to {directory}")
    return prepared


def _settings(config: DataConfig, vocabulary: Vocabulary | None) -> dict[str, str | int | float]:
    """The config keys that change a token, or the vocabulary in the place of those it is of."""
    keys = _KEYS + (_EMBEDDED_KEYS if config.source == "embedded" else ())
    if config.task != "translation":
        keys += ("task",)
    if vocabulary is None:
        return {key: getattr(config, key) for key in keys}
    others = {key: getattr(config, key) for key in keys if key not in _VOCABULARY_KEYS}
    return others | {"vocabulary": vocabulary.fingerprint}


def _cache_key(settings: dict, inputs: dict[str, str]) -> str:
    relevant = {"format": _FORMAT, "config": settings, "inputs": inputs}
    return _sha256(json.dumps(relevant, sort_keys=True))[:16]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _build_aside(
    config: DataConfig,
    directory: Path,
    settings: dict,
    inputs: dict[str, str],
    log: Callable[[str], None],
    vocabulary: Vocabulary | None,
) -> None:
    aside = directory.with_name(f".{directory.name}.{os.getpid()}.{secrets.token_hex(4)}")
    aside.mkdir(parents=True)
    try:
        manifest = _build(config, aside, log, vocabulary)
        manifest |= {"config": settings, "inputs": inputs}
        (aside / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        aside.rename(directory)
    except OSError as error:
        # Another process was first: its directory holds the same files.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _build(
    config: DataConfig,
    directory: Path,
    log: Callable[[str], None],
    vocabulary: Vocabulary | None,
) -> dict:
    if vocabulary is None:
        vocabulary = learn_vocabulary(
            _train_sentences(config),
            config.vocabulary_kind,
            config.vocabulary_size,
            config.character_coverage,
            with_mask=config.task == "masked_language_modelling",
        )
        vocabulary.save(directory / "vocabulary.model")
        log(f"vocabulary: {vocabulary.size:,} {config.vocabulary_kind} pieces learned from train")
    # Every pair of ids in half the memory, as long as an id fits.
    ids_dtype = np.uint16 if vocabulary.size <= 1 << 16 else np.int32
    classes = class_names(config)
    encode = _make_encode(config.task, vocabulary, classes)
    splits = {}
    for split in split_names(config):
        max_length = config.max_length if split == "train" else None
        examples = read_examples(config, split)
        splits[split] = _write_split(directory, split, examples, encode, ids_dtype, max_length)
        line = _split_line(config, split, splits[split])
        log(line)
        if splits[split]["pairs"] == 0:
            raise ValueError(f"nothing is left of the corpus: {line}")
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
        for file in sorted(directory.iterdir())
    }
    return {
        "format": _FORMAT,
        "direction": config.direction,
        "fingerprint": _fingerprint(files, classes),
        "vocabulary_fingerprint": vocabulary.fingerprint,
        "vocabulary_size": vocabulary.size,
        "ids_dtype": np.dtype(ids_dtype).name,
        "splits": splits,
        "files": files,
        "classes": classes,
    }


def _fingerprint(files: dict, classes: tuple[str, ...]) -> str:
    parts = {"files": files, "classes": classes} if classes else files
    return _sha256(json.dumps(parts, sort_keys=True))[:16]


def _train_sentences(config: DataConfig) -> Iterator[str]:
    """All text of train, in an order that makes en-de and de-en learn the same vocabulary."""
    num_texts = len(config.languages)
    step = -1 if list(config.languages) != sorted(config.languages) else 1
    for example in read_examples(config, "train"):
        yield from example[:num_texts][::step]


# The source and target ids of each of some examples; None for one with a blank text.
Encode = Callable[[list[tuple[str, ...]]], list[tuple[list[int], list[int]] | None]]


def _make_encode(task: Task, vocabulary: Vocabulary, classes: tuple[str, ...]) -> Encode:
    target_of_class = {name: [number] for number, name in enumerate(classes, start=1)}

    def encode(examples: list[tuple[str, ...]]) -> list[tuple[list[int], list[int]] | None]:
        texts, *others = map(list, zip(*examples, strict=True))
        encoded = vocabulary.encode(texts)
        if task == "translation":
            pairs = zip(encoded, vocabulary.encode_target(others[0]), strict=True)
            return [([*s, END_ID], [*t, END_ID]) if s and t else None for s, t in pairs]
        if task == "language_modelling":
            return [([], [*ids, END_ID]) if ids else None for ids in encoded]
        sentences = [[START_ID, *ids, END_ID] if ids else None for ids in encoded]
        if task == "masked_language_modelling":
            return [(ids, ids) if ids else None for ids in sentences]
        pairs = zip(sentences, others[0], strict=True)
        return [(ids, target_of_class[name]) if ids else None for ids, name in pairs]

    return encode


def _write_split(
    directory: Path,
    split: str,
    examples: Iterator[tuple[str, ...]],
    encode: Encode,
    ids_dtype: type[np.generic],
    max_length: int | None,
) -> dict:
    """Writes the four arrays chunk by chunk; returns the split's entry of the manifest."""
    num_kept = num_blank = num_too_long = 0
    num_tokens = {"source": 0, "target": 0}
    streams = {name: _array_file(directory, split, name).open("wb") for name in _ARRAYS}
    try:
        for side in num_tokens:
            np.zeros(1, np.int64).tofile(streams[f"{side}_offsets"])
        while chunk := list(itertools.islice(examples, _PAIRS_PER_CHUNK)):
            kept = []
            for pair in encode(chunk):
                if pair is None:
                    num_blank += 1
                elif max_length is not None and max(map(len, pair)) > max_length:
                    num_too_long += 1
                else:
                    kept.append(pair)
            num_kept += len(kept)
            for side, sentences in zip(num_tokens, zip(*kept, strict=True), strict=False):
                lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
                offsets = num_tokens[side] + np.cumsum(lengths)
                offsets.tofile(streams[f"{side}_offsets"])
                ids = itertools.chain.from_iterable(sentences)
                np.fromiter(ids, ids_dtype, lengths.sum()).tofile(streams[f"{side}_ids"])
                num_tokens[side] = int(offsets[-1])
    finally:
        for stream in streams.values():
            stream.close()
    return {
        "pairs": num_kept,
        "dropped": {"blank": num_blank, "too_long": num_too_long},
        "source_tokens": num_tokens["source"],
        "target_tokens": num_tokens["target"],
    }


def _split_line(config: DataConfig, split: str, entry: dict) -> str:
    dropped = entry["dropped"]
    examples = "pairs" if config.task == "translation" else "sentences"
    line = f"{split}: {entry['pairs']:,} {examples} kept, {dropped['blank']:,} blank"
    if split == "train":
        line += f", {dropped['too_long']:,} over {config.max_length} tokens"
    return line


def _array_file(directory: Path, split: str, name: str) -> Path:
    return directory / f"{split}.{name}.bin"


def _load(directory: Path, vocabulary: Vocabulary | None) -> Prepared:
    manifest = _checked_manifest(directory)
    splits = {}
    for split in manifest["splits"]:
        arrays = {}
        for name in _ARRAYS:
            dtype = np.int64 if name.endswith("offsets") else manifest["ids_dtype"]
            arrays[name] = _mapped(_array_file(directory, split, name), dtype)
        splits[split] = PreparedSplit(**arrays)
    vocabulary = vocabulary or Vocabulary.load(directory / "vocabulary.model")
    classes = tuple(manifest.get("classes", ()))
    return Prepared(directory, vocabulary, splits, manifest["fingerprint"], manifest, classes)


def _mapped(file: Path, dtype: DTypeLike) -> np.ndarray:
    if file.stat().st_size == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    # A plain view of the mapped memory: indexing np.memmap itself is slow.
    return np.asarray(np.memmap(file, dtype, mode="r"))


def _checked_manifest(directory: Path) -> dict:
    """The manifest, once every file has the size and the sha256 it states.

    Raises:
      ValueError: a file is missing or is not what was written.
    """
    advice = f"delete {directory} and prepare again"
    try:
        manifest = json.loads((directory / "manifest.json").read_text("utf-8"))
        files = manifest["files"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{directory / 'manifest.json'} cannot be read: {advice}") from error
    for name, expected in files.items():
        file = directory / name
        num_bytes = file.stat().st_size if file.is_file() else None
        if num_bytes != expected["bytes"]:
            found = "is missing" if num_bytes is None else f"has {num_bytes:,} bytes"
            raise ValueError(f"{file} {found}, not {expected['bytes']:,} bytes: {advice}")
        if file_sha256(file) != expected["sha256"]:
            raise ValueError(f"{file} is not what was written (other sha256): {advice}")
    return manifest
