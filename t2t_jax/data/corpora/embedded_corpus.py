"""The corpora of our own grammar: pairs of sentences, or statements and questions."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import grammar, word_order

CLASSES = word_order.CLASSES
# Enough for a score that tells two models apart, little enough to decode in seconds.
_EVALUATION_PAIRS = 1_000
# Of this file when the first results were kept. If `read` is to give other examples, change it: a
# corpus that was prepared before is then not taken for this one.
_THIS_FILE = "embedded_corpus.py"
_THIS_FILE_SHA256 = "d7d5c1e7f8824c79e264a6e9979e416a1376d960195635f0a501bfd7b1e27542"


def read(config: DataConfig, split: str) -> Iterator[tuple[str, ...]]:
    """The examples of a split, for whatever task."""
    num_pairs, seed = _num_pairs(config, split), config.corpus_seed
    if config.task == "classification":
        for pair in word_order.swapped_pairs(split, num_pairs, seed, config.source_language):
            yield from zip(pair, CLASSES, strict=True)
        return
    columns = [("en", "de").index(language) for language in config.languages]
    for pair in grammar.embedded_pairs(split, num_pairs, seed):
        yield tuple(pair[column] for column in columns)


def num_examples(config: DataConfig, split: str) -> int:
    """How many `read` gives."""
    per_pair = len(CLASSES) if config.task == "classification" else 1
    return per_pair * _num_pairs(config, split)


def hashes(config: DataConfig) -> dict[str, str]:
    """sha256 of the code that makes the sentences, by file name.

    As if it lay where it was when the first results were kept, which can be compared for ever.
    """
    here = Path(__file__).parent
    files = [here / "grammar.py", *sorted((here / "embedded").glob("*.py"))]
    if config.task == "classification":
        files.append(here / "word_order.py")
    return {_THIS_FILE: _THIS_FILE_SHA256} | {file.name: _sha256(file) for file in files}


def _sha256(file: Path) -> str:
    code = file.read_bytes().replace(b"t2t_jax.data.corpora.", b"t2t_jax.data.")
    return hashlib.sha256(code).hexdigest()


def _num_pairs(config: DataConfig, split: str) -> int:
    return config.train_pairs if split == "train" else _EVALUATION_PAIRS
