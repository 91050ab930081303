"""Each stage and each word of a page in both languages."""

import re
from typing import get_args

import pytest

from t2t_jax.cli.explain import _FIGURES
from t2t_jax.explain.figures import FIGURES
from t2t_jax.explain.page import _file
from t2t_jax.explain.words import LANGUAGES, STAGES, labels
from t2t_jax.model.config import Positions


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_has_a_title_and_two_sentences_in_every_language(stage):
    for texts in (stage.title, stage.text):
        assert set(texts) == set(LANGUAGES) and all(texts.values())
    for language in LANGUAGES:
        sentences = re.findall(r"[.?!](?= |$)", stage.text[language])
        assert 2 <= len(sentences) <= 3, stage.text[language]
    assert stage.text["en"] != stage.text["de"]
    assert stage.equation


def test_every_word_is_there_in_every_language():
    english, german = map(labels, LANGUAGES)
    assert english.keys() == german.keys()
    assert all(english.values()) and all(german.values())
    alike = [name for name in english if english[name] == german[name]]
    # The field's words, which German texts use as they are.
    assert set(alike) <= {
        *("attention", "alibi", "cosine", "key", "query", "raw", "token", "position", "score"),
        *("pooling", "logit"),
    }


def test_every_word_that_the_script_asks_for_is_one():
    script = _file("stages.js") + _file("main.js") + _file("lines.js")
    asked = set(re.findall(r"\bwords\.(\w+)", script))
    assert asked and asked <= set(labels("en"))


def test_every_kind_of_positions_has_a_word():
    assert set(get_args(Positions)) <= set(labels("en"))


def test_every_stage_is_drawn_by_the_script():
    drawn = set(re.findall(r"^STAGES\.(\w+) = ", _file("stages.js"), re.MULTILINE))
    assert drawn == {stage.name for stage in STAGES}


def test_the_verb_knows_every_figure():
    assert set(_FIGURES) == set(FIGURES)
