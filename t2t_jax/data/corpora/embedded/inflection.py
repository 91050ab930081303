"""Noun phrases and verbs in all their forms, English and German; nothing here is random."""

from typing import NamedTuple

from t2t_jax.data.corpora.embedded.words import (
    ACCUSATIVE,
    DATIVE,
    FEMININE,
    FRAMES,
    MASCULINE,
    NAMES,
    NEUTER,
    NOMINATIVE,
    PLURAL,
    Adjective,
    Noun,
    Verb,
)

# Grammatical person of a subject: indexes the forms of a verb.
ICH, ER, WIR, SIE = range(4)


def joined(*parts: str) -> str:
    """The parts that are not empty, with spaces between them."""
    return " ".join([part for part in parts if part])


# Rows: nominative, accusative, dative, genitive; columns: masculine, feminine, neuter, plural.
_WEAK_ENDINGS = (
    ("e", "e", "e", "en"),
    ("en", "e", "e", "en"),
    ("en", "en", "en", "en"),
    ("en", "en", "en", "en"),
)
_MIXED_ENDINGS = (
    ("er", "e", "es", "en"),
    ("en", "e", "es", "en"),
    ("en", "en", "en", "en"),
    ("en", "en", "en", "en"),
)
_STRONG_ENDINGS = (
    ("er", "e", "es", "e"),
    ("en", "e", "es", "e"),
    ("em", "er", "em", "en"),
    ("en", "er", "en", "er"),
)
_DEFINITE_ARTICLES = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "den"),
    ("des", "der", "des", "der"),
)
DER_WORD_ENDINGS = (
    ("er", "e", "es", "e"),
    ("en", "e", "es", "e"),
    ("em", "er", "em", "en"),
    ("es", "er", "es", "er"),
)
_EIN_WORD_ENDINGS = (
    ("", "e", "", "e"),
    ("en", "e", "", "e"),
    ("em", "er", "em", "en"),
    ("es", "er", "es", "er"),
)


class Determiner(NamedTuple):
    """What stands before adjective and noun: an article, "my", "many", a number, or nothing."""

    english: str  # "a" becomes "an" where it must
    articles: tuple[tuple[str, ...], ...]  # by case and gender
    endings: tuple[tuple[str, ...], ...]  # of the adjective, by case and gender
    is_plural: bool
    negated: "Determiner | None"  # what "not ... a" turns it into; None: stays, with nicht


def _der_word(english: str, stem: str, is_plural: bool = False) -> Determiner:
    """dieser, jeder, alle: endings of der, weak adjectives."""
    articles = tuple(tuple(stem + ending for ending in row) for row in DER_WORD_ENDINGS)
    return Determiner(english, articles, _WEAK_ENDINGS, is_plural, None)


def _ein_word(english: str, stem: str, is_plural: bool = False) -> Determiner:
    """ein, kein, mein: mixed adjectives."""
    articles = tuple(tuple(stem + ending for ending in row) for row in _EIN_WORD_ENDINGS)
    return Determiner(english, articles, _MIXED_ENDINGS, is_plural, None)


def _quantity(english: str, german: str, declined: bool = False) -> Determiner:
    """zwei, viele: plural, with strong adjectives."""
    endings = DER_WORD_ENDINGS if declined else (("",) * 4,) * 4
    articles = tuple(tuple(german + ending for ending in row) for row in endings)
    return Determiner(english, articles, _STRONG_ENDINGS, True, None)


_GERMAN_ONES = "_ ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
_ENGLISH_ONES = "_ one two three four five six seven eight nine ten eleven twelve".split()
_ENGLISH_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_GERMAN_TEENS = "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
_ENGLISH_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_GERMAN_TENS = "_ _ zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def number(n: int) -> tuple[str, str]:
    """The number in words, 2 to 99: ("twenty-one", "einundzwanzig")."""
    if n <= 12:
        return _ENGLISH_ONES[n], _GERMAN_ONES[n]
    if n < 20:
        return _ENGLISH_TEENS[n - 13], _GERMAN_TEENS[n - 13]
    tens, ones = divmod(n, 10)
    if ones == 0:
        return _ENGLISH_TENS[tens], _GERMAN_TENS[tens]
    return (
        f"{_ENGLISH_TENS[tens]}-{_ENGLISH_ONES[ones]}",
        f"{_GERMAN_ONES[ones]}und{_GERMAN_TENS[tens]}",
    )


THE = Determiner("the", _DEFINITE_ARTICLES, _WEAK_ENDINGS, False, None)
THE_PLURAL = THE._replace(is_plural=True)
NOT_A = _ein_word("a", "kein")
A = _ein_word("a", "ein")._replace(negated=NOT_A)
_NOTHING = (("",) * 4,) * 4
NOT_ANY = _ein_word("", "kein", is_plural=True)
SOME_DOGS = Determiner("", _NOTHING, _STRONG_ENDINGS, True, NOT_ANY)  # the bare plural: "dogs"
NOT_ANY_MILK = _ein_word("", "kein")
MILK = Determiner("", _NOTHING, _STRONG_ENDINGS, False, NOT_ANY_MILK)  # the bare singular: "milk"
THIS = _der_word("this", "dies")
THESE = _der_word("these", "dies", is_plural=True)
EVERY = _der_word("every", "jed")
ALL = _der_word("all", "all", is_plural=True)
POSSESSIVES = (("my", "mein"), ("our", "unser"), ("his", "sein"), ("her", "ihr"))
MY, OUR, HIS, HER = (_ein_word(english, stem) for english, stem in POSSESSIVES)
MY_PLURAL, OUR_PLURAL, HIS_PLURAL, HER_PLURAL = (
    _ein_word(english, stem, is_plural=True) for english, stem in POSSESSIVES
)
MANY = _quantity("many", "viel", declined=True)
SOME = _quantity("some", "einig", declined=True)
# Larger numbers are few, so that each of them is seen often enough to be learned.
NUMBERS = [_quantity(*number(n)) for n in (*range(2, 26), *range(30, 100, 10))]
SMALL_NUMBERS = NUMBERS[:11]
OF_NAMES = [
    Determiner(f"{name}'s", ((f"{name}s",) * 4,) * 4, _STRONG_ENDINGS, False, None)
    for name in NAMES[:6]
    if not name.endswith("s")
]


class NounPhrase(NamedTuple):
    """A noun phrase, a name or a pronoun in both languages."""

    english: str
    german: tuple[str, str, str]  # nominative, accusative, dative
    person: int
    gender: int  # PLURAL for plurals
    noun: Noun | None  # None: a name or a pronoun
    english_object: str  # "him" for "he"


# A silent or a consonant-like first letter; the other words take "an" before a, e, i, o, u.
_A_BEFORE = ("uni", "use")


def inflected(noun: Noun, determiner: Determiner, adjective: Adjective | None = None) -> NounPhrase:
    """Determiner, adjective and noun in all cases: `inflected(dog, THE, old)`, der alte Hund ..."""
    if determiner.is_plural:
        gender, person, english_noun, forms = PLURAL, SIE, noun.english_plural, noun.plural
        assert forms is not None, noun.english
    else:
        gender, person, english_noun, forms = noun.gender, ER, noun.english, noun.singular
    _, articles, endings, _, _ = determiner
    english = f"{adjective.english} {english_noun}" if adjective else english_noun
    word = determiner.english
    if word == "a" and english[0] in "aeiou" and not english.startswith(_A_BEFORE):
        word = "an"
    if word:
        english = f"{word} {english}"
    german = []
    for case in (NOMINATIVE, ACCUSATIVE, DATIVE):
        article = articles[case][gender]
        text = forms[case]
        if adjective:
            text = f"{adjective.stem}{endings[case][gender]} {text}"
        german.append(f"{article} {text}" if article else text)
    nominative, accusative, dative = german
    return NounPhrase(english, (nominative, accusative, dative), person, gender, noun, english)


def owned(thing: NounPhrase, owner: Noun, of_owner: Adjective | None) -> NounPhrase:
    """the neighbour's dog, der Hund des Nachbarn; `thing` has the definite article."""
    article = _DEFINITE_ARTICLES[3][owner.gender]
    genitive = owner.singular[3]
    english = owner.english
    if of_owner:
        genitive = f"{of_owner.stem}en {genitive}"
        english = f"{of_owner.english} {english}"
    english = f"the {english}'s {thing.english.removeprefix('the ')}"
    nominative, accusative, dative = (f"{form} {article} {genitive}" for form in thing.german)
    return thing._replace(
        english=english, english_object=english, german=(nominative, accusative, dative)
    )


def pronoun_phrase(
    english: str, english_object: str, german: str, person: int, gender: int
) -> NounPhrase:
    nominative, accusative, dative = german.split()
    forms = (nominative, accusative, dative)
    return NounPhrase(english, forms, person, gender, None, english_object)


PRONOUNS = [
    pronoun_phrase("he", "him", "er ihn ihm", ER, MASCULINE),
    pronoun_phrase("she", "her", "sie sie ihr", ER, FEMININE),
    pronoun_phrase("I", "me", "ich mich mir", ICH, PLURAL),
    pronoun_phrase("we", "us", "wir uns uns", WIR, PLURAL),
    pronoun_phrase("they", "them", "sie sie ihnen", SIE, PLURAL),
]
PRONOUN_WORDS = frozenset(("he", "she", "I", "we", "they", "it", "who"))
NAMED = [NounPhrase(name, (name, name, name), ER, MASCULINE, None, name) for name in NAMES]
IT = {
    gender: pronoun_phrase("it", "it", german, ER, gender)
    for gender, german in (
        (MASCULINE, "er ihn ihm"),
        (FEMININE, "sie sie ihr"),
        (NEUTER, "es es ihm"),
    )
}
WHO = pronoun_phrase("who", "who", "wer wen wem", ER, MASCULINE)
RELATIVE_PRONOUNS = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "denen"),
)


def with_preposition(preposition: str, german: str) -> str:
    """A preposition before a noun phrase, contracted with the article: "im Garten"."""
    article, _, rest = german.partition(" ")
    contracted = _CONTRACTIONS.get((preposition, article))
    return f"{contracted} {rest}" if contracted else f"{preposition} {german}"


_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


class VerbForms(NamedTuple):
    """A verb in one tense and person, cut where the order of words cuts it."""

    plain: str  # "chased"
    auxiliary: str  # "did": what moves in a question, and takes "not"
    bare: str  # "chase"
    finite: str  # "hat": what stands second
    final: str  # "gejagt": what stands last; "auf" of "aufmachen"
    closed: str  # "gejagt hat": the end of a subordinate clause


BE = ("am", "is", "are", "are")
WAS = ("was", "was", "were", "were")
_DO = ("do", "does", "do", "do")
_HABEN = ("habe", "hat", "haben", "haben")
SEIN = ("bin", "ist", "sind", "sind")
WERDEN = ("werde", "wird", "werden", "werden")
_WURDE = ("wurde", "wurde", "wurden", "wurden")
# Tense: English auxiliary (and what follows it), German forms for ich/er and for wir/sie.
MODALS = {
    "can": ("can", "", "kann", "können"),
    "must": ("must", "", "muss", "müssen"),
    "should": ("should", "", "sollte", "sollten"),
    "want": ("do", "want to", "will", "wollen"),
    "wanted": ("did", "wanted to", "wollte", "wollten"),
    "could": ("could", "", "konnte", "konnten"),
    "had": ("did", "had to", "musste", "mussten"),
    "may": ("may", "", "darf", "dürfen"),
}
_BARE_MODALS = {"want": "want to", "wanted": "want to", "had": "have to"}


def verb_forms(verb: Verb, tense: str, person: int) -> VerbForms:
    """A verb in a tense: "present" (progressive unless stative), "habit" (often), "routine" (every
    day), "past", "future", "passive", "was done" (the passive's past) or one of the modals."""
    space = " " if verb.prefix_is_word else ""
    if tense in ("present", "habit", "routine"):
        finite = verb.present[person]
        final, closed = verb.prefix, f"{verb.prefix}{space}{finite}"
        if tense != "present" or verb.is_stative:
            plain = verb.third_person if person == ER else verb.base
            return VerbForms(plain, _DO[person], verb.base, finite, final, closed)
        auxiliary, bare = BE[person], verb.progressive
        return VerbForms(f"{auxiliary} {bare}", auxiliary, bare, finite, final, closed)
    if tense in ("passive", "was done"):
        finite = (WERDEN if tense == "passive" else _WURDE)[person]
        auxiliary = (BE if tense == "passive" else WAS)[person]
        bare = joined("being" if tense == "passive" else "", verb.past_participle)
        closed = f"{verb.participle} {finite}"
        return VerbForms(f"{auxiliary} {bare}", auxiliary, bare, finite, verb.participle, closed)
    if tense == "past":
        finite, final = (SEIN if verb.takes_sein else _HABEN)[person], verb.participle
        return VerbForms(verb.past, "did", verb.base, finite, final, f"{final} {finite}")
    final = verb.infinitive
    if tense == "future":
        finite = WERDEN[person]
        return VerbForms(f"will {verb.base}", "will", verb.base, finite, final, f"{final} {finite}")
    auxiliary, following, singular, plural = MODALS[tense]
    finite = singular if person in (ICH, ER) else plural
    closed = f"{final} {finite}"
    if not following:
        return VerbForms(f"{auxiliary} {verb.base}", auxiliary, verb.base, finite, final, closed)
    if tense == "want" and person == ER:
        following = "wants to"
    auxiliary = _DO[person] if auxiliary == "do" else auxiliary
    plain, bare = f"{following} {verb.base}", f"{_BARE_MODALS[tense]} {verb.base}"
    return VerbForms(plain, auxiliary, bare, finite, final, closed)


_TENSES = ("present", "habit", "routine", "past", "future", "passive", "was done", *MODALS)
FORMS = {
    tense: {
        (frame.verb.base, frame.verb.infinitive): [
            verb_forms(frame.verb, tense, person) for person in (ICH, ER, WIR, SIE)
        ]
        for frame in FRAMES
    }
    for tense in _TENSES
}
