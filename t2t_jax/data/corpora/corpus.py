"""What a task reads. In: a config and a split. Out: examples of one or two strings.

    translation                                     (source, target)
    language_modelling, masked_language_modelling   (text,)
    classification                                  (text, class name)

The only access to corpora, which are read as streams and never held in memory. For a new kind,
write a `Corpus` in a file of its own, and name it in `config.CorpusKind` and in `_corpus`.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.embedded_corpus import EmbeddedCorpus
from t2t_jax.data.corpora.text_corpus import TextCorpus
from t2t_jax.data.corpora.tfds_corpus import TfdsCorpus
from t2t_jax.data.vocabulary.vocabulary import SPACE_PIECE

# With so many, neither overhead nor memory matters.
_EXAMPLES_PER_CHUNK = 1_000
# Category Cc without white space, which the vocabulary turns into spaces.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")


@runtime_checkable
class Chunk(Protocol):
    """Examples before the costly part of reading; picklable, holds no open file."""

    def decode(self) -> list[tuple[str, ...]]:
        """The examples; may be called in another process.

        Raises:
          ValueError: a text is not UTF-8.
        """
        ...


@runtime_checkable
class Corpus(Protocol):
    """A source of examples. Each method may raise ValueError for a mistake in the corpus."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits: train, dev, test and perhaps others."""
        ...

    def make_ready(self, split: str, log: Callable[[str], None]) -> None:
        """Fetches what is missing of a split on this machine; called before the methods below."""

    def check(self, split: str) -> None:
        """Looks for mistakes before a split is read."""

    def num_examples(self, split: str) -> int:
        """How many examples `read_chunks` yields."""
        ...

    def read_chunks(self, split: str, examples_per_chunk: int) -> Iterator[Chunk]:
        """All examples in order; only the last chunk may be smaller."""
        ...

    def class_names(self, split: str) -> dict[str, str]:
        """The classes in the order of their numbers, each with a place where it occurs."""
        ...

    def files(self, split: str) -> list[str]:
        """What a split is read from, for humans; nothing if it is generated."""
        ...

    def hashes(self, split: str, prefix: str) -> dict[str, str]:
        """sha256 of everything read, by name, independent of where it lies and how it is named.

        Names begin with `prefix`, unless the content is the same for all splits.
        """
        ...


def _corpus(config: DataConfig, name: str) -> Corpus:
    """The corpus called `name` in a mixture; for "", the config's own."""
    match config.source:
        case "embedded":
            return EmbeddedCorpus(config)
        case "text":
            return TextCorpus(config, name or config.directory)
        case "tfds":
            return TfdsCorpus(config, name or config.name)


def split_names(config: DataConfig) -> tuple[str, ...]:
    """The splits of this corpus; only the embedded one has "long" (longer than any in train)."""
    return _corpus(config, "").splits


def corpora_of(config: DataConfig, split: str) -> dict[str, Corpus]:
    """The corpora of a split, by name: for train of a mixture all of them, else one called "".

    Raises:
      ValueError: no such split.
    """
    if split not in split_names(config):
        allowed = ", ".join(split_names(config))
        raise ValueError(
            f"split {split!r} does not exist: the {config.source} corpus has {allowed}"
        )
    names = [name for name, _ in config.corpora] if split == "train" else []
    return {name: _corpus(config, name) for name in names or [""]}


def files_of(config: DataConfig, split: str) -> list[str]:
    """What a split is read from, for humans: files, or slices of TFDS; nothing if embedded.

    Raises:
      ValueError: no such split, or a file is missing.
    """
    corpora = corpora_of(config, split).values()
    return [file for corpus in corpora for file in corpus.files(split)]


def make_ready(config: DataConfig, log: Callable[[str], None]) -> None:
    """Downloads and prepares what TFDS does not have yet; call it before the functions below.

    Raises:
      ValueError: it cannot be downloaded or prepared.
    """
    for split in split_names(config):
        for corpus in corpora_of(config, split).values():
            corpus.make_ready(split, log)


def read_pairs(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of a split without a `drop_reason`; see `read_examples`."""
    translation = dataclasses.replace(config, task="translation")
    examples = read_examples(translation, split)
    return ((source, target) for source, target in examples if not drop_reason((source, target)))


def read_examples(config: DataConfig, split: str) -> Iterator[tuple[str, ...]]:
    """The examples of a split in order, including those with a `drop_reason`.

    Raises:
      ValueError: no such split; a file is missing, empty, not UTF-8 or damaged; one file has
        more lines than the other (found at the end of the shorter one).
    """
    corpora = corpora_of(config, split).values()
    chunks = [corpus.read_chunks(split, _EXAMPLES_PER_CHUNK) for corpus in corpora]
    return (example for chunk in itertools.chain(*chunks) for example in chunk.decode())


def drop_reason(example: tuple[str, ...]) -> str | None:
    """Why an example must not be used: a side is "blank" or has "control characters"."""
    for text in example:
        if not text.replace(SPACE_PIECE, " ").strip():
            return "blank"
        # Most text is printable, and checking that is faster.
        if not text.isprintable() and _CONTROL_CHARACTER.search(text):
            return "control characters"
    return None


def class_names(config: DataConfig) -> tuple[str, ...]:
    """All classes of train, in the order of their numbers; none for another task.

    Raises:
      ValueError: as `read_examples`; an example has no class; all have the same.
    """
    if config.task != "classification":
        return ()
    places: dict[str, str] = {}
    for corpus in corpora_of(config, "train").values():
        places = corpus.class_names("train") | places
    for name, place in places.items():
        if reason := drop_reason((name,)):
            raise ValueError(f"{place}: {reason}, where each line must be a class")
        if name != name.strip():
            raise ValueError(f"{place}: class {name!r} begins or ends with white space: remove it")
        if len(places) == 1:
            raise ValueError(f"{place}: {name!r} is the only class of train: at least 2 must occur")
    return tuple(sorted(places) if config.mixture else places)


def check_corpus(config: DataConfig) -> None:
    """Reads a whole corpus, to report its mistakes before anything is trained.

    Raises:
      ValueError: as `read_examples` and `class_names`, for any split; a class is not in train;
        every line of a file has a NUL.
    """
    splits = [(split, corpora_of(config, split).values()) for split in split_names(config)]
    corpora = [(split, corpus) for split, corpora in splits for corpus in corpora]
    for split, corpus in corpora:
        corpus.check(split)
    classes = class_names(config)
    for split, corpus in corpora if classes else ():
        for name, place in corpus.class_names(split).items():
            if name not in classes:
                raise ValueError(
                    f"{place}: {name!r} is no class of train, which has {', '.join(classes)}"
                )


def content_hashes(config: DataConfig) -> dict[str, str]:
    """sha256 of all that the sentences depend on besides the config, by name.

    The corpora of a mixture have numbers instead of names: the same files in other directories
    are the same mixture.

    Raises:
      ValueError: a file is missing.
    """
    hashes = {}
    for split in split_names(config):
        for number, (name, corpus) in enumerate(corpora_of(config, split).items(), start=1):
            hashes |= corpus.hashes(split, f"corpus {number}/{split}" if name else split)
    return hashes
