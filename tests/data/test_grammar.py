"""The embedded corpus: correct German, disjoint splits, probes."""

import json
import re
import subprocess
import sys
from random import Random

import pytest

from t2t_jax.data.corpora.embedded.clauses import (
    be_clause,
    fronted,
    question,
    statement,
    subordinate,
)
from t2t_jax.data.corpora.embedded.constructions import CONSTRUCTIONS, draw_construction
from t2t_jax.data.corpora.embedded.events import with_object
from t2t_jax.data.corpora.embedded.inflection import (
    ALL,
    EVERY,
    HER,
    IT,
    MANY,
    MILK,
    MY,
    NOT_A,
    PRONOUNS,
    SOME_DOGS,
    THE,
    THE_PLURAL,
    A,
    inflected,
    number,
    with_preposition,
)
from t2t_jax.data.corpora.embedded.words import ADJECTIVES, FRAMES, NOUNS
from t2t_jax.data.corpora.grammar import (
    MAX_WORDS,
    MOST_PROBES,
    SPLITS,
    embedded_pairs,
    probes,
    split_of,
)

_NOUNS = {noun.english: noun for nouns in NOUNS.values() for noun in nouns}
_ADJECTIVES = {word.english: word for words in ADJECTIVES.values() for word in words}
_VERBS = {(frame.verb.base, frame.verb.infinitive): frame.verb for frame in FRAMES}


def _forms(determiner, noun: str, adjective: str = "old") -> str:
    return ", ".join(inflected(_NOUNS[noun], determiner, _ADJECTIVES[adjective]).german)


@pytest.mark.parametrize(
    ("determiner", "noun", "expected"),
    [
        (THE, "dog", "der alte Hund, den alten Hund, dem alten Hund"),
        (THE, "cat", "die alte Katze, die alte Katze, der alten Katze"),
        (THE, "horse", "das alte Pferd, das alte Pferd, dem alten Pferd"),
        (THE_PLURAL, "dog", "die alten Hunde, die alten Hunde, den alten Hunden"),
        (A, "dog", "ein alter Hund, einen alten Hund, einem alten Hund"),
        (A, "cat", "eine alte Katze, eine alte Katze, einer alten Katze"),
        (A, "horse", "ein altes Pferd, ein altes Pferd, einem alten Pferd"),
        (SOME_DOGS, "dog", "alte Hunde, alte Hunde, alten Hunden"),
        (MANY, "car", "viele alte Autos, viele alte Autos, vielen alten Autos"),
        (ALL, "girl", "alle alten Mädchen, alle alten Mädchen, allen alten Mädchen"),
        (EVERY, "woman", "jede alte Frau, jede alte Frau, jeder alten Frau"),
        (HER, "neighbour", "ihr alter Nachbar, ihren alten Nachbarn, ihrem alten Nachbarn"),
        (MY, "bear", "mein alter Bär, meinen alten Bären, meinem alten Bären"),
        (NOT_A, "lion", "kein alter Löwe, keinen alten Löwen, keinem alten Löwen"),
    ],
)
def test_noun_phrases_decline(determiner, noun, expected):
    assert _forms(determiner, noun) == expected


def test_strong_endings_without_article():
    assert _forms(MILK, "tea", "hot") == "heißer Tee, heißen Tee, heißem Tee"
    assert _forms(MILK, "milk", "hot") == "heiße Milch, heiße Milch, heißer Milch"
    assert _forms(MILK, "water", "hot") == "heißes Wasser, heißes Wasser, heißem Wasser"


@pytest.mark.parametrize(
    ("noun", "genitive"),
    [("child", "Kindes"), ("teacher", "Lehrers"), ("neighbour", "Nachbarn"), ("woman", "Frau")],
)
def test_genitives(noun, genitive):
    assert _NOUNS[noun].singular[3] == genitive


@pytest.mark.parametrize(
    ("adjective", "expected"),
    [("tired", "müder Mann"), ("expensive", "teurer Mann"), ("dark", "dunkler Mann")],
)
def test_adjective_stems(adjective, expected):
    assert inflected(_NOUNS["man"], A, _ADJECTIVES[adjective]).german[0] == f"ein {expected}"


def test_compounds_take_gender_and_plural_of_their_second_part():
    table = _NOUNS["kitchen table"]
    assert inflected(table, THE).german == ("der Küchentisch", "den Küchentisch", "dem Küchentisch")
    assert inflected(table, THE_PLURAL).german[2] == "den Küchentischen"


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (77, "seventy-seven", "siebenundsiebzig"),
    ],
)
def test_numbers_in_words(n, english, german):
    assert number(n) == (english, german)


@pytest.mark.parametrize(
    ("preposition", "noun", "expected"),
    [
        ("in", "dem Garten", "im Garten"),
        ("in", "das Haus", "ins Haus"),
        ("zu", "der Schule", "zur Schule"),
        ("von", "dem Hund", "vom Hund"),
        ("auf", "dem Tisch", "auf dem Tisch"),
        ("in", "einem Haus", "in einem Haus"),
    ],
)
def test_prepositions_contract_with_the_article(preposition, noun, expected):
    assert with_preposition(preposition, noun) == expected


def _words(tense, verb=("chase", "jagen"), thing="cat", negated=False, subject="dog"):
    return with_object(
        inflected(_NOUNS[subject], THE),
        _VERBS[verb],
        inflected(_NOUNS[thing], THE),
        tense,
        negated=negated,
        needs_nicht=negated,
    )


@pytest.mark.parametrize(
    ("tense", "english", "german"),
    [
        ("present", "the dog is chasing the cat", "der Hund jagt die Katze"),
        ("routine", "the dog chases the cat", "der Hund jagt die Katze"),
        ("past", "the dog chased the cat", "der Hund hat die Katze gejagt"),
        ("future", "the dog will chase the cat", "der Hund wird die Katze jagen"),
        ("can", "the dog can chase the cat", "der Hund kann die Katze jagen"),
        ("want", "the dog wants to chase the cat", "der Hund will die Katze jagen"),
        ("had", "the dog had to chase the cat", "der Hund musste die Katze jagen"),
    ],
)
def test_tenses(tense, english, german):
    assert statement(_words(tense)) == (english, german)


@pytest.mark.parametrize(
    ("verb", "thing", "tense", "english", "german"),
    [
        ("follow folgen", "bear", "past", "followed the bear", "ist dem Bären gefolgt"),
        ("wait_for warten", "girl", "present", "is waiting for the girl", "wartet auf das Mädchen"),
        ("turn_on anmachen", "lamp", "present", "is turning on the lamp", "macht die Lampe an"),
        ("turn_on anmachen", "lamp", "past", "turned on the lamp", "hat die Lampe angemacht"),
        ("listen_to zuhören", "boy", "present", "is listening to the boy", "hört dem Jungen zu"),
        (
            "run_after herlaufen",
            "cow",
            "past",
            "ran after the cow",
            "ist hinter der Kuh hergelaufen",
        ),
        ("know kennen", "student", "present", "knows the student", "kennt den Studenten"),
    ],
)
def test_verbs_take_their_objects(verb, thing, tense, english, german):
    base, infinitive = verb.split()
    words = _words(tense, (base.replace("_", " "), infinitive), thing, subject="man")
    assert statement(words) == (f"the man {english}", f"der Mann {german}")


def test_orders_of_words():
    past, present = (
        _words("past"),
        _words("present", ("turn on", "anmachen"), "lamp", subject="man"),
    )
    yesterday = ("yesterday", "gestern")
    assert statement(past, yesterday)[1] == "der Hund hat gestern die Katze gejagt"
    assert fronted(past, yesterday)[1] == "gestern hat der Hund die Katze gejagt"
    assert question(past) == ("did the dog chase the cat", "hat der Hund die Katze gejagt")
    assert question(present) == ("is the man turning on the lamp", "macht der Mann die Lampe an")
    assert subordinate(past, ("because", "weil"))[1] == "weil der Hund die Katze gejagt hat"
    assert subordinate(present, ("because", "weil"))[1] == "weil der Mann die Lampe anmacht"


def test_negation_stands_after_objects_and_before_prepositions():
    assert statement(_words("present", negated=True)) == (
        "the dog is not chasing the cat",
        "der Hund jagt die Katze nicht",
    )
    waiting = _words("past", ("wait for", "warten"), "girl", negated=True)
    assert statement(waiting)[1] == "der Hund hat nicht auf das Mädchen gewartet"
    assert statement(_words("can", negated=True))[0] == "the dog cannot chase the cat"


def test_object_pronouns_precede_noun_subjects_unless_sie():
    he, she = PRONOUNS[:2]
    call = _VERBS["call", "anrufen"]
    man = inflected(_NOUNS["man"], THE)
    today = ("today", "heute")
    german = [fronted(with_object(man, call, each, "present"), today)[1] for each in (he, she)]
    assert german == ["heute ruft ihn der Mann an", "heute ruft der Mann sie an"]


def test_forms_of_be():
    man = inflected(_NOUNS["man"], THE)
    assert statement(be_clause(man, "future", "tired", "müde")) == (
        "the man will be tired",
        "der Mann wird müde sein",
    )
    tired = be_clause(man, "past", "tired", "müde", negated=True)
    assert statement(tired) == ("the man was not tired", "der Mann war nicht müde")


# In a process of its own, because the run-time checks of shapes slow every call down tenfold.
_WRITE = """
import json
from t2t_jax.data.corpora.grammar import embedded_pairs

sizes = {"train": 20_000, "dev": 1_000, "test": 1_000, "long": 1_000}
print(json.dumps({split: list(embedded_pairs(split, size, 0)) for split, size in sizes.items()}))
"""


def _output_of(program: str) -> bytes:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def splits() -> dict[str, list[tuple[str, str]]]:
    written = json.loads(_output_of(_WRITE))
    return {split: [(english, german) for english, german in written[split]] for split in SPLITS}


def test_a_longer_request_begins_with_the_shorter(splits):
    for split in SPLITS:
        assert list(embedded_pairs(split, 50, 0)) == splits[split][:50]


def test_seeds_differ():
    assert list(embedded_pairs("train", 50, 0)) != list(embedded_pairs("train", 50, 1))


def test_splits_share_no_sentence_of_any_seed(splits):
    for side in (0, 1):
        train = {pair[side] for pair in splits["train"]}
        for split in ("dev", "test", "long"):
            assert not train & {pair[side] for pair in embedded_pairs(split, 50, 7)}
            assert not train & {pair[side] for pair in splits[split]}


def test_sentences_are_unique_and_german_is_a_function_of_english_and_back(splits):
    pairs = {pair for split in SPLITS for pair in splits[split]}
    num_pairs = sum(len(splits[split]) for split in SPLITS)
    assert len({english for english, _ in pairs}) == num_pairs
    assert len({german for _, german in pairs}) == num_pairs


def test_long_sentences_are_longer_than_any_other_on_both_sides(splits):
    for split in SPLITS:
        for pair in splits[split]:
            lengths = [len(sentence.split()) for sentence in pair]
            assert min(lengths) > MAX_WORDS if split == "long" else max(lengths) <= MAX_WORDS


def test_train_has_enough_words_and_ordinary_lengths(splits):
    for side in (0, 1):
        tokens = [word for pair in splits["train"] for word in pair[side].lower().split()]
        vocabulary = {token.strip(".,?") for token in tokens}
        assert 600 <= len(vocabulary) <= 1600
        assert 7.5 < len(tokens) / len(splits["train"]) < 9.5


def test_sentences_are_punctuated(splits):
    for split in SPLITS:
        for english, german in splits[split]:
            for sentence in (english, german):
                assert sentence[0].isupper() and sentence[-1] in ".?"
                assert "  " not in sentence and " ," not in sentence and " ." not in sentence
            assert english[-1] == german[-1]


_PATTERNS = [
    ("because_it", r".* because it was (too|so) \w+\.", r".*, weil (er|sie|es) .* war\."),
    ("flaw", r".* because it was too \w+\.", r".* nicht gekauft, weil (er|sie|es) zu \w+ war\."),
    ("contrast", r".* is \w+, but it is \w+\.", r".* ist \w+, aber (er|sie|es) ist \w+\."),
    ("comparison", r".*(er|more \w+) than .*", r".*er als (d|mein|unser|sein|ihr).*"),
    ("existence", r".*\b[Tt]here\b.*", r".*\b([Gg]ibt|[Gg]ab)\b.*"),
    ("passive", r".*\bby .*", r".*\b([Ww]ird|[Ww]erden|[Ww]urden?) .*\b(von|vom) .*(t|en)[.?]"),
    ("infinitive", r".* to \w+.*", r".*, .* (zu \w+|\w+zu\w+n)\."),
    ("that_clause", r".* (that|whether) .*", r".*, (dass|ob) .*[tneßdlfs]\."),
    ("subordinate_last", r".* (because|while|although|when) .*", r".*, (weil|wenn|wä|obw|als).*"),
    ("subordinate_first", r"(Because|While|Although|When) .*, .*", r"(We|Wä|Ob|Als).*, .*"),
    ("if_clause", r"If .*, .*", r"Wenn .*, (wird|werden|werde|muss|müssen|kann|können) .*"),
    ("relative_of_subject", r".* (who|that) .*", r".*, (\w+ )?d(er|ie|as|en|em|enen) .*, .*\."),
    ("relative_of_object", r".* (who|that) .*", r".*, (\w+ )?(der|die|das|den|dem|denen) .*\."),
    ("who_question", r"Who .*\?", r"(Wer|Wen|Wem|\w+ wen|\w+ wem|Mit wem) .*\?"),
    ("what_question", r"(What|Which|How many) .*\?", r"(Was|Welch(en|e|es)|Wie viele) .*\?"),
    ("adverb_question", r"(Why|When|Where) .*\?", r"(Warum|Wann|Wo) .*\?"),
    ("topic", r"This .* did not .*", r"Diese[sn]? .* (hat|haben) .* nicht .*\."),
    ("position", r".*", r".*\b(?i:ist|sind|war|waren|(steh|lieg)(t|en)|(stand|lag)(en)?)\b.*"),
    ("negation", r".*(not|cannot)\b.*", r".*\b(nicht|[Kk]ein(e|en|er|em)?)\b.*"),
    ("not_described", r".* not .*", r".* nicht .*"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "english_pattern", "german_pattern"), _PATTERNS)
def test_constructions_have_their_shape_in_both_languages(name, english_pattern, german_pattern):
    (construction,) = (each for each, _ in CONSTRUCTIONS if each.__name__ == name)
    draw = Random(0).random
    for _ in range(100):
        english, german = construction(draw)
        assert re.fullmatch(english_pattern, english), english
        assert re.fullmatch(german_pattern, german), german


def test_every_construction_is_in_the_corpus():
    drawn = {draw_construction(Random(n).random) for n in range(5_000)}
    assert drawn == {construction for construction, _ in CONSTRUCTIONS}


_SPEED = """
import time
from t2t_jax.data.corpora.grammar import embedded_pairs

def seconds():
    start = time.process_time()
    for _ in embedded_pairs("train", 5_000, 3):
        pass
    return time.process_time() - start

print(5_000 / min(seconds() for _ in range(3)))
"""


def test_writes_fast_enough():
    # An idle core makes 60,000 a second; half the promised 20,000 leaves room for slow machines.
    assert float(_output_of(_SPEED)) > 10_000


def test_unknown_split_kind_and_negative_counts_are_refused():
    with pytest.raises(ValueError, match="split='valid' is not one of train, dev, test, long"):
        embedded_pairs("valid", 1, 0)
    with pytest.raises(ValueError, match="num_pairs=-1"):
        embedded_pairs("train", -1, 0)
    with pytest.raises(ValueError, match="kind='gender' is not one of order, pronoun, sense"):
        probes("gender", 1, 0)
    with pytest.raises(ValueError, match="num_probes=501; there are at most 500 of each kind"):
        probes("sense", 501, 0)


@pytest.mark.parametrize("kind", ["order", "pronoun", "sense"])
def test_probes_are_minimal_pairs_kept_out_of_train(kind, splits):
    some = list(probes(kind, 15, 0))
    assert len({probe.source for probe in some}) == 15
    assert list(probes(kind, 5, 0)) == some[:5]
    train = {sentence for pair in splits["train"] for sentence in pair}
    for probe in some:
        german = probe.right if probe.target_language == "de" else probe.source
        assert probe.kind == kind and probe.right != probe.wrong
        assert split_of(german) == "test"
        assert not train & {probe.source, probe.right, probe.wrong}


def test_order_probes_have_wrong_targets_that_are_right_elsewhere():
    for probe in probes("order", 15, 0):
        assert split_of(probe.wrong) != "train"
        assert (probe.right[-1] == "?") != (probe.wrong[-1] == "?") or (
            len(probe.right.split()) == len(probe.wrong.split())
        )


def test_who_sees_no_order_gets_two_thirds_of_the_order_probes():
    """As notes below tables say: the source's mark at the end tells a question's translation."""
    told = by_chance = 0
    for probe in probes("order", MOST_PROBES, 0):
        marks = probe.right[-1], probe.wrong[-1]
        assert probe.source[-1] == probe.right[-1]
        told, by_chance = told + (marks[0] != marks[1]), by_chance + (marks[0] == marks[1])
    assert round(100 * (told + by_chance / 2) / MOST_PROBES) == 66


def test_pronoun_probes_differ_in_the_pronoun_only():
    pronouns = {it.german[0] for it in IT.values()}
    seen = set()
    for probe in probes("pronoun", 100, 0):
        right, wrong = probe.right.split(), probe.wrong.split()
        (differing,) = ((a, b) for a, b in zip(right, wrong, strict=True) if a != b)
        assert set(differing) <= pronouns
        seen.add(differing)
    assert len(seen) == 6


def test_sense_probes_have_both_meanings_and_a_verb_that_decides():
    some = list(probes("sense", MOST_PROBES, 0))
    right = {probe.right for probe in some}
    for nouns in (("bench", "bank"), ("castle", "lock"), ("pear", "bulb"), ("gate", "goal")):
        for noun in nouns:
            assert any(f" {noun}." in sentence for sentence in right), noun
    assert not right & {probe.wrong for probe in some}
