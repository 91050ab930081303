"""Learns the vocabulary from sentences of train.

It takes at most `vocabulary_sentences` over all languages: all, or evenly spaced examples.
Examples with a `drop_reason` are left out.
"""

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.corpus import Chunk, corpora_of, drop_reason
from t2t_jax.data.prepare.workers import ordered_map
from t2t_jax.data.vocabulary.vocabulary import Vocabulary, learn_from_words, learn_vocabulary

# Distinct words in the memory of each process: about 80 MB.
_MAX_WORDS_KEPT = 500_000


class NumberedChunk(NamedTuple):
    """A chunk of train and the number of its first example."""

    first: int
    num_examples: int
    chunk: Chunk


@dataclasses.dataclass(frozen=True)
class Sample:
    """The texts of `num_taken` of `num_examples` examples, as evenly spaced as possible."""

    num_examples: int
    num_taken: int
    num_texts: int  # in an example; anything after them is no text
    is_reversed: bool  # returns the last text of an example first

    def texts(self, numbered: NumberedChunk) -> list[str]:
        """The texts taken from a chunk, in order."""
        examples = numbered.chunk.decode()
        if self.num_taken < self.num_examples:
            numbers = np.arange(numbered.first, numbered.first + len(examples))
            examples = itertools.compress(examples, self._is_taken(numbers))
        usable = (example for example in examples if drop_reason(example) is None)
        step = -1 if self.is_reversed else 1
        return [text for example in usable for text in example[: self.num_texts][::step]]

    def _is_taken(self, numbers: Int[np.ndarray, " chunk"]) -> Bool[np.ndarray, " chunk"]:
        before = numbers * self.num_taken // self.num_examples
        return (numbers + 1) * self.num_taken // self.num_examples > before


class WordCounts(NamedTuple):
    """How often each word occurs, in a form that is fast to send from a worker."""

    num_examples: int  # read since the last counts, taken or not
    words: str  # with spaces between
    counts: Int[np.ndarray, " words"]


class CountWords:
    """Counts the words of the sample chunk by chunk; returns its counts when they grow large."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._counts: Counter[str] = Counter()

    def __call__(self, numbered: NumberedChunk) -> WordCounts:
        texts = self._sample.texts(numbered)
        self._counts.update(itertools.chain.from_iterable(map(str.split, texts)))
        is_large = len(self._counts) > _MAX_WORDS_KEPT
        return self._given(numbered.num_examples, self._counts if is_large else Counter())

    def rest(self) -> WordCounts:
        """The counts left at the end."""
        return self._given(0, self._counts)

    def _given(self, num_examples: int, counts: Counter[str]) -> WordCounts:
        occurrences = np.fromiter(counts.values(), np.int64, len(counts))
        given = WordCounts(num_examples, " ".join(counts), occurrences)
        counts.clear()
        return given


def learn_from_train(
    config: DataConfig,
    num_examples: tuple[int, ...],
    *,
    examples_per_chunk: int,
    num_processes: int,
    progress: Callable[[int], None],
) -> Vocabulary:
    """The vocabulary of train; en-de and de-en learn the same.

    Args:
      num_examples: of each of train's corpora.
      progress: called with the number of examples read.

    Raises:
      ValueError: as `read_examples` and `learn_vocabulary`.
    """
    num_texts = len(config.languages)
    total = sum(num_examples)
    sample = Sample(
        total,
        min(total, max(1, config.vocabulary_sentences // num_texts)),
        num_texts,
        is_reversed=list(config.languages) != sorted(config.languages),
    )
    chunks = _numbered_chunks(config, num_examples, examples_per_chunk)
    how: dict[str, Any] = {
        "kind": config.vocabulary_kind,
        "size": config.vocabulary_size,
        "character_coverage": config.character_coverage,
        "with_mask": config.task == "masked_language_modelling",
        "lowercase": config.lowercase,
    }
    if config.vocabulary_kind == "unigram":

        def sentences() -> Iterator[str]:
            for numbered in chunks:
                yield from sample.texts(numbered)
                progress(numbered.first + numbered.num_examples)

        return learn_vocabulary(sentences(), **how)
    counts: Counter[str] = Counter()
    num_read = 0
    count = CountWords(sample)
    with contextlib.closing(ordered_map(count, chunks, num_processes, CountWords.rest)) as found:
        for of_chunk in found:
            counts.update(dict(zip(of_chunk.words.split(), of_chunk.counts.tolist(), strict=True)))
            if of_chunk.num_examples:
                num_read += of_chunk.num_examples
                progress(num_read)
    return learn_from_words(counts, **how)


def _numbered_chunks(
    config: DataConfig, num_examples: tuple[int, ...], examples_per_chunk: int
) -> Iterator[NumberedChunk]:
    first_of_corpus = 0
    corpora = corpora_of(config, "train").values()
    for corpus, num_of_corpus in zip(corpora, num_examples, strict=True):
        chunks = corpus.read_chunks("train", examples_per_chunk)
        for start, chunk in zip(itertools.count(0, examples_per_chunk), chunks, strict=False):
            num_of_chunk = min(examples_per_chunk, num_of_corpus - start)
            yield NumberedChunk(first_of_corpus + start, num_of_chunk, chunk)
        first_of_corpus += num_of_corpus
