"""The corpora of our own grammar: pairs of sentences, or statements and questions."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import grammar, word_order

# Enough for a score to separate two models, few enough to decode in seconds.
_EVALUATION_PAIRS = 1_000
# Hash of this file at the time of the first results. Change it if `_read` changes its examples, so
# that a corpus prepared earlier is not mistaken for this one.
_THIS_FILE = "embedded_corpus.py"
_THIS_FILE_SHA256 = "d7d5c1e7f8824c79e264a6e9979e416a1376d960195635f0a501bfd7b1e27542"


class ExampleChunk(NamedTuple):
    """Examples that cost nothing to decode."""

    examples: list[tuple[str, ...]]

    def decode(self) -> list[tuple[str, ...]]:
        return self.examples


class EmbeddedCorpus(NamedTuple):
    """Sentences of the grammar, generated while they are read."""

    config: DataConfig

    @property
    def splits(self) -> tuple[str, ...]:
        return word_order.SPLITS if self._has_classes else grammar.SPLITS

    def make_ready(self, split: str, log: Callable[[str], None]) -> None:
        """Does nothing: it always is."""

    def check(self, split: str) -> None:
        """Does nothing: it has no mistakes."""

    def num_examples(self, split: str) -> int:
        return self._num_pairs(split) * (len(word_order.CLASSES) if self._has_classes else 1)

    def read_chunks(self, split: str, examples_per_chunk: int) -> Iterator[ExampleChunk]:
        examples = self._read(split)
        while chunk := list(itertools.islice(examples, examples_per_chunk)):
            yield ExampleChunk(chunk)

    def class_names(self, split: str) -> dict[str, str]:
        return dict.fromkeys(word_order.CLASSES, split)

    def files(self, split: str) -> list[str]:
        """None: its sentences are generated."""
        return []

    def hashes(self, split: str, prefix: str) -> dict[str, str]:
        """sha256 of the code that makes the sentences, by file name, the same for all splits.

        Imports are hashed as they were in the first results, to stay comparable with these.
        """
        here = Path(__file__).parent
        files = [here / "grammar.py", *sorted((here / "embedded").glob("*.py"))]
        if self._has_classes:
            files.append(here / "word_order.py")
        return {_THIS_FILE: _THIS_FILE_SHA256} | {file.name: _sha256(file) for file in files}

    @property
    def _has_classes(self) -> bool:
        return self.config.task == "classification"

    def _num_pairs(self, split: str) -> int:
        return self.config.train_pairs if split == "train" else _EVALUATION_PAIRS

    def _read(self, split: str) -> Iterator[tuple[str, ...]]:
        num_pairs, seed = self._num_pairs(split), self.config.corpus_seed
        if self._has_classes:
            language = self.config.source_language
            for pair in word_order.swapped_pairs(split, num_pairs, seed, language):
                yield from zip(pair, word_order.CLASSES, strict=True)
            return
        columns = [("en", "de").index(language) for language in self.config.languages]
        for pair in grammar.embedded_pairs(split, num_pairs, seed):
            yield tuple(pair[column] for column in columns)


def _sha256(file: Path) -> str:
    code = file.read_bytes().replace(b"t2t_jax.data.corpora.", b"t2t_jax.data.")
    return hashlib.sha256(code).hexdigest()
