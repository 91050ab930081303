"""Statements and questions of the same words."""

import itertools

import pytest

from t2t_jax.data.corpora.word_order import SPLITS, swapped_pairs
from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary


@pytest.fixture(scope="module", params=["en", "de"])
def pairs_of(request):
    return {
        split: list(swapped_pairs(split, num_pairs, 0, request.param))
        for split, num_pairs in zip(SPLITS, (3_000, 200, 200), strict=True)
    }


def words(sentence):
    return sorted(sentence.split(" "))


def test_both_sentences_of_a_pair_have_the_same_words_in_another_order(pairs_of):
    for told, asked in itertools.chain.from_iterable(pairs_of.values()):
        assert words(told) == words(asked) and told != asked


def test_neither_capital_nor_mark_tells_a_question(pairs_of):
    for sentence in itertools.chain.from_iterable(pairs_of["train"]):
        assert sentence == sentence.lower()
        assert not set(sentence) & set(".?!,")


def test_splits_share_no_sentence_and_no_pair_in_another_order(pairs_of):
    bags = {
        split: {tuple(words(sentence)) for pair in pairs for sentence in pair}
        for split, pairs in pairs_of.items()
    }
    for one, other in itertools.combinations(SPLITS, 2):
        assert not bags[one] & bags[other]


def test_no_sentence_comes_twice_nor_both_as_statement_and_question(pairs_of):
    sentences = list(itertools.chain.from_iterable(pairs_of["train"]))
    assert len(set(sentences)) == len(sentences)


def test_the_seed_decides_and_a_longer_request_begins_with_the_shorter():
    long = list(swapped_pairs("train", 200, 5, "en"))
    assert list(swapped_pairs("train", 50, 5, "en")) == long[:50]
    assert list(swapped_pairs("train", 50, 6, "en")) != long[:50]


def test_the_pairs_are_those_of_the_sources():
    pairs = dict(swapped_pairs("train", 3_000, 0, "en"))
    assert pairs["the man is coming back"] == "is the man coming back"
    german = dict(swapped_pairs("train", 3_000, 0, "de"))
    assert german["der mann kommt zurück"] == "kommt der mann zurück"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_both_sentences_of_a_pair_have_the_same_token_ids(pairs_of, kind):
    sentences = list(itertools.chain.from_iterable(pairs_of["train"]))
    vocabulary = learn_vocabulary(sentences, kind, 300, 1.0)
    for told, asked in map(vocabulary.encode, map(list, pairs_of["test"])):
        assert sorted(told) == sorted(asked)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("long", 1, 0, "en"), "split='long' is not one of train, dev, test"),
        (("train", 1, 0, "fr"), "language='fr' is not one of en, de"),
        (("train", -1, 0, "en"), "num_pairs=-1 is negative"),
    ],
)
def test_a_mistake_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        swapped_pairs(*arguments)
