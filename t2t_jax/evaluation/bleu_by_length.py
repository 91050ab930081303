"""BLEU by sentence length, in words of the source."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from t2t_jax.evaluation.bleu import bleu_of

# Lowest and highest number of words. The same for every corpus, so that scores are comparable;
# the last bin is open.
BINS: tuple[tuple[int, int | None], ...] = (
    (1, 5),
    (6, 10),
    (11, 15),
    (16, 20),
    (21, 30),
    (31, None),
)


class LengthScore(NamedTuple):
    """The score of one bin."""

    words: list[int | None]  # of the source, lowest and highest; a list, as in JSON
    sentences: int
    bleu: float  # percent


def num_words(sentences: Sequence[str]) -> list[int]:
    """The number of words of each sentence, separated by white space."""
    return [len(sentence.split()) for sentence in sentences]


def bleu_by_length(
    statistics: Int[np.ndarray, "sentences 10"], source_words: Sequence[int]
) -> list[LengthScore]:
    """BLEU of the sentences of each of `BINS`, from `bleu.sentence_statistics`.

    Bins without sentences are left out; sources without words count in the first.

    Raises:
      ValueError: there are not as many sources as sentences.
    """
    if len(statistics) != len(source_words):
        raise ValueError(
            f"BLEU by length needs the length of every source, but there are {len(source_words)} "
            f"lengths and {len(statistics)} sentences"
        )
    return [
        LengthScore(words, len(places), bleu_of(statistics[places].sum(0)))
        for words, places in places_by_length(source_words)
    ]


def places_by_length(source_words: Sequence[int]) -> Iterator[tuple[list[int | None], list[int]]]:
    """Each of `BINS` that has sentences, and the indices of these; no words count as one."""
    words = np.maximum(source_words, 1)
    for low, high in BINS:
        chosen = (low <= words) & (words <= (np.inf if high is None else high))
        if chosen.any():
            yield [low, high], np.flatnonzero(chosen).tolist()
