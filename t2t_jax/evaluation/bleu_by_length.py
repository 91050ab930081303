"""BLEU by sentence length, in words of the source."""

from collections.abc import Sequence
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
    words = np.maximum(source_words, 1)
    scores = []
    for low, high in BINS:
        chosen = (low <= words) & (words <= (np.inf if high is None else high))
        if chosen.any():
            score = bleu_of(statistics[chosen].sum(0))
            scores.append(LengthScore([low, high], int(chosen.sum()), score))
    return scores
