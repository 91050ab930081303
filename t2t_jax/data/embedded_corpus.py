"""The corpora of our own grammar: pairs of sentences, or statements and questions."""

from collections.abc import Iterator
from pathlib import Path

from t2t_jax.data import grammar, word_order
from t2t_jax.data.config import DataConfig
from t2t_jax.data.text_files import file_sha256

CLASSES = word_order.CLASSES
# Enough for a score that tells two models apart, little enough to decode in seconds.
_EVALUATION_PAIRS = 1_000


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
    """sha256 of the code that makes the sentences, by file name."""
    here = Path(__file__).parent
    files = [Path(__file__), here / "grammar.py", *sorted((here / "embedded").glob("*.py"))]
    if config.task == "classification":
        files.append(here / "word_order.py")
    return {file.name: file_sha256(file) for file in files}


def _num_pairs(config: DataConfig, split: str) -> int:
    return config.train_pairs if split == "train" else _EVALUATION_PAIRS
