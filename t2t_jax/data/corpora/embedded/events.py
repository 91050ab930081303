"""Random noun phrases, and the kinds of clause that the corpus is made of.

Every kind of clause is a function of (draw, tense, negated); `event` draws one of them.
"""

from t2t_jax.data.corpora.embedded.choices import (
    Draw,
    any_of,
    by_weight,
    pick,
)
from t2t_jax.data.corpora.embedded.clauses import (
    NO_TIME,
    Clause,
    be_clause,
    clause,
)
from t2t_jax.data.corpora.embedded.inflection import (
    ALL,
    EVERY,
    HER,
    HER_PLURAL,
    HIS,
    HIS_PLURAL,
    IT,
    MANY,
    MILK,
    MY,
    MY_PLURAL,
    NAMED,
    OF_NAMES,
    OUR,
    OUR_PLURAL,
    PRONOUNS,
    SMALL_NUMBERS,
    SOME,
    SOME_DOGS,
    THE,
    THE_PLURAL,
    THESE,
    THIS,
    A,
    Determiner,
    NounPhrase,
    inflected,
    joined,
    owned,
    with_preposition,
)
from t2t_jax.data.corpora.embedded.words import (
    ACCUSATIVE,
    ADJECTIVES,
    BETWEEN_BEINGS,
    DATIVE,
    FREQUENCIES,
    GIVING,
    MOTION,
    NEUTER,
    NOUNS,
    PLACING,
    POSITIONS,
    SENSES,
    SPOT_PREPOSITIONS,
    WEATHER,
    WEATHER_VERBS,
    WITH_THINGS,
    WITHOUT_OBJECT,
    Adjective,
    Frame,
    Noun,
    Verb,
)

OURS = [MY, OUR, HIS, HER]
OURS_PLURAL = [MY_PLURAL, OUR_PLURAL, HIS_PLURAL, HER_PLURAL]
usual_determiner = by_weight(
    [(THE, 44), (A, 20), (THE_PLURAL, 9), (THIS, 4), (MY, 5), (OUR, 2.5), (HIS, 2.5), (HER, 2.5)]
    + [(THESE, 1.5), (EVERY, 1.5), (MANY, 1.5), (SOME, 1.5), (ALL, 1)]
    + [(each, 0.3) for each in OURS_PLURAL]
    + [(each, 0.4) for each in SMALL_NUMBERS]
    + [(each, 0.3) for each in OF_NAMES]
)
negatable_determiner = by_weight(
    [(THE, 45), (A, 25), (SOME_DOGS, 6), (THIS, 5), (THE_PLURAL, 8), (MY, 4), (HIS, 3), (HER, 3)]
)


PEOPLE = frozenset(("stranger", "family", "child", "acquaintance"))
_POSSESSIVE_WORDS = frozenset(each.english for each in (*OURS, *OF_NAMES))
_OF_FAMILY = {"a": MY, "this": OUR, "every": HER, "": MY}


def fitting(determiner: Determiner, noun: Noun) -> Determiner:
    """The determiner, or a more natural one: nobody says "my king", "a father" or "two milks"."""
    word = determiner.english
    if noun.kind == "family":
        if noun.plural is None and determiner.is_plural:
            return _OF_FAMILY.get(word, OUR)
        return _OF_FAMILY.get(word, determiner)
    if noun.plural is None and (determiner.is_plural or word in ("a", "every")):
        return MILK
    if noun.kind in ("stranger", "wild animal") and word in _POSSESSIVE_WORDS:
        return THE_PLURAL if determiner.is_plural else THE
    return determiner


def noun_phrase(
    draw: Draw, kind: str, determiner=usual_determiner, adjectives: float = 0.35
) -> NounPhrase:
    """A noun of a kind, with a determiner and, at the rate `adjectives`, an adjective."""
    noun = pick(draw, NOUNS[kind])
    chosen = fitting(determiner(draw), noun)
    adjective = pick(draw, ADJECTIVES[noun.kind]) if draw() < adjectives else None
    phrase = inflected(noun, chosen, adjective)
    if chosen is THE and noun.kind in _OWNABLE and draw() < 0.06:
        owner = pick(draw, NOUNS["acquaintance"])
        phrase = owned(
            phrase, owner, pick(draw, ADJECTIVES["acquaintance"]) if draw() < 0.25 else None
        )
    return phrase


_OWNABLE = frozenset(("pet", "reading", "clothes", "standing", "lying", "vehicle"))


def subject_phrase(draw: Draw, kind: str, adjectives: float = 0.35) -> NounPhrase:
    """Like `noun_phrase`, with names and pronouns among the people."""
    if kind in ("person", "being"):
        chance = draw()
        if chance < 0.08:
            return NAMED[int(len(NAMED) * draw() ** 2)]
        if chance < 0.2:
            return pick(draw, PRONOUNS)
    return noun_phrase(draw, kind, adjectives=adjectives)


def somewhere(draw: Draw, kind: str = "anywhere") -> tuple[str, str]:
    """Where something happens: ("in the garden", "im Garten")."""
    place = pick(draw, NOUNS[kind])
    adjective = pick(draw, ADJECTIVES[place.kind]) if draw() < 0.2 else None
    chance = draw()
    determiner = THE if chance < 0.8 else A if chance < 0.9 else THIS if chance < 0.95 else OUR
    phrase = inflected(place, determiner, adjective)
    english, german = SPOT_PREPOSITIONS.get(place.english, ("in", "in"))
    return f"{english} {phrase.english}", with_preposition(german, phrase.german[DATIVE])


def habitat(phrase: NounPhrase) -> str:
    """The kind of place where one meets somebody."""
    is_animal = phrase.noun is not None and phrase.noun.kind not in PEOPLE
    return "outdoors" if is_animal else "anywhere"


usual_tense = by_weight(
    [("present", 38), ("past", 26), ("future", 8), ("habit", 8)]
    + [("can", 5), ("must", 4), ("should", 3), ("want", 4), ("may", 1.5)]
    + [("wanted", 2), ("could", 1.5), ("had", 1.5)]
)
negatable_tense = by_weight(
    [("present", 40), ("past", 35), ("future", 8), ("can", 7), ("want", 6), ("should", 4)]
)
definite_determiner = by_weight(
    [(THE, 60), (THE_PLURAL, 14), (THIS, 8), (MY, 6), (OUR, 4), (HIS, 4), (HER, 4)]
)
single_determiner = by_weight([(THE, 76), (THIS, 8), (MY, 6), (OUR, 4), (HIS, 3), (HER, 3)])


def subject_or_definite(
    draw: Draw, kind: str, negated: bool, adjectives: float = 0.35
) -> NounPhrase:
    if negated and draw() < 0.8:
        return noun_phrase(draw, kind, definite_determiner, adjectives)
    if negated:
        return pick(draw, NAMED if kind == "person" else PRONOUNS)
    return subject_phrase(draw, kind, adjectives)


def object_phrase(
    draw: Draw, frame: Frame, subject: NounPhrase, negated: bool, adjectives: float
) -> tuple[NounPhrase, bool]:
    """The object of a frame, and whether German needs nicht (kein may negate already)."""
    verb, _, kind = frame
    if kind in ("person", "being") and subject.noun is not None and draw() < 0.1:
        return pick(draw, PRONOUNS if draw() < 0.6 else NAMED), negated
    noun = pick(draw, NOUNS[kind])
    while noun is subject.noun:
        noun = pick(draw, NOUNS[kind])
    adjective = pick(draw, ADJECTIVES[noun.kind]) if draw() < adjectives else None
    determiner = fitting((negatable_determiner if negated else usual_determiner)(draw), noun)
    if negated and determiner.negated:
        if not verb.preposition:
            return inflected(noun, determiner.negated, adjective), False
        determiner = THE
    phrase = inflected(noun, determiner, adjective)
    if determiner is THE and noun.kind in _OWNABLE and draw() < 0.08:
        owner = pick(draw, NOUNS["acquaintance"])
        phrase = owned(
            phrase, owner, pick(draw, ADJECTIVES["acquaintance"]) if draw() < 0.25 else None
        )
    return phrase, negated


def german_object(verb: Verb, phrase: NounPhrase) -> str:
    """The object in the case, or with the preposition, that the verb asks for."""
    german = phrase.german[verb.case]
    return with_preposition(verb.preposition, german) if verb.preposition else german


def with_object(
    subject: NounPhrase,
    verb: Verb,
    phrase: NounPhrase,
    tense: str,
    *,
    needs_nicht: bool = False,
    negated: bool = False,
    frequency: Adjective | None = None,
    place: tuple[str, str] = NO_TIME,
) -> Clause:
    """Somebody does something to somebody; nicht follows an object and precedes a preposition."""
    german = german_object(verb, phrase)
    pronoun = ""
    if verb.preposition:
        german = f"nicht {german}" if needs_nicht else german
    else:
        if phrase.noun is None and not phrase.english_object[0].isupper():
            pronoun, german = german, ""
        german = joined(german, "nicht") if needs_nicht else german
    return clause(
        subject,
        verb,
        tense,
        joined(phrase.english_object, place[0]),
        joined(german, place[1]),
        pronoun=pronoun,
        negated=negated,
        frequency=frequency,
    )


def frequency_of(draw: Draw, tense: str, verb: Verb) -> Adjective | None:
    return pick(draw, FREQUENCIES) if tense == "habit" and not verb.is_stative else None


def between_beings(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The old dog is chasing the young cat."""
    frame = pick(draw, BETWEEN_BEINGS)
    subject = subject_or_definite(draw, frame.subject, negated, adjectives=0.5)
    phrase, needs_nicht = object_phrase(draw, frame, subject, negated, adjectives=0.5)
    is_placed = not negated and not frame.verb.is_stative and draw() < 0.1
    place = somewhere(draw, "outdoors") if is_placed else NO_TIME
    return with_object(
        subject,
        frame.verb,
        phrase,
        tense,
        needs_nicht=needs_nicht,
        negated=negated,
        frequency=frequency_of(draw, tense, frame.verb),
        place=place,
    )


def with_things(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The woman is reading a long letter."""
    frame = pick(draw, WITH_THINGS)
    subject = subject_or_definite(draw, frame.subject, negated)
    phrase, needs_nicht = object_phrase(draw, frame, subject, negated, adjectives=0.35)
    return with_object(
        subject,
        frame.verb,
        phrase,
        tense,
        needs_nicht=needs_nicht,
        negated=negated,
        frequency=frequency_of(draw, tense, frame.verb),
    )


def with_senses(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The man is painting the bench: with a noun whose German has two meanings."""
    noun, verbs = any_of(draw, SENSES)
    verb = any_of(draw, verbs)
    subject = subject_or_definite(draw, "person", negated)
    determiner = (_sense_determiner if not negated else single_determiner)(draw)
    phrase = inflected(noun, determiner)
    frequency = frequency_of(draw, tense, verb)
    return with_object(
        subject, verb, phrase, tense, needs_nicht=negated, negated=negated, frequency=frequency
    )


_sense_determiner = by_weight([(THE, 70), (A, 15), (THIS, 8), (MY, 3), (OUR, 4)])


def giving(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The teacher gives the child a book."""
    frame = pick(draw, GIVING)
    subject = subject_or_definite(draw, "person", negated)
    thing, needs_nicht = object_phrase(draw, frame, subject, negated, adjectives=0.25)
    receiver = noun_phrase(draw, "person", definite_determiner, adjectives=0.3)
    while receiver.noun is subject.noun:
        receiver = noun_phrase(draw, "person", definite_determiner, adjectives=0.3)
    pronoun = ""
    if subject.noun is not None and draw() < 0.2:
        receiver = pick(draw, PRONOUNS)
        pronoun = receiver.german[DATIVE]
    elif draw() < 0.1 and subject.noun is not None:
        receiver = pick(draw, NAMED)
    return clause(
        subject,
        frame.verb,
        tense,
        f"{receiver.english_object} {thing.english}",
        joined(
            "" if pronoun else receiver.german[DATIVE],
            thing.german[ACCUSATIVE],
            "nicht" if needs_nicht else "",
        ),
        pronoun=pronoun,
        negated=negated,
        frequency=frequency_of(draw, tense, frame.verb),
    )


def without_object(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The children are playing in the garden."""
    verb, kind, role = pick(draw, WITHOUT_OBJECT)
    subject = subject_or_definite(draw, kind, negated, adjectives=0.45)
    place = (
        somewhere(draw, habitat(subject))
        if role == "at" or (role == "in" and draw() < 0.6)
        else NO_TIME
    )
    german = joined("nicht" if negated else "", place[1])
    frequency = frequency_of(draw, tense, verb)
    return clause(subject, verb, tense, place[0], german, negated=negated, frequency=frequency)


def motion(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The girl is running into the forest (in den Wald), or to the station (zum Bahnhof)."""
    verb, kind, goals = pick(draw, MOTION)
    subject = subject_or_definite(draw, kind, negated, adjectives=0.45)
    if goals == "goal" and habitat(subject) == "outdoors":
        goals = "outdoors"
    place = pick(draw, NOUNS[goals])
    adjective = (
        pick(draw, ADJECTIVES[place.kind]) if draw() < 0.2 and goals != "jumped into" else None
    )
    phrase = inflected(place, THE, adjective)
    if goals == "jumped into" or place in NOUNS["entered"]:
        english, german = "into", with_preposition("in", phrase.german[ACCUSATIVE])
    else:
        english, german = "to", with_preposition("zu", phrase.german[DATIVE])
    return clause(
        subject,
        verb,
        tense,
        f"{english} {phrase.english}",
        f"nicht {german}" if negated else german,
        negated=negated,
        frequency=frequency_of(draw, tense, verb),
    )


def placing(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """The woman is putting the cup on the table: stellt what stands, legt what lies."""
    verb, _, kind = any_of(draw, PLACING)
    subject = subject_or_definite(draw, "person", negated)
    thing = noun_phrase(draw, kind, definite_determiner, 0.2)
    position, german_position = pick(draw, POSITIONS)
    surface = inflected(pick(draw, NOUNS["surface" if position == "on" else "cover"]), THE)
    german = with_preposition(german_position, surface.german[ACCUSATIVE])
    return clause(
        subject,
        verb,
        tense,
        f"{thing.english} {position} {surface.english}",
        joined(thing.german[ACCUSATIVE], "nicht" if negated else "", german),
        negated=negated,
        frequency=frequency_of(draw, tense, verb),
    )


_IT_OF_WEATHER = IT[NEUTER]


def weather(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """It is raining; it is cold in the city."""
    place = somewhere(draw, "open air") if draw() < 0.4 else NO_TIME
    if draw() < 0.5 or tense not in ("present", "past", "future"):
        verb = pick(draw, WEATHER_VERBS).verb
        german = joined("nicht" if negated else "", place[1])
        return clause(_IT_OF_WEATHER, verb, tense, place[0], german, negated=negated)
    adjective = pick(draw, WEATHER)
    english = joined(adjective.english, place[0])
    german = joined(place[1], "nicht" if negated else "", adjective.german)
    words = be_clause(_IT_OF_WEATHER, tense, english, german)
    if negated:
        words = words._replace(predicate=f"{words.auxiliary} not {words.rest}")
    return words


_event = by_weight(
    [(between_beings, 44), (with_things, 24), (giving, 8), (without_object, 12), (motion, 6)]
    + [(placing, 3), (with_senses, 7)]
)


def event(draw: Draw, tense: str, negated: bool = False) -> Clause:
    """Something that happens: any of the kinds of clause above."""
    return _event(draw)(draw, tense, negated)
