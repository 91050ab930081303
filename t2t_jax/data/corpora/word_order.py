"""Statement or question, told by the order of the words alone: a corpus for classification.

In: a split, a number of pairs, a seed and a language. Out: pairs such as "the cat is chasing the
dog" and "is the cat chasing the dog", of the very same words, lower-cased and without a mark at
the end. A model that has no positions sees no difference between the two.
"""

import zlib
from collections.abc import Iterator
from random import Random

from t2t_jax.data.corpora.embedded.choices import Draw, by_weight, pick
from t2t_jax.data.corpora.embedded.clauses import NO_TIME, Clause, question, statement
from t2t_jax.data.corpora.embedded.events import event
from t2t_jax.data.corpora.grammar import MAX_WORDS

CLASSES = ("statement", "question")
SPLITS = ("train", "dev", "test")
LANGUAGES = ("en", "de")
# Of 16 parts of the sentences, one each is kept for dev and test.
_PARTS = 16
_SPLIT_OF_PART = ("dev", "test") + ("train",) * (_PARTS - 2)
# Those in which English has an auxiliary that can go first; the others need "do" for a question.
_tense = by_weight(
    [("present", 38), ("future", 12), ("can", 5), ("must", 4), ("should", 4), ("could", 3)]
    + [("may", 2)]
)


def swapped_pairs(
    split: str, num_pairs: int, seed: int, language: str
) -> Iterator[tuple[str, str]]:
    """`num_pairs` different (statement, question) pairs; a longer request begins with the shorter.

    Sentences of the same words lie in the same split, whatever the seed.

    Raises:
      ValueError: there is no such split or language, or `num_pairs` is negative.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is not one of {', '.join(SPLITS)}")
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is not one of {', '.join(LANGUAGES)}")
    if num_pairs < 0:
        raise ValueError(f"num_pairs={num_pairs} is negative")
    return _pairs(split, num_pairs, seed, LANGUAGES.index(language))


def _pairs(split: str, num_pairs: int, seed: int, side: int) -> Iterator[tuple[str, str]]:
    draw = Random(f"word order {split} {seed}").random
    seen: set[str] = set()
    while len(seen) < num_pairs:
        words = _clause(draw)
        time = pick(draw, words.times) if words.times and draw() < 0.25 else NO_TIME
        told = statement(words, time)[side].lower()
        if told in seen or told.count(" ") >= MAX_WORDS or _split_of(told) != split:
            continue
        seen.add(told)
        yield told, question(words, time=time)[side].lower()


def _clause(draw: Draw) -> Clause:
    """Something that happens, of which English can ask without another word."""
    while True:
        words = event(draw, _tense(draw))
        if words.subject != "I" and words.predicate == f"{words.auxiliary} {words.rest}":
            return words


def _split_of(sentence: str) -> str:
    """Of all orders of the sentence's words the same."""
    words = " ".join(sorted(sentence.split(" ")))
    return _SPLIT_OF_PART[zlib.crc32(words.encode()) % _PARTS]
