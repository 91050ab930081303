"""What becomes of a clause: each construction draws one English-German pair of sentences."""

from collections.abc import Callable
from typing import NamedTuple

from t2t_jax.data.corpora.embedded.choices import (
    Draw,
    any_of,
    by_weight,
    pick,
)
from t2t_jax.data.corpora.embedded.clauses import (
    NO_TIME,
    Clause,
    Sentence,
    be_clause,
    clause,
    finished,
    fronted,
    question,
    statement,
    subordinate,
)
from t2t_jax.data.corpora.embedded.events import (
    PEOPLE,
    between_beings,
    definite_determiner,
    event,
    fitting,
    german_object,
    habitat,
    motion,
    negatable_tense,
    noun_phrase,
    object_phrase,
    single_determiner,
    somewhere,
    subject_or_definite,
    subject_phrase,
    usual_tense,
    weather,
    with_object,
    with_things,
    without_object,
)
from t2t_jax.data.corpora.embedded.inflection import (
    ALL,
    BE,
    DER_WORD_ENDINGS,
    HER,
    HIS,
    ICH,
    IT,
    MANY,
    MY,
    NAMED,
    NOT_A,
    NOT_ANY,
    NUMBERS,
    OUR,
    RELATIVE_PRONOUNS,
    SMALL_NUMBERS,
    SOME,
    THE,
    THE_PLURAL,
    THESE,
    THIS,
    WAS,
    WHO,
    WIR,
    A,
    NounPhrase,
    inflected,
    joined,
    with_preposition,
)
from t2t_jax.data.corpora.embedded.words import (
    ACCUSATIVE,
    ADJECTIVES,
    BEFORE_CLAUSES,
    BEFORE_INFINITIVES,
    BETWEEN_BEINGS,
    COMPARATIVES,
    DATIVE,
    FLAWS,
    HAVE,
    NOMINATIVE,
    NOUNS,
    POSITIONS,
    REASONS,
    TIMES,
    WITH_THINGS,
    WITHOUT_OBJECT,
    Reason,
)

Construction = Callable[[Draw], Sentence]


def plain(draw: Draw) -> Sentence:
    """The old dog is chasing the young cat."""
    return finished(statement(event(draw, usual_tense(draw))))


def with_time(draw: Draw) -> Sentence:
    """The dog chased the cat yesterday. Yesterday the dog chased the cat."""
    tense = usual_tense(draw)
    words = event(draw, "routine" if tense == "habit" else tense)
    if not words.times:
        return finished(statement(words))
    time = pick(draw, words.times)
    return finished(fronted(words, time) if draw() < 0.55 else statement(words, time))


def negation(draw: Draw) -> Sentence:
    """The dog did not chase the cat. Yesterday the man did not buy a table."""
    words = event(draw, negatable_tense(draw), negated=True)
    if words.times and draw() < 0.3:
        return finished(fronted(words, pick(draw, words.times)))
    return finished(statement(words))


def yes_no_question(draw: Draw) -> Sentence:
    """Is the dog chasing the cat?"""
    words = event(draw, usual_tense(draw))
    while words.subject == "I":
        words = event(draw, usual_tense(draw))
    time = pick(draw, words.times) if words.times and draw() < 0.25 else NO_TIME
    return finished(question(words, time=time), "?")


def _asked_tense(draw: Draw) -> str:
    """Any tense but habits, which would need their adverb."""
    tense = usual_tense(draw)
    return "present" if tense == "habit" else tense


def who_question(draw: Draw) -> Sentence:
    """Who is chasing the cat? Who is the dog chasing? (Wer? Wen?)"""
    frame = pick(draw, BETWEEN_BEINGS)
    verb, tense = frame.verb, _asked_tense(draw)
    if draw() < 0.45:
        phrase, _ = object_phrase(draw, frame, WHO, False, adjectives=0.5)
        return finished(statement(with_object(WHO, verb, phrase, tense)), "?")
    subject = subject_phrase(draw, frame.subject, adjectives=0.5)
    words = clause(subject, verb, tense)
    return finished(question(words, ("who", german_object(verb, WHO))), "?")


def what_question(draw: Draw) -> Sentence:
    """What is the woman reading? Which book is she reading? How many books is she reading?"""
    frame = pick(draw, WITH_THINGS)
    subject = subject_phrase(draw, frame.subject, adjectives=0.4)
    words = clause(subject, frame.verb, _asked_tense(draw))
    chance = draw()
    if chance < 0.35:
        return finished(question(words, ("what", "was")), "?")
    noun = pick(draw, NOUNS[frame.object])
    if noun.plural is not None and chance < 0.6:
        first = f"how many {noun.english_plural}", f"wie viele {noun.plural[ACCUSATIVE]}"
    else:
        which = DER_WORD_ENDINGS[ACCUSATIVE][noun.gender]
        first = f"which {noun.english}", f"welch{which} {noun.singular[ACCUSATIVE]}"
    return finished(question(words, first), "?")


def adverb_question(draw: Draw) -> Sentence:
    """Where, when or why did the dog chase the cat?"""
    words = event(draw, "past" if draw() < 0.5 else "future" if draw() < 0.4 else "present")
    asked = any_of(draw, (("why", "warum"), ("where", "wo"), ("when", "wann")))
    if asked[0] != "why" and (not words.times or words.times is TIMES["present"]):
        asked = ("why", "warum")
    if asked[0] == "where":
        words = with_things(draw, "past")
    return finished(question(words, asked), "?")


CONJUNCTIONS = (("because", "weil"), ("while", "während"), ("although", "obwohl"))


def _paired(draw: Draw) -> tuple[Clause, Clause, tuple[str, str]]:
    """A main clause, a subordinate one in the same tense, and the conjunction between them."""
    is_past = draw() < 0.5
    tense = "past" if is_past else "present"
    if draw() < 0.3:
        conjunction = ("when", "als") if is_past else ("when", "wenn")
        tense = "past" if is_past else "routine"
    else:
        conjunction = pick(draw, CONJUNCTIONS)
    main = short(draw, tense)
    while main.subject == "it":
        main = short(draw, tense)
    return main, short_of_another(draw, tense, main), conjunction


_short_event = by_weight(
    [(between_beings, 34), (with_things, 24), (without_object, 30), (motion, 6), (weather, 6)]
)


def short(draw: Draw, tense: str) -> Clause:
    return _short_event(draw)(draw, tense, False)


def short_of_another(draw: Draw, tense: str, main: Clause) -> Clause:
    """A clause with another subject: "the child ..., while the child ..." would be odd."""
    second = short(draw, tense)
    while second.subject == main.subject or second.closed == main.closed:
        second = short(draw, tense)
    return second


def subordinate_last(draw: Draw) -> Sentence:
    """The dog is barking because the cat is sleeping."""
    main, second, conjunction = _paired(draw)
    english, german = statement(main)
    because, weil = subordinate(second, conjunction)
    return finished((f"{english} {because}", f"{german}, {weil}"))


def subordinate_first(draw: Draw) -> Sentence:
    """When the dog barked, the cat ran away."""
    main, second, conjunction = _paired(draw)
    because, weil = subordinate(second, conjunction)
    return finished(fronted(main, (f"{because},", f"{weil},")))


def if_clause(draw: Draw) -> Sentence:
    """If it rains, the children will play in the room."""
    condition = weather if draw() < 0.25 else short
    if_words, wenn_words = subordinate(condition(draw, "routine"), ("if", "wenn"))
    tense = "future" if draw() < 0.6 else "must" if draw() < 0.5 else "can"
    return finished(fronted(short(draw, tense), (f"{if_words},", f"{wenn_words},")))


def that_clause(draw: Draw) -> Sentence:
    """The teacher knows that the dog is chasing the cat. He asks whether ..."""
    verb = pick(draw, BEFORE_CLAUSES).verb
    subject = subject_phrase(draw, "person", adjectives=0.2)
    while subject.person in (ICH, WIR):
        subject = subject_phrase(draw, "person", adjectives=0.2)
    english, german = statement(clause(subject, verb, "present"))
    conjunction = ("whether", "ob") if verb.base == "ask" else ("that", "dass")
    what = event(draw, usual_tense(draw))
    while what.subject == subject.english:
        what = event(draw, usual_tense(draw))
    that, dass = subordinate(what, conjunction)
    return finished((f"{english} {that}", f"{german}, {dass}"))


def infinitive(draw: Draw) -> Sentence:
    """The boy is trying to open the window. (das Fenster zu öffnen)"""
    control = pick(draw, BEFORE_INFINITIVES).verb
    frame = pick(draw, WITH_THINGS)
    while frame.subject != "person" or frame.verb.is_stative:
        frame = pick(draw, WITH_THINGS)
    subject = subject_phrase(draw, "person")
    phrase, _ = object_phrase(draw, frame, subject, False, adjectives=0.35)
    tense = "present" if draw() < 0.6 else "past"
    english, german = statement(clause(subject, control, tense))
    verb = frame.verb
    zu = f"{german_object(verb, phrase)} {verb.zu_infinitive}"
    return finished((f"{english} to {verb.base} {phrase.english_object}", f"{german}, {zu}"))


def _with_relative(draw: Draw) -> tuple[NounPhrase, Sentence]:
    """A noun, and a relative clause about it: "who is chasing us", "that we are chasing"."""
    frame = pick(draw, BETWEEN_BEINGS)
    verb, tense = frame.verb, "present" if draw() < 0.5 else "past"
    if draw() < 0.5:
        head = noun_phrase(draw, frame.subject, definite_determiner, 0.25)
        phrase, _ = object_phrase(draw, frame, head, False, adjectives=0.4)
        words = with_object(head, verb, phrase, tense)
        relative = RELATIVE_PRONOUNS[NOMINATIVE][head.gender]
        german = joined(relative, words.pronoun, words.middle, words.closed)
        who = "who" if head.noun is not None and head.noun.kind in PEOPLE else "that"
        return head, (f"{who} {words.predicate}", german)
    head = noun_phrase(draw, frame.object, definite_determiner, 0.25)
    words = clause(_definite_subject(draw, frame.subject, head), verb, tense)
    relative = joined(verb.preposition, RELATIVE_PRONOUNS[verb.case][head.gender])
    german = joined(relative, words.german_subject, words.middle, words.closed)
    return head, (f"that {words.subject} {words.predicate}", german)


def _definite_subject(draw: Draw, kind: str, other: NounPhrase) -> NounPhrase:
    subject = noun_phrase(draw, kind, definite_determiner, 0.4)
    while subject.noun is other.noun:
        subject = noun_phrase(draw, kind, definite_determiner, 0.4)
    return subject


def relative_of_subject(draw: Draw) -> Sentence:
    """The man who is feeding the dog is old."""
    head, (who, der) = _with_relative(draw)
    assert head.noun is not None
    if draw() < 0.6:
        adjective = pick(draw, ADJECTIVES[head.noun.kind])
        words = be_clause(head, "present", adjective.english, adjective.german)
    else:
        verb = pick(draw, WITHOUT_OBJECT[:4]).verb
        if head.noun.kind not in PEOPLE and verb.base == "work":
            verb = WITHOUT_OBJECT[0].verb
        place = somewhere(draw, habitat(head))
        words = clause(head, verb, "present" if draw() < 0.5 else "past", *place)
    english = f"{head.english} {who} {words.predicate}"
    german = f"{words.german_subject}, {der}, {joined(words.finite, words.middle, words.final)}"
    return finished((english, german))


def relative_of_object(draw: Draw) -> Sentence:
    """I know the man who is feeding the dog."""
    head, (who, der) = _with_relative(draw)
    assert head.noun is not None
    verb = any_of(draw, _VERBS_OF_ANYBODY)
    subject = subject_phrase(draw, "person", adjectives=0.2)
    words = with_object(subject, verb, head, "past" if draw() < 0.4 else "present")
    english, german = statement(words)
    return finished((f"{english} {who}", f"{german}, {der}"))


_VERBS_OF_ANYBODY = [
    frame.verb
    for frame in BETWEEN_BEINGS
    if frame.verb.base in ("see", "look for", "watch", "hear", "find", "follow", "wait for")
]


def passive(draw: Draw) -> Sentence:
    """The cat is being chased by the dog. (wird vom Hund gejagt)"""
    frame = any_of(draw, _PASSIVE_FRAMES)
    tense = "passive" if draw() < 0.45 else "was done"
    agent = noun_phrase(draw, frame.subject, adjectives=0.4)
    patient = noun_phrase(draw, frame.object, adjectives=0.4)
    while patient.noun is agent.noun:
        patient = noun_phrase(draw, frame.object, adjectives=0.4)
    german = with_preposition("von", agent.german[DATIVE])
    words = clause(patient, frame.verb, tense, f"by {agent.english}", german)
    if draw() < 0.2:
        return finished(question(words), "?")
    if draw() < 0.25:
        return finished(fronted(words, pick(draw, words.times)))
    return finished(statement(words))


_PASSIVE_FRAMES = [
    frame
    for frame in BETWEEN_BEINGS
    if frame.verb.case == ACCUSATIVE
    and not frame.verb.preposition
    and not frame.verb.is_stative
    and frame.verb.base != "look for"
]


def coordination(draw: Draw) -> Sentence:
    """The dog is sleeping, and the cat is eating the cheese."""
    tense = usual_tense(draw)
    joint = ("and", "und") if draw() < 0.6 else ("but", "aber")
    first = short(draw, tense)
    english, german = statement(first)
    second_english, second_german = statement(short_of_another(draw, tense, first))
    return finished(
        (f"{english}, {joint[0]} {second_english}", f"{german}, {joint[1]} {second_german}")
    )


def being_described(draw: Draw) -> Sentence:
    """The soup was too hot. Is the old man happy?"""
    kind = pick(draw, _DESCRIBED_KINDS)
    determiner = single_determiner if kind in ("dish", "drink") else _described_determiner
    phrase = noun_phrase(draw, kind, determiner, 0.0)
    assert phrase.noun is not None
    adjective = pick(draw, ADJECTIVES[phrase.noun.kind])
    chance = draw()
    degree = ("very", "sehr") if chance < 0.25 else ("too", "zu") if chance < 0.4 else NO_TIME
    tense = "present" if draw() < 0.55 else "past"
    english = joined(degree[0], adjective.english)
    german = joined(degree[1], adjective.german)
    chance = draw()
    if chance < 0.25:
        return finished(question(be_clause(phrase, tense, english, german)), "?")
    return finished(statement(be_clause(phrase, tense, english, german)))


_described_determiner = by_weight(
    [(THE, 55), (THE_PLURAL, 14), (THIS, 8), (THESE, 4), (MY, 5), (OUR, 3), (HIS, 3), (HER, 3)]
    + [(MANY, 2), (SOME, 2), (ALL, 2)]
)
_DESCRIBED_KINDS = ("person", "animal", "goods", "place", "reading", "fruit", "dish", "drink")


def not_described(draw: Draw) -> Sentence:
    """The soup is not hot."""
    phrase = noun_phrase(draw, pick(draw, _DESCRIBED_KINDS), single_determiner, 0.0)
    assert phrase.noun is not None
    adjective = pick(draw, ADJECTIVES[phrase.noun.kind])
    tense = "present" if draw() < 0.55 else "past"
    return finished(
        statement(be_clause(phrase, tense, adjective.english, adjective.german, negated=True))
    )


def contrast(draw: Draw) -> Sentence:
    """The table is old, but it is beautiful: German "it" has the gender of the table."""
    phrase = noun_phrase(draw, any_of(draw, ("goods", "animal")), single_determiner, 0.0)
    assert phrase.noun is not None
    adjectives = ADJECTIVES[phrase.noun.kind]
    first, second = pick(draw, adjectives), pick(draw, adjectives)
    while second is first:
        second = pick(draw, adjectives)
    english, german = statement(be_clause(phrase, "present", first.english, first.german))
    pronoun = IT[phrase.gender].german[NOMINATIVE]
    return finished(
        (
            f"{english}, but it is {second.english}",
            f"{german}, aber {pronoun} ist {second.german}",
        )
    )


def flaw(draw: Draw) -> Sentence:
    """Anna did not buy the table because it was too expensive."""
    verb = _BUY
    subject = noun_phrase(draw, "person", definite_determiner, 0.2)
    if draw() < 0.3:
        subject = pick(draw, NAMED)
    thing = noun_phrase(draw, "goods", _bought_determiner, 0.0)
    adjective = pick(draw, FLAWS)
    words = with_object(subject, verb, thing, "past", negated=True, needs_nicht=True)
    english, german = statement(words)
    pronoun = IT[thing.gender].german[NOMINATIVE]
    return finished(
        (
            f"{english} because it was too {adjective.english}",
            f"{german}, weil {pronoun} zu {adjective.german} war",
        )
    )


_bought_determiner = by_weight([(THE, 85), (THIS, 15)])
_BUY = next(frame.verb for frame in WITH_THINGS if frame.verb.base == "buy")


class Told(NamedTuple):
    """A sentence of `reason`, and the same with the pronoun of the other noun."""

    sentence: Sentence
    other_german: str
    genders: tuple[int, int]  # of the noun that is meant, and of the other


_COLOURS = [
    each for each in ADJECTIVES["pet"] if each.english in ("black", "white", "brown", "grey")
]


def told_reason(draw: Draw, reason: Reason) -> Told:
    """The animal did not cross the street because it was too tired, or too wide."""
    noun = pick(draw, reason.subjects)
    subject = inflected(noun, fitting(_reason_determiner(draw), noun))
    if draw() < 0.25 and subject.noun is not None and subject.noun.kind.endswith(("pet", "animal")):
        colour = pick(draw, _COLOURS)
        subject = inflected(subject.noun, THE, colour)
    target = inflected(pick(draw, reason.objects), THE)
    is_subject = draw() < 0.5
    adjectives = reason.subject_adjectives if is_subject else reason.object_adjectives
    adjective = any_of(draw, adjectives)
    negated = reason.negated
    words = with_object(subject, reason.verb, target, "past", negated=negated, needs_nicht=negated)
    english, german = (
        statement(words)
        if draw() < 0.8
        else fronted(words, pick(draw, words.times or TIMES["past"]))
    )
    english = f"{english} because it was {reason.intensifier[0]} {adjective.english}"
    ending = f"{reason.intensifier[1]} {adjective.german} war"
    meant, other = (subject, target) if is_subject else (target, subject)
    right, wrong = (
        f"{german}, weil {IT[phrase.gender].german[NOMINATIVE]} {ending}"
        for phrase in (meant, other)
    )
    return Told(
        finished((english, right)), finished((english, wrong))[1], (meant.gender, other.gender)
    )


_reason_determiner = by_weight([(THE, 80), (THIS, 8), (MY, 6), (OUR, 6)])


def because_it(draw: Draw) -> Sentence:
    """The animal did not cross the street because it was too tired."""
    return told_reason(draw, any_of(draw, REASONS)).sentence


def position(draw: Draw) -> Sentence:
    """The cup is on the table: steht for what stands, liegt for what lies, ist for animals."""
    kind = any_of(draw, ("standing", "lying", "small animal"))
    thing = noun_phrase(draw, kind, definite_determiner, 0.3)
    preposition, german_preposition = pick(draw, POSITIONS)
    surface = inflected(pick(draw, NOUNS["surface" if preposition == "on" else "cover"]), THE)
    german = with_preposition(german_preposition, surface.german[DATIVE])
    tense = "present" if draw() < 0.6 else "past"
    words = be_clause(thing, tense, f"{preposition} {surface.english}", german)
    if kind != "small animal":
        finite = _POSITION_VERBS[kind, tense][thing.person]
        words = words._replace(finite=finite, closed=finite)
    if draw() < 0.25:
        return finished(question(words), "?")
    return finished(statement(words))


_POSITION_VERBS = {
    ("standing", "present"): ("stehe", "steht", "stehen", "stehen"),
    ("standing", "past"): ("stand", "stand", "standen", "standen"),
    ("lying", "present"): ("liege", "liegt", "liegen", "liegen"),
    ("lying", "past"): ("lag", "lag", "lagen", "lagen"),
}


def existence(draw: Draw) -> Sentence:
    """There are twelve birds in the forest. How many birds are there in the forest?"""
    kind, habitat = any_of(
        draw,
        (
            ("animal", "outdoors"),
            ("stranger", "anywhere"),
            ("child", "anywhere"),
            ("furniture", "indoors"),
        ),
    )
    noun = pick(draw, NOUNS[kind])
    assert noun.plural is not None
    where = somewhere(draw, habitat)
    is_past = draw() < 0.3
    gibt = "gab" if is_past else "gibt"
    if draw() < 0.15:
        return finished(
            (
                f"how many {noun.english_plural} {'were' if is_past else 'are'} there {where[0]}",
                f"wie viele {noun.plural[ACCUSATIVE]} {gibt} es {where[1]}",
            ),
            "?",
        )
    determiner = A if draw() < 0.2 else MANY if draw() < 0.15 else pick(draw, NUMBERS)
    adjective = pick(draw, ADJECTIVES[noun.kind]) if draw() < 0.3 else None
    phrase = inflected(noun, determiner, adjective)
    be = (WAS if is_past else BE)[phrase.person]
    things = phrase.german[ACCUSATIVE]
    if draw() < 0.2:
        english = f"{be} there {phrase.english} {where[0]}"
        return finished((english, f"{gibt} es {things} {where[1]}"), "?")
    return finished((f"there {be} {phrase.english} {where[0]}", f"es {gibt} {things} {where[1]}"))


def possession(draw: Draw) -> Sentence:
    """Peter has two brothers. The woman does not have a dog."""
    subject = subject_phrase(draw, "person", adjectives=0.3)
    negated = draw() < 0.25
    thing = pick(draw, NOUNS["owned"])
    if negated:
        subject = subject_or_definite(draw, "person", True)
        determiner = NOT_A if draw() < 0.7 else NOT_ANY
    else:
        determiner = A if draw() < 0.4 else pick(draw, SMALL_NUMBERS)
    adjective = pick(draw, ADJECTIVES[thing.kind]) if draw() < 0.45 else None
    phrase = inflected(thing, determiner, adjective)
    words = with_object(subject, HAVE, phrase, "present", negated=negated)
    if not negated and draw() < 0.2:
        return finished(question(words), "?")
    return finished(statement(words))


def comparison(draw: Draw) -> Sentence:
    """The old dog is bigger than the young cat."""
    kind = any_of(draw, ("animal", "animal", "person", "vehicle"))
    first = noun_phrase(draw, kind, definite_determiner, 0.45)
    second = _definite_subject(draw, kind, first)
    comparatives = COMPARATIVES[-3:] + COMPARATIVES[:4] if kind == "vehicle" else COMPARATIVES[:8]
    adjective = pick(draw, comparatives)
    than, als = (
        f"{adjective.english} than {second.english}",
        f"{adjective.german} als {second.german[0]}",
    )
    words = be_clause(first, "present" if draw() < 0.75 else "past", than, als)
    if draw() < 0.25:
        return finished(question(words), "?")
    return finished(statement(words))


def topic(draw: Draw) -> Sentence:
    """This letter my sister did not write: the object stands first."""
    frame = pick(draw, _TOPIC_FRAMES)
    noun = pick(draw, NOUNS[frame.object])
    thing = inflected(noun, THIS)
    subject = noun_phrase(draw, "person", definite_determiner, 0.2)
    words = clause(subject, frame.verb, "past", "", "nicht", negated=True)
    return finished(fronted(words, (thing.english, thing.german[ACCUSATIVE])))


_TOPIC_FRAMES = [
    frame for frame in WITH_THINGS if frame.subject == "person" and not frame.verb.is_stative
]


def about_weather(draw: Draw) -> Sentence:
    """It rained yesterday. Will it be cold tomorrow?"""
    tense = ("present", "past", "future")[int(3 * draw())]
    negated = draw() < 0.15
    words = weather(draw, tense, negated)
    time = pick(draw, words.times)
    if negated:
        return finished(fronted(words, time))
    if draw() < 0.25:
        return finished(question(words, time=time), "?")
    return finished(fronted(words, time) if draw() < 0.4 else statement(words, time))


CONSTRUCTIONS: tuple[tuple[Construction, float | int], ...] = (
    (plain, 17),
    (with_time, 15),
    (yes_no_question, 11),
    (negation, 8),
    (who_question, 5),
    (because_it, 4.5),
    (subordinate_last, 4),
    (that_clause, 4),
    (being_described, 4),
    (what_question, 3),
    (subordinate_first, 3),
    (relative_of_subject, 3.5),
    (relative_of_object, 3.5),
    (passive, 3),
    (comparison, 2.5),
    (existence, 2.5),
    (possession, 2.5),
    (position, 2.5),
    (coordination, 2),
    (adverb_question, 2),
    (flaw, 2),
    (contrast, 1.5),
    (infinitive, 2),
    (if_clause, 1.5),
    (not_described, 1),
    (topic, 1),
    (about_weather, 1),
)
draw_construction = by_weight(CONSTRUCTIONS)
