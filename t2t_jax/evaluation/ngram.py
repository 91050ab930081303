"""Unigram and bigram models of a text: the baselines of a language model.

In: token ids of sentences, each with its end token. Out: perplexity per token, over end tokens too
but not start tokens: exactly the tokens that a language model is scored on.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID

# Used if no count is 1, so that the discount cannot be estimated.
_USUAL_DISCOUNT = 0.5


class Sentences(NamedTuple):
    """Sentence s is `ids[offsets[s] : offsets[s + 1]]`."""

    ids: np.ndarray
    offsets: np.ndarray


class Perplexities(NamedTuple):
    """Perplexities of two models on the same text."""

    unigram: float
    bigram: float


def ngram_perplexities(train: Sentences, text: Sentences, vocabulary_size: int) -> Perplexities:
    """Perplexity of `text` under a unigram and a bigram model of `train`; never infinite.

    Interpolated Kneser-Ney smoothing (Chen and Goodman 1999): a discount is taken from every
    count. For bigrams it goes to tokens in proportion to how many distinct tokens they have
    followed, for unigrams to all pieces of the vocabulary equally.

    Raises:
      ValueError: one of the texts is empty.
    """
    for name, sentences in (("train", train), ("text", text)):
        if len(sentences.ids) == 0:
            raise ValueError(f"perplexity of n-grams needs tokens, but {name} has none")
    last, token = _bigrams(train)
    bigrams, counts = np.unique(last * vocabulary_size + token, return_counts=True)
    followed, following = np.divmod(bigrams, vocabulary_size)
    discount = _discount(counts)
    # By preceding token: its occurrences, and how many distinct tokens follow it.
    num_last = np.bincount(last, minlength=vocabulary_size)
    num_after = np.bincount(followed, minlength=vocabulary_size)
    unigram = _smoothed(np.bincount(token, minlength=vocabulary_size))
    continuation = _smoothed(np.bincount(following, minlength=vocabulary_size))

    last, token = _bigrams(text)
    wanted = last * vocabulary_size + token
    place = np.minimum(np.searchsorted(bigrams, wanted), len(bigrams) - 1)
    kept = np.where(bigrams[place] == wanted, counts[place] - discount, 0)
    given_up = discount * num_after[last]
    seen = num_last[last]
    bigram = np.where(
        seen > 0,
        (kept + given_up * continuation[token]) / np.maximum(seen, 1),
        continuation[token],
    )
    return Perplexities(_perplexity(unigram[token]), _perplexity(bigram))


def most_frequent_accuracy(
    train_ids: Integer[np.ndarray, " N"], ids: Integer[np.ndarray, " M"]
) -> float:
    """The accuracy of always guessing train's most frequent token; start and end are ignored.

    Raises:
      ValueError: one of the texts is empty.
    """
    train_ids, ids = train_ids[train_ids > END_ID], ids[ids > END_ID]
    if len(train_ids) == 0 or len(ids) == 0:
        raise ValueError("the most frequent token needs a text of at least one token to occur in")
    return float((ids == np.bincount(train_ids).argmax()).mean())


def _bigrams(sentences: Sentences) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """For every token: its preceding token, and itself."""
    token = sentences.ids.astype(np.int64)
    last = np.concatenate([[START_ID], token[:-1]])
    last[sentences.offsets[:-1]] = START_ID
    return last, token


def _smoothed(counts: Int[np.ndarray, " vocab"]) -> Float[np.ndarray, " vocab"]:
    """Probabilities from counts, all above 0."""
    discount = _discount(counts)
    given_up = discount * np.count_nonzero(counts)
    return (np.maximum(counts - discount, 0) + given_up / len(counts)) / counts.sum()


def _discount(counts: Int[np.ndarray, " N"]) -> float:
    """n_1 / (n_1 + 2 n_2), where n_k counts are k (Ney, Essen and Kneser 1994)."""
    once, twice = (np.count_nonzero(counts == number) for number in (1, 2))
    return once / (once + 2 * twice) if once else _USUAL_DISCOUNT


def _perplexity(probabilities: Float[np.ndarray, " N"]) -> float:
    return float(np.exp(-np.log(probabilities).mean()))
