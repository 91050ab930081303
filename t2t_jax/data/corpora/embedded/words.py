"""The words of lexicon.py with all their forms, parsed once at import."""

import re
from typing import NamedTuple

from t2t_jax.data.corpora.embedded.lexicon import (
    ADJECTIVES_OF_KIND,
    ADJECTIVES_TABLE,
    COMPARATIVES_TABLE,
    COMPOUNDS_TABLE,
    DAYS_TABLE,
    FLAWS_TABLE,
    FREQUENCIES_TABLE,
    MONTHS_TABLE,
    NAMES_TABLE,
    NOUNS_TABLE,
    OTHER_VERBS,
    PLACES_WITH_PREPOSITION,
    POSITIONS_TABLE,
    REASON_ADJECTIVES,
    REASONS_TABLE,
    SELECTIONS,
    SENSES_TABLE,
    TIMES_TABLE,
    UNIONS,
    VERBS_BEFORE_CLAUSES,
    VERBS_BEFORE_INFINITIVES,
    VERBS_BETWEEN_BEINGS,
    VERBS_OF_GIVING,
    VERBS_OF_MOTION,
    VERBS_OF_PLACING,
    VERBS_WITH_THINGS,
    VERBS_WITHOUT_OBJECT,
    WEATHER_TABLE,
    WEATHER_VERBS_TABLE,
)

MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
GENDERS = {"der": MASCULINE, "die": FEMININE, "das": NEUTER}
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)


class Adjective(NamedTuple):
    """An adjective: `stem` takes the endings, `german` stands alone after "ist"."""

    english: str
    german: str
    stem: str


class Noun(NamedTuple):
    """A noun: `singular` and `plural` are the German forms in the four cases."""

    english: str
    english_plural: str
    gender: int
    singular: tuple[str, str, str, str]
    plural: tuple[str, str, str, str] | None
    kind: str


class Verb(NamedTuple):
    """A verb in both languages; the English forms inflect the first word of phrasal verbs."""

    base: str
    third_person: str
    progressive: str
    past: str
    past_participle: str
    is_stative: bool
    infinitive: str  # joined: "aufmachen"
    zu_infinitive: str  # "aufzumachen"
    present: tuple[str, str, str, str]  # ich, er, wir, sie; without the prefix
    prefix: str  # "auf"; "" where nothing separates
    prefix_is_word: bool  # "Fußball" in "Fußball spielen" is never joined to the verb
    participle: str
    takes_sein: bool
    preposition: str  # of the object; "" where it has none
    case: int  # of the object


class Frame(NamedTuple):
    """Who (a kind of noun) does what to whom."""

    verb: Verb
    subject: str
    object: str


class Sense(NamedTuple):
    """One meaning of a German word with two, and the verbs that select it."""

    noun: Noun
    verbs: list[Verb]


class Reason(NamedTuple):
    """Somebody did not do something because "it" was too ...: the adjective says who is meant."""

    intensifier: tuple[str, str]
    negated: bool
    verb: Verb
    subjects: list[Noun]
    objects: list[Noun]
    subject_adjectives: list[Adjective]
    object_adjectives: list[Adjective]


_DOUBLED_CONSONANT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")


def _rows(table: str) -> list[list[str]]:
    """The columns of every line of a table."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.strip().splitlines()]


def _entries(text: str) -> list[str]:
    """The entries of a list with commas."""
    return [" ".join(entry.split()) for entry in text.split(",")]


def _adjective(entry: str) -> Adjective:
    english, german = entry.rsplit(" ", 1)
    german, _, stem = german.partition("/")
    return Adjective(english, german, stem or german.removesuffix("e"))


def _phrase(entry: str) -> tuple[str, str]:
    english, german = entry.split(" = ")
    return english, german


def _plural(english: str) -> str:
    """The regular English plural."""
    if re.search("[^aeiou]y$", english):
        return english[:-1] + "ies"
    return english + ("es" if english.endswith(("s", "x", "ch", "sh")) else "s")


def _noun(english: str, german: str, german_plural: str, kind: str) -> Noun:
    english, _, english_plural = english.partition("/")
    article, german = german.split(" ", 1)
    german, _, oblique = german.partition("/")
    gender = GENDERS[article]
    oblique = oblique or german
    if gender == FEMININE or oblique != german:
        genitive = oblique
    elif (
        german.endswith(("s", "ß", "z", "x"))
        or len(re.findall("[aeiouyäöü]+", german.lower())) == 1
    ):
        genitive = german + "es"
    else:
        genitive = german + "s"
    plural = None
    if german_plural != "-":
        dative = german_plural + ("" if german_plural.endswith(("n", "s")) else "n")
        plural = (german_plural, german_plural, dative, german_plural)
    return Noun(
        english=english,
        english_plural=english_plural or _plural(english),
        gender=gender,
        singular=(german, oblique, oblique, genitive),
        plural=plural,
        kind=kind,
    )


def compound(modifier: str, head: str, kind: str) -> Noun:
    """`compound("kitchen Küchen", "table der Tisch Tische", kind)`: kitchen table, Küchentisch."""
    english_modifier, german_modifier = modifier.split(" ")
    english, article, german, plural = head.split(" ")
    plural = plural if plural == "-" else german_modifier + plural.lower()
    german = f"{article} {german_modifier}{german.lower()}"
    return _noun(f"{english_modifier} {english}", german, plural, kind)


def _english_verb(entry: str) -> tuple[str, str, str, str, str]:
    """`give/gave/given` or `turn on`: base, third person, progressive, past, past participle."""
    irregular, _, particle = entry.partition(" ")
    base, *irregular_forms = irregular.split("/")
    doubled = base + base[-1] if _DOUBLED_CONSONANT.fullmatch(base) else base
    if base.endswith("ie"):
        progressive, past = base[:-2] + "ying", base + "d"
    elif base.endswith("e"):
        progressive, past = base[:-1] + "ing", base + "d"
    else:
        progressive, past = doubled + "ing", doubled + "ed"
    if re.search("[^aeiou]y$", base):
        third_person, past = base[:-1] + "ies", base[:-1] + "ied"
    else:
        third_person = (
            "has"
            if base == "have"
            else base + ("es" if base.endswith(("s", "x", "ch", "sh", "o")) else "s")
        )
    past_participle = past
    if irregular_forms:
        past, past_participle = irregular_forms[0], irregular_forms[-1]
    forms = (base, third_person, progressive, past, past_participle)
    first, third, progressive, past, participle = (f"{form} {particle}".strip() for form in forms)
    return first, third, progressive, past, participle


def _verb(english: str, infinitive: str, third_person: str, participle: str, object: str) -> Verb:
    is_stative = english.endswith("*")
    prefix, separator, stem = infinitive.rpartition("|")
    prefix_is_word = not separator and " " in infinitive
    if prefix_is_word:
        prefix, stem = infinitive.rsplit(" ", 1)
    if stem.endswith("eln"):
        first_person = stem[:-3] + "le"
    elif stem.endswith("ern"):
        first_person = stem[:-1] + "e"
    else:
        first_person = stem[:-1]
    if stem == "wissen":
        first_person = "weiß"
    preposition, _, case = object.rpartition(" ")
    takes_sein = participle.startswith("ist ")
    space = " " if prefix_is_word else ""
    return Verb(
        *_english_verb(english.rstrip("*")),
        is_stative=is_stative,
        infinitive=prefix + space + stem,
        zu_infinitive=prefix + space + (f"zu{stem}" if separator else f"zu {stem}"),
        present=(first_person, third_person, stem, stem),
        prefix=prefix,
        prefix_is_word=prefix_is_word,
        participle=participle.removeprefix("ist "),
        takes_sein=takes_sein,
        preposition=preposition,
        case={"A": ACCUSATIVE, "D": DATIVE}[case],
    )


def _frames(table: str) -> list[Frame]:
    frames = []
    for english, infinitive, third_person, participle, object, roles in _rows(table):
        subject, _, role = roles.partition(">")
        verb = _verb(english, infinitive, third_person, participle, object)
        frames.append(Frame(verb, subject, role))
    return frames


def _interleaved(lists: list[list[Noun]]) -> list[Noun]:
    """The nouns of several lists, the frequent ones of each list first."""
    ranked = [(rank, noun) for nouns in lists for rank, noun in enumerate(nouns)]
    return [noun for _, noun in sorted(ranked, key=lambda pair: pair[0])]


def _noun_lists() -> tuple[dict[str, list[Noun]], dict[str, tuple[str, str]]]:
    """The nouns of every kind, and the prepositions (English, German) of places that are spots."""
    nouns = {
        kind: [_noun(row[0], row[1], row[2], kind) for row in _rows(table)]
        for kind, table in NOUNS_TABLE.items()
    }
    prepositions = {}
    nouns["spot"] = []
    for english, german, *row in _rows(PLACES_WITH_PREPOSITION):
        nouns["spot"].append(_noun(row[0], row[1], row[2], "spot"))
        prepositions[row[0]] = (english, german)
    for kind, (modifiers, heads) in COMPOUNDS_TABLE.items():
        nouns[kind] += [
            compound(modifier, head, kind)
            for head in _entries(heads)
            for modifier in _entries(modifiers)
        ]
    by_english = {noun.english: noun for each in nouns.values() for noun in each}
    for kind, union in UNIONS.items():
        nouns[kind] = _interleaved([nouns[part] for part in _entries(union)])
    for kind, words in SELECTIONS.items():
        nouns[kind] = [by_english[word] for word in _entries(words)]
    return nouns, prepositions


NOUNS, SPOT_PREPOSITIONS = _noun_lists()
ADJECTIVES = {
    kind: [_adjective(entry) for entry in _entries(ADJECTIVES_TABLE[table])]
    for kind, table in ADJECTIVES_OF_KIND.items()
}
NAMES = NAMES_TABLE.split()
COMPARATIVES = [_adjective(entry) for entry in _entries(COMPARATIVES_TABLE)]
WEATHER = [_adjective(entry) for entry in _entries(WEATHER_TABLE)]
FREQUENCIES = [_adjective(entry) for entry in _entries(FREQUENCIES_TABLE)]
POSITIONS = [_phrase(entry) for entry in _entries(POSITIONS_TABLE)]
TIMES = {tense: [_phrase(entry) for entry in _entries(text)] for tense, text in TIMES_TABLE.items()}
DAYS = [(f"on {day.english}", f"am {day.german}") for day in map(_adjective, _entries(DAYS_TABLE))]
MONTHS = [
    (f"in {month.english}", f"im {month.german}")
    for month in map(_adjective, _entries(MONTHS_TABLE))
]
FLAWS = [_adjective(entry) for entry in _entries(FLAWS_TABLE)]

BETWEEN_BEINGS = _frames(VERBS_BETWEEN_BEINGS)
WITH_THINGS = _frames(VERBS_WITH_THINGS)
GIVING = _frames(VERBS_OF_GIVING)
WITHOUT_OBJECT = _frames(VERBS_WITHOUT_OBJECT)
MOTION = _frames(VERBS_OF_MOTION)
PLACING = _frames(VERBS_OF_PLACING)
BEFORE_INFINITIVES = _frames(VERBS_BEFORE_INFINITIVES)
BEFORE_CLAUSES = _frames(VERBS_BEFORE_CLAUSES)
WEATHER_VERBS = _frames(WEATHER_VERBS_TABLE)
_OTHER = _frames(OTHER_VERBS)
FRAMES = [
    *BETWEEN_BEINGS, *WITH_THINGS, *GIVING, *WITHOUT_OBJECT, *MOTION, *PLACING, *BEFORE_INFINITIVES,
    *BEFORE_CLAUSES, *WEATHER_VERBS, *_OTHER,
]  # fmt: skip

HAVE = next(frame.verb for frame in _OTHER if frame.verb.base == "have")

_VERBS: dict[str, Verb] = {}
for _frame in WITH_THINGS + BETWEEN_BEINGS + _OTHER:
    _VERBS.setdefault(_frame.verb.base, _frame.verb)
_FRESSEN = next(frame.verb for frame in WITH_THINGS if frame.verb.infinitive == "fressen")


def _senses() -> list[Sense]:
    return [
        Sense(_noun(english, german, "-", "sense"), [_VERBS[verb] for verb in _entries(verbs)])
        for english, german, verbs in _rows(SENSES_TABLE)
    ]


def _reasons() -> list[Reason]:
    adjectives = {word.english: word for word in map(_adjective, _entries(REASON_ADJECTIVES))}
    return [
        Reason(
            intensifier=("too", "zu") if polarity == "not" else ("so", "so"),
            negated=polarity == "not",
            verb=_FRESSEN if verb == "eat" else _VERBS[verb],
            subjects=NOUNS[subject][:16],
            objects=NOUNS[object],
            subject_adjectives=[adjectives[word] for word in _entries(of_subject)],
            object_adjectives=[adjectives[word] for word in _entries(of_object)],
        )
        for polarity, verb, subject, object, of_subject, of_object in _rows(REASONS_TABLE)
    ]


SENSES = _senses()
REASONS = _reasons()
