"""Clauses in both languages, and the orders in which their words can stand."""

from collections.abc import Sequence
from typing import NamedTuple

from t2t_jax.data.corpora.embedded.inflection import (
    BE,
    FORMS,
    PRONOUN_WORDS,
    SEIN,
    WAS,
    WERDEN,
    NounPhrase,
    joined,
    number,
)
from t2t_jax.data.corpora.embedded.words import (
    DAYS,
    MONTHS,
    NOMINATIVE,
    TIMES,
    Adjective,
    Verb,
)

Sentence = tuple[str, str]  # (English, German)


class Clause(NamedTuple):
    """A clause in both languages before its words are put in order."""

    subject: str
    predicate: str  # "is chasing the cat"
    auxiliary: str  # "is"
    rest: str  # "chasing the cat"
    german_subject: str
    german_inner_subject: (
        str  # after finite verb or conjunction: "uns der Hund", with an object pronoun
    )
    finite: str  # "hat"
    pronoun: str  # an object pronoun, which stands before adverbs of time
    middle: str  # "die Katze"
    final: str  # "gejagt"
    closed: str  # "gejagt hat"
    times: Sequence[tuple[str, str]] = ()  # the adverbs of time that go with it


def clause(
    subject: NounPhrase,
    verb: Verb,
    tense: str,
    english: str = "",
    german: str = "",
    *,
    pronoun: str = "",
    negated: bool = False,
    frequency: Adjective | None = None,
) -> Clause:
    """Subject, verb and what follows the verb in English and stands before its last part in German.

    `negated` makes the English negative; the German has its nicht or kein in `german` already.
    """
    forms = FORMS[tense][verb.base, verb.infinitive][subject.person]
    plain, auxiliary, bare, finite, final, closed = forms
    if negated:
        plain = f"cannot {bare}" if auxiliary == "can" else f"{auxiliary} not {bare}"
    if frequency:
        plain, bare = f"{frequency.english} {plain}", f"{frequency.english} {bare}"
        german = f"{frequency.german} {german}" if german else frequency.german
    times = () if frequency or verb.is_stative else TIMES_OF_TENSE.get(tense, ())
    german_subject = inner = subject.german[NOMINATIVE]
    if pronoun:
        # "Heute ruft ihn der Arzt an", but not "Heute ruft sie der Arzt an": who calls whom?
        is_first = subject.english not in PRONOUN_WORDS and pronoun != "sie"
        inner = f"{pronoun} {inner}" if is_first else f"{inner} {pronoun}"
    return Clause(
        subject.english,
        f"{plain} {english}" if english else plain,
        auxiliary,
        f"{bare} {english}" if english else bare,
        german_subject,
        inner,
        finite,
        pronoun,
        german,
        final,
        closed,
        times,
    )


_BE_FORMS = {"present": (BE, SEIN), "past": (WAS, ("war", "war", "waren", "waren"))}


def be_clause(
    subject: NounPhrase, tense: str, english: str, german: str, negated: bool = False
) -> Clause:
    """The clause of "to be", in the "present", "past" or "future"."""
    if tense == "future":
        auxiliary, rest, finite, final = "will", f"be {english}", WERDEN[subject.person], "sein"
    else:
        auxiliary = _BE_FORMS[tense][0][subject.person]
        rest, finite, final = english, _BE_FORMS[tense][1][subject.person], ""
    return Clause(
        subject.english,
        joined(auxiliary, "not" if negated else "", rest),
        auxiliary,
        rest,
        subject.german[NOMINATIVE],
        subject.german[NOMINATIVE],
        finite,
        "",
        f"nicht {german}" if negated else german,
        final,
        joined(final, finite),
        TIMES_OF_TENSE[tense] if tense != "present" else TIMES["present"][:2],
    )


_CLOCK = [
    (f"at {english} o'clock", f"um {german} Uhr") for english, german in map(number, range(2, 13))
]
_DATES = [when for group in zip(DAYS, _CLOCK, MONTHS, strict=False) for when in group]
TIMES_OF_TENSE = {
    "present": TIMES["present"],
    "routine": TIMES["routine"],
    "past": TIMES["past"] + _DATES,
    "future": TIMES["future"] + _DATES,
    "passive": TIMES["present"],
    "was done": TIMES["past"] + _DATES,
    **dict.fromkeys(("can", "must", "should", "want", "may"), TIMES["future"] + _DATES),
    **dict.fromkeys(("wanted", "could", "had"), TIMES["past"] + _DATES),
}


NO_TIME = ("", "")


def statement(clause: Clause, time: tuple[str, str] = NO_TIME) -> Sentence:
    """The dog chased the cat yesterday. Der Hund hat gestern die Katze gejagt."""
    english = joined(clause.subject, clause.predicate, time[0])
    german = joined(
        clause.german_subject, clause.finite, clause.pronoun, time[1], clause.middle, clause.final
    )
    return english, german


def fronted(clause: Clause, first: tuple[str, str]) -> Sentence:
    """Yesterday the dog chased the cat. Gestern hat der Hund die Katze gejagt."""
    english = f"{first[0]} {clause.subject} {clause.predicate}"
    inner = clause.german_inner_subject
    return english, joined(first[1], clause.finite, inner, clause.middle, clause.final)


def question(
    clause: Clause, first: tuple[str, str] = NO_TIME, time: tuple[str, str] = NO_TIME
) -> Sentence:
    """Did the dog chase the cat yesterday? Hat der Hund gestern die Katze gejagt?

    `first` is the question word, if any.
    """
    english = joined(first[0], clause.auxiliary, clause.subject, clause.rest, time[0])
    inner = clause.german_inner_subject
    return english, joined(first[1], clause.finite, inner, time[1], clause.middle, clause.final)


def subordinate(clause: Clause, conjunction: tuple[str, str]) -> Sentence:
    """because the dog chased the cat, weil der Hund die Katze gejagt hat"""
    inner = clause.german_inner_subject
    german = joined(conjunction[1], inner, clause.middle, clause.closed)
    return f"{conjunction[0]} {clause.subject} {clause.predicate}", german


def finished(words: Sentence, mark: str = ".") -> Sentence:
    """With a capital and a full stop or question mark."""
    english, german = words
    return (
        english[0].upper() + english[1:] + mark,
        german[0].upper() + german[1:] + mark,
    )
