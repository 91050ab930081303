"""What a task reads: a config and a split go in, examples of one or two strings come out.

    translation                                  (source, target)
    language_modelling, masked_language_modelling   (text,)
    classification                               (text, class name)

The one door to all corpora: embedded, text files and TFDS. They are read as streams: nothing
here holds a corpus in memory.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import embedded_corpus, text_files, tfds
from t2t_jax.data.corpora.text_files import LineChunk, file_sha256
from t2t_jax.data.corpora.tfds import TfdsCorpus
from t2t_jax.data.vocabulary.vocabulary import SPACE_PIECE

# Ending of the files with a class name a line.
_LABELS = "labels"
# Its overhead is nothing then, and neither is its memory.
_EXAMPLES_PER_CHUNK = 1_000
# Category Cc without white space, all of which the vocabulary makes spaces of.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")


class TfdsChunk(NamedTuple):
    """Examples `start` to `stop` of a TFDS split; who decodes the chunk opens the files."""

    corpus: TfdsCorpus
    split: str
    start: int
    stop: int


class ExampleChunk(NamedTuple):
    """Examples that cost nothing to decode."""

    examples: list[tuple[str, ...]]


Chunk = LineChunk | TfdsChunk | ExampleChunk  # each can be pickled and holds no open file


def split_names(config: DataConfig) -> tuple[str, ...]:
    """The splits this corpus has; "long" (longer than any in train) only if it is embedded."""
    splits = ("train", "dev", "test")
    has_long = config.source == "embedded" and config.task != "classification"
    return (*splits, "long") if has_long else splits


def corpus_names(config: DataConfig, split: str) -> tuple[str, ...]:
    """What a split is made of: train of a mixture of its corpora, else of one without a name."""
    is_mixture = split == "train" and config.corpora
    return tuple(name for name, _ in config.corpora) if is_mixture else ("",)


def make_ready(config: DataConfig, log: Callable[[str], None]) -> None:
    """Downloads and prepares what TFDS does not have yet; to be called before all that follows.

    Raises:
      ValueError: it cannot be had.
    """
    if config.source == "tfds":
        names = [name for split in split_names(config) for name in corpus_names(config, split)]
        for name in dict.fromkeys(names):
            tfds.make_ready(_tfds_corpus(config, name), log)


def read_pairs(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of a split, whatever the task; see `read_examples`."""
    translation = dataclasses.replace(config, task="translation")
    return ((source, target) for source, target in read_examples(translation, split))


def read_examples(config: DataConfig, split: str, corpus: str = "") -> Iterator[tuple[str, ...]]:
    """The examples of a split in their order, those with a `drop_reason` included.

    Args:
      corpus: one of `corpus_names`; "" reads all of them, one after the other.

    Raises:
      ValueError: no such split or corpus; a file is missing, empty, not UTF-8 or damaged; one
        file has more lines than the other (known at the end of the shorter one).
    """
    chunks = read_chunks(config, split, corpus, examples_per_chunk=_EXAMPLES_PER_CHUNK)
    return itertools.chain.from_iterable(map(decode_chunk, chunks))


def read_chunks(
    config: DataConfig, split: str, corpus: str = "", *, examples_per_chunk: int
) -> Iterator[Chunk]:
    """The same examples before the costly part of reading, which is left to `decode_chunk`.

    No chunk has more than `examples_per_chunk`, and only the last of a corpus has fewer.

    Raises:
      ValueError: as `read_examples`, but for what `decode_chunk` finds.
    """
    names = _checked_names(config, split, corpus)
    if config.source == "embedded":
        return _embedded_chunks(config, split, examples_per_chunk)
    if config.source == "tfds":
        chunks = [_tfds_chunks(config, split, name, examples_per_chunk) for name in names]
    else:
        files_of_corpora = [_split_files(config, split, name) for name in names]
        chunks = [text_files.read_chunks(files, examples_per_chunk) for files in files_of_corpora]
    return itertools.chain.from_iterable(chunks)


def decode_chunk(chunk: Chunk) -> list[tuple[str, ...]]:
    """The examples of a chunk; may be called in another process.

    Raises:
      ValueError: a text is not UTF-8.
    """
    if isinstance(chunk, LineChunk):
        return text_files.decode_chunk(chunk)
    if isinstance(chunk, TfdsChunk):
        return list(tfds.read(*chunk))
    return chunk.examples


def drop_reason(example: tuple[str, ...]) -> str | None:
    """Why an example must not be used: a side is "blank" or has "control characters"."""
    for text in example:
        if not text.replace(SPACE_PIECE, " ").strip():
            return "blank"
        # Most text is printable, which is sooner known.
        if not text.isprintable() and _CONTROL_CHARACTER.search(text):
            return "control characters"
    return None


def num_examples(config: DataConfig, split: str, corpus: str = "") -> int:
    """How many examples `read_examples` gives; of text, one file is read through to count them.

    Raises:
      ValueError: no such split or corpus; a file is missing or damaged.
    """
    names = _checked_names(config, split, corpus)
    if config.source == "embedded":
        return embedded_corpus.num_examples(config, split)
    if config.source == "tfds":
        corpora = [_tfds_corpus(config, name) for name in names]
        return sum(tfds.num_examples(corpus, getattr(config, split)) for corpus in corpora)
    files = [_split_files(config, split, name)[0] for name in names]
    return sum(map(text_files.count_lines, files))


def class_names(config: DataConfig) -> tuple[str, ...]:
    """The classes, in the order of their numbers: all that train has; none for another task.

    Raises:
      ValueError: as `read_examples`; a line has no class; all have the same.
    """
    if config.task != "classification":
        return ()
    if config.source == "embedded":
        return embedded_corpus.CLASSES
    names = set()
    for place, name in _labels(config, "train"):
        if reason := drop_reason((name,)):
            found = "is blank" if reason == "blank" else f"has {reason}"
            raise ValueError(f"{place} {found}: each line must be a class")
        names.add(name)
    if len(names) < 2:
        files = ", ".join(str(files[-1]) for files in _files_of_corpora(config, "train"))
        raise ValueError(f"{files} has the class {names.pop()!r} alone: at least 2 must occur")
    return tuple(sorted(names))


def check_corpus(config: DataConfig) -> None:
    """Reads a text corpus through, so that its mistakes are told before anything is trained.

    Raises:
      ValueError: as `read_examples` and `class_names`, for any split; a class is not in train;
        every line of a file has a NUL.
    """
    if config.source == "tfds":
        for split in split_names(config):
            num_examples(config, split)
    if config.source != "text":
        return
    for files in [files for s in split_names(config) for files in _files_of_corpora(config, s)]:
        text_files.check_counts(files, [text_files.check_file(file) for file in files])
    classes = class_names(config)
    for split in split_names(config) if classes else ():
        for place, name in _labels(config, split):
            if name not in classes:
                raise ValueError(
                    f"{place}: {name!r} is no class of train, which has {', '.join(classes)}"
                )


def content_hashes(config: DataConfig) -> dict[str, str]:
    """sha256 of all that the sentences depend on besides the config, by name.

    The corpora of a mixture have numbers in the place of names: the same files in other
    directories are the same mixture.

    Raises:
      ValueError: a file is missing.
    """
    if config.source == "embedded":
        return embedded_corpus.hashes(config)
    hashes = {}
    for split in split_names(config):
        for number, name in enumerate(corpus_names(config, split), start=1):
            prefix = f"corpus {number}/{split}" if name else split
            if config.source == "tfds":
                found = tfds.hashes(_tfds_corpus(config, name), getattr(config, split))
                hashes |= {f"{prefix}: {file}": sha256 for file, sha256 in found.items()}
            else:
                files = _split_files(config, split, name)
                for ending, file in zip(_endings(config), files, strict=True):
                    hashes[f"{prefix}.{ending}"] = file_sha256(file)
    return hashes


def _checked_names(config: DataConfig, split: str, corpus: str) -> tuple[str, ...]:
    """The `corpus_names` that are meant by `corpus`."""
    if split not in split_names(config):
        allowed = ", ".join(split_names(config))
        raise ValueError(
            f"split {split!r} does not exist: the {config.source} corpus has {allowed}"
        )
    names = corpus_names(config, split)
    if not corpus:
        return names
    if corpus not in names:
        has = " has " + ", ".join(names) if names != ("",) else " is no mixture"
        raise ValueError(f"corpus {corpus!r} does not exist: {split}{has}")
    return (corpus,)


def _embedded_chunks(config: DataConfig, split: str, size: int) -> Iterator[ExampleChunk]:
    examples = embedded_corpus.read(config, split)
    while chunk := list(itertools.islice(examples, size)):
        yield ExampleChunk(chunk)


def _tfds_corpus(config: DataConfig, name: str) -> TfdsCorpus:
    return TfdsCorpus(name or config.name, config.directory, config.languages)


def _tfds_chunks(config: DataConfig, split: str, name: str, size: int) -> Iterator[TfdsChunk]:
    corpus, split = _tfds_corpus(config, name), getattr(config, split)
    total = tfds.num_examples(corpus, split)
    for start in range(0, total, size):
        yield TfdsChunk(corpus, split, start, min(start + size, total))


def _endings(config: DataConfig) -> tuple[str, ...]:
    """Of the files of a split, one for each string of an example."""
    return (*config.languages, *([_LABELS] if config.task == "classification" else []))


def _split_files(config: DataConfig, split: str, name: str) -> list[Path]:
    """The text files of one corpus of a split, which is the directory `name` of a mixture."""
    file_names = [f"{getattr(config, split)}.{ending}" for ending in _endings(config)]
    return [text_files.find_file(name or config.directory, file, split) for file in file_names]


def _files_of_corpora(config: DataConfig, split: str) -> list[list[Path]]:
    return [_split_files(config, split, name) for name in corpus_names(config, split)]


def _labels(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    """Every class name of a split, after the file and line where it stands."""
    for *_, file in _files_of_corpora(config, split):
        for chunk in text_files.read_chunks([file], _EXAMPLES_PER_CHUNK):
            for number, (name,) in enumerate(text_files.decode_chunk(chunk), chunk.first_line):
                yield f"{file}, line {number:,}", name
