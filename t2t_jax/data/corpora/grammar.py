"""The embedded corpus: a synchronous grammar that writes English-German sentence pairs from a seed.

In: a split, a number of pairs and a seed. Out: pairs of sentences, in correct German, where the
German is a function of the English, so that a perfect translator would score 100 BLEU.

How a sentence comes about, a file of `embedded/` for each step:

    lexicon.py        the tables of words
    words.py          nouns, verbs and adjectives parsed from them
    inflection.py     noun phrases in all cases, verbs in all tenses
    clauses.py        subject, verb and the rest as a `Clause`, and the four orders of its words
    events.py         random clauses: who does what to whom
    constructions.py  statement, question, relative clause ...: each a function, with a weight
    grammar.py        splits, long sentences and probes

To add a word, add its line to a table of lexicon.py. To add a construction, write a function
`construction(draw) -> (English, German)`, list it in `CONSTRUCTIONS` with its weight, and add a
checked sentence to tests/data/test_grammar.py. English "you" is avoided (du, ihr or Sie?), and so
is "their" (ihr means her already): each English sentence must have one German one.
"""

import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from t2t_jax.data.corpora.embedded.choices import (
    Draw,
    any_of,
    pick,
)
from t2t_jax.data.corpora.embedded.clauses import (
    Clause,
    Sentence,
    finished,
    question,
    statement,
    subordinate,
)
from t2t_jax.data.corpora.embedded.constructions import (
    CONJUNCTIONS,
    draw_construction,
    short_of_another,
    told_reason,
)
from t2t_jax.data.corpora.embedded.events import (
    event,
    with_object,
)
from t2t_jax.data.corpora.embedded.inflection import (
    THE,
    A,
    NounPhrase,
    inflected,
)
from t2t_jax.data.corpora.embedded.words import (
    ADJECTIVES,
    BETWEEN_BEINGS,
    NOUNS,
    REASONS,
    SENSES,
)

SPLITS = ("train", "dev", "test", "long")
# Sentences of train, dev and test have at most this many words on either side, those of long more.
MAX_WORDS = 16


def long_sentence(draw: Draw) -> Sentence:
    """Statements in a row, some with a subordinate clause: more than MAX_WORDS words."""
    tense = "past" if draw() < 0.5 else "present"
    last = event(draw, tense)
    english, german = statement(last)
    may_subordinate = True
    while True:
        if may_subordinate and draw() < 0.45:
            second = short_of_another(draw, tense, last)
            because, weil = subordinate(second, pick(draw, CONJUNCTIONS))
            english, german = f"{english} {because}", f"{german}, {weil}"
            may_subordinate = False
        else:
            last = event(draw, tense)
            second_english, second_german = statement(last)
            english = f"{english}, and {second_english}"
            german = f"{german}, und {second_german}"
            may_subordinate = True
        if english.count(" ") >= MAX_WORDS and german.count(" ") >= MAX_WORDS:
            return finished((english, german))


# Of 16 parts of the sentences, one each is kept for dev and test. The German decides, being a
# function of the English: so splits share no sentence in either language, whatever the seed and
# the size.
_PARTS = 16
_SPLIT_OF_PART = ("dev", "test") + ("train",) * (_PARTS - 2)


def split_of(german: str) -> str:
    """The split, other than long, that a sentence belongs to."""
    return _SPLIT_OF_PART[zlib.crc32(german.encode()) % _PARTS]


def embedded_pairs(split: str, num_pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    """`num_pairs` different (English, German) pairs; a longer request begins with the shorter.

    Raises:
      ValueError: there is no such split, or `num_pairs` is negative.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is not one of {', '.join(SPLITS)}")
    if num_pairs < 0:
        raise ValueError(f"num_pairs={num_pairs} is negative")
    return _pairs(split, num_pairs, seed)


def _pairs(split: str, num_pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    draw = Random(f"{split} {seed}").random
    seen: set[str] = set()
    while len(seen) < num_pairs:
        english, german = long_sentence(draw) if split == "long" else draw_construction(draw)(draw)
        if english in seen:
            continue
        if split != "long":
            if english.count(" ") >= MAX_WORDS or german.count(" ") >= MAX_WORDS:
                continue
            if split_of(german) != split:
                continue
        seen.add(english)
        yield english, german


class Probe(NamedTuple):
    """A source with two targets that differ in one thing; only `right` translates it.

    order    somebody else does it, the adjectives are exchanged, or a question is a statement
    pronoun  "it" has the gender of the other noun
    sense    the German noun is taken in its other meaning (German to English)
    """

    kind: str
    source: str
    right: str
    wrong: str
    source_language: str
    target_language: str


# There are some 640 different ones about words with two senses, and many more of the other kinds.
MOST_PROBES = 500


def probes(kind: str, num_probes: int, seed: int) -> Iterator[Probe]:
    """`num_probes` probes with different sources; a longer request begins with the shorter.

    Neither the source nor any of the targets is in a train split, whatever its seed.

    Raises:
      ValueError: there is no such kind of probe, or not so many: none to `MOST_PROBES`.
    """
    if kind not in _PROBES:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(_PROBES)}")
    if num_probes < 0:
        raise ValueError(f"num_probes={num_probes} is negative")
    if num_probes > MOST_PROBES:
        raise ValueError(f"num_probes={num_probes}; there are at most {MOST_PROBES} of each kind")
    return _probes(kind, num_probes, seed)


def _probes(kind: str, num_probes: int, seed: int) -> Iterator[Probe]:
    draw = Random(f"probes {kind} {seed}").random
    seen: set[str] = set()
    while len(seen) < num_probes:
        probe = _PROBES[kind](draw)
        if probe is not None and probe.source not in seen:
            seen.add(probe.source)
            yield probe


# Verbs with the kind of being that can be at either end: "see" and "being", "visit" and "person".
_MUTUAL = [
    (verb, object if subject == "being" else subject)
    for verb, subject, object in BETWEEN_BEINGS
    if subject == object or "being" in (subject, object)
]


def _order_probe(draw: Draw) -> Probe | None:
    """The cat is chasing the dog: against the dog chasing it, other adjectives, or a question."""
    verb, kind = pick(draw, _MUTUAL)
    first, second = pick(draw, NOUNS[kind]), pick(draw, NOUNS[kind])
    if first is second:
        return None
    of_first, of_second = pick(draw, ADJECTIVES[first.kind]), pick(draw, ADJECTIVES[second.kind])
    if of_first == of_second:
        return None
    tense = "present" if draw() < 0.5 else "past"

    def words(subject: NounPhrase, thing: NounPhrase) -> Clause:
        return with_object(subject, verb, thing, tense)

    one, other = inflected(first, THE, of_first), inflected(second, THE, of_second)
    right = finished(statement(words(one, other)))
    chance = draw()
    if chance < 0.4:
        wrong = finished(statement(words(other, one)))
    elif chance < 0.7:
        wrong = right
        right = finished(question(words(one, other)), "?")
        if draw() < 0.5:
            right, wrong = wrong, right
    else:
        if of_first not in ADJECTIVES[second.kind] or of_second not in ADJECTIVES[first.kind]:
            return None
        one, other = inflected(first, THE, of_second), inflected(second, THE, of_first)
        wrong = finished(statement(words(one, other)))
    if split_of(right[1]) != "test" or split_of(wrong[1]) == "train":
        return None
    return Probe("order", right[0], right[1], wrong[1], "en", "de")


def _pronoun_probe(draw: Draw) -> Probe | None:
    """The animal did not cross the street because it was too tired: es or sie?"""
    told = told_reason(draw, any_of(draw, REASONS))
    english, german = told.sentence
    if told.genders[0] == told.genders[1] or split_of(german) != "test":
        return None
    return Probe("pronoun", english, german, told.other_german, "en", "de")


def _sense_probe(draw: Draw) -> Probe | None:
    """Der Mann streicht die Bank: a bench, not a bank."""
    sense = any_of(draw, SENSES)
    (other,) = (
        each.noun
        for each in SENSES
        if each.noun.singular == sense.noun.singular and each is not sense
    )
    subject = inflected(pick(draw, NOUNS["person"]), THE)
    verb = any_of(draw, sense.verbs)
    tense = "present" if draw() < 0.5 else "past"
    determiner = THE if draw() < 0.8 else A
    right, wrong = (
        finished(statement(with_object(subject, verb, inflected(noun, determiner), tense)))
        for noun in (sense.noun, other)
    )
    if split_of(right[1]) != "test":
        return None
    return Probe("sense", right[1], right[0], wrong[0], "de", "en")


_PROBES: dict[str, Callable[[Draw], Probe | None]] = {
    "order": _order_probe,
    "pronoun": _pronoun_probe,
    "sense": _sense_probe,
}
