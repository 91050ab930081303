"""N-gram models: against counts by hand, never infinite, better with more context."""

import math
from collections import Counter

import numpy as np
import pytest

from t2t_jax.evaluation.ngram import Sentences, most_frequent_accuracy, ngram_perplexities

START, END = 1, 2


def sentences(*texts) -> Sentences:
    """Of lists of ids, without their end tokens."""
    ids = [[*text, END] for text in texts]
    return Sentences(
        np.array([token for text in ids for token in text], np.uint16),
        np.cumsum([0, *map(len, ids)]),
    )


def by_hand(train, text, vocabulary_size):
    """The formulas in plain Python, a probability at a time."""

    def pairs(texts):
        return [
            pair
            for a, b in zip(texts.offsets, texts.offsets[1:], strict=False)
            for pair in zip([START, *texts.ids[a:b]], texts.ids[a:b], strict=False)
        ]

    def discount(counts):
        once = sum(count == 1 for count in counts)
        return once / (once + 2 * sum(count == 2 for count in counts)) if once else 0.5

    def smoothed(counts):
        d, total = discount(counts.values()), sum(counts.values())
        left = d * len(counts) / vocabulary_size
        return lambda token: (max(counts[token] - d, 0) + left) / total

    bigrams = Counter(pairs(train))
    unigram = smoothed(Counter(token for _, token in pairs(train)))
    continuation = smoothed(Counter(token for _, token in bigrams))
    d = discount(bigrams.values())

    def bigram(last, token):
        of_last = {pair: count for pair, count in bigrams.items() if pair[0] == last}
        if not of_last:
            return continuation(token)
        kept = max(bigrams[last, token] - d, 0) + d * len(of_last) * continuation(token)
        return kept / sum(of_last.values())

    def perplexity(model):
        return math.exp(-sum(math.log(model(*pair)) for pair in pairs(text)) / len(text.ids))

    return perplexity(lambda _, token: unigram(token)), perplexity(bigram)


def random_text(seed, num_sentences):
    rng = np.random.default_rng(seed)
    return sentences(*(rng.integers(4, 12, rng.integers(1, 6)) for _ in range(num_sentences)))


def test_perplexities_are_those_counted_by_hand():
    train, text = random_text(0, 30), random_text(1, 20)
    assert ngram_perplexities(train, text, 20) == pytest.approx(by_hand(train, text, 20))


def likelihood(train, *ids):
    """P(ids) under the bigram model, without the end of the sentence."""
    text = Sentences(np.array(ids), np.array([0, len(ids)]))
    return ngram_perplexities(train, text, 20).bigram ** -len(ids)


@pytest.mark.parametrize("last", [4, 19], ids=["seen", "unseen"])
def test_the_probabilities_of_the_next_token_add_up_to_one(last):
    train = random_text(2, 12)
    together = sum(likelihood(train, last, token) for token in range(20))
    assert together == pytest.approx(likelihood(train, last))


def test_a_text_of_nothing_but_unseen_tokens_has_a_finite_perplexity():
    for train in (sentences([4, 5], [4, 5], [4, 5]), sentences([4]), random_text(0, 5)):
        found = ngram_perplexities(train, sentences([17, 18, 19]), 20)
        assert all(1 < perplexity < 1e6 for perplexity in found)


def test_the_bigram_model_is_better_where_one_token_tells_the_next():
    chain = sentences(*[[4, 5, 6, 7, 8]] * 3, [6, 7, 8], [4, 5])
    unigram, bigram = ngram_perplexities(chain, chain, 20)
    assert bigram < 2 < 4 < unigram


def test_the_first_token_follows_the_start_and_not_the_sentence_before():
    train = sentences([4], [4], [4])
    assert ngram_perplexities(train, train, 20).bigram < 1.5


def test_an_empty_text_is_told():
    nothing = Sentences(np.empty(0, np.uint16), np.array([0]))
    with pytest.raises(ValueError, match="perplexity of n-grams needs tokens, but text has none"):
        ngram_perplexities(random_text(0, 2), nothing, 20)


def test_the_most_frequent_token_is_right_as_often_as_it_occurs():
    train = np.array([START, 5, 5, 6, END, START, 5, END, START, END], np.uint16)
    ids = np.array([START, 5, 6, 7, 5, END], np.uint16)
    assert most_frequent_accuracy(train, ids) == 0.5
    with pytest.raises(ValueError, match="most frequent token needs a text"):
        most_frequent_accuracy(train, ids[:1])
