"""The output of `generate` and `classify`, and which model each is for."""

import functools
import io
import json
from typing import Any

import jax
import pytest

from configs import classifier, language_model
from t2t_jax.cli import chosen_model
from t2t_jax.cli.token_table import print_texts
from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.devices import make_devices
from t2t_jax.model.classifier import Classifier
from t2t_jax.model.families import make_model
from t2t_jax.model.interface import TranslationModel
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.runs.classify import classify
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.generate import generate, generate_lines
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.translate import translate
from t2t_jax.runs.workdir import Trained
from tests.cli.command import command
from tests.model.configs import random_variables, small
from tests.runs.configs import OVERRIDES

WORDS = ["the dog sees a cat", "a bed in the sea", "tea"]


SIZES = {"model.vocabulary_rows": 24, "data.vocabulary_size": 24}


@functools.cache
def _trained(module=language_model):
    """A model that has learned nothing, as if it were loaded from a directory."""
    config = module.get_config()
    config.update_from_flattened_dict(OVERRIDES | SIZES)
    sections = read_sections(config)
    model = make_model(sections.model)
    vocabulary = learn_vocabulary(WORDS, "char", 24, 1.0)
    params = jax.tree.map(lambda leaf: 2 * leaf, random_variables(model)["params"])
    classes = ("statement", "question") if module is classifier else ()
    return Trained(sections, vocabulary, model, params, make_devices(1), 0, classes)


@functools.cache
def _generated(temperature=0.0, num_samples=1):
    return generate(
        _trained(),
        ["tea"],
        max_new_tokens=4,
        sampling=Sampling(temperature=temperature),
        num_samples=num_samples,
        top_n=2,
    )


HOT = {"temperature": 30.0, "num_samples": 2}


class _Output(io.TextIOWrapper):
    def __init__(self, is_terminal=False):
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


def _printed(generations, as_json=False, is_terminal=False):
    output = _Output(is_terminal)
    print_texts(output, [("tea", *generations)], as_json=as_json)
    output.flush()
    return output.buffer.getvalue().decode("utf-8")


@pytest.mark.parametrize("options", [{}, HOT])
def test_the_table_has_the_numbers_of_every_token(options):
    generations = [_generated(**options)[0][:1]]
    tokens = generations[0][0].tokens
    heading, blank, header, *rows = _printed(generations).split("\n")
    assert (heading, blank) == ("tea", "")
    assert header.split() == ["token", "logit", "probability"]
    expected = []
    for number, token in enumerate(tokens, start=1):
        others = [] if token.chosen in token.best else [token.chosen]
        for rank, candidate in enumerate(token.best + others):
            cells = [str(number)] * (rank == 0) + [">"] * (candidate == token.chosen)
            percent = f"{100 * candidate.probability:.2f}"
            percent = ["<", "0.01"] if percent == "0.00" else [percent]
            expected.append([*cells, candidate.piece, f"{candidate.logit:.2f}", *percent, "%"])
    assert [row.split() for row in rows[: len(expected)]] == expected
    assert len({len(row) for row in rows[: len(expected)]}) == 1  # aligned
    assert (options == {}) == (len(expected) == 2 * len(tokens))


def test_the_finished_text_comes_last_and_says_if_it_was_cut():
    ((generation,),) = generations = _generated()
    rows = _printed(generations).rstrip("\n").split("\n")
    assert not generation.has_ended
    assert rows[-2:] == [generation.text, "(not at its end: max_new_tokens=4)"]


def test_without_best_tokens_there_is_a_text_a_line():
    texts = [generation.text for generation in _generated(**HOT)[0]]
    short = [
        generation._replace(tokens=[token._replace(best=[]) for token in generation.tokens])
        for generation in _generated(**HOT)[0]
    ]
    assert texts[0] != texts[1]
    assert _printed([short]) == "".join(f"{text}\n" for text in texts)


def test_samples_are_told_apart():
    printed = _printed(_generated(**HOT))
    assert printed.startswith("tea  (sample 1)\n") and "\n\ntea  (sample 2)\n" in printed


def test_each_prompt_is_gone_on_from_in_their_order(monkeypatch, tmp_path):
    monkeypatch.setattr(chosen_model, "model_of_flags", lambda: _trained(language_model))
    options = ("--model=hf:nowhere", "--json", "--max_new_tokens=1")
    done = command("generate", "--prompt=tea", *options, "--prompt=so")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["prompt"] for each in found] == ["tea", "so"], done.stderr


def test_json_has_everything_in_one_line():
    generations = _generated()
    (line,) = _printed(generations, as_json=True).splitlines()
    values, generation = json.loads(line), generations[0][0]
    assert (values["prompt"], values["sample"], values["text"]) == ("tea", 1, generation.text)
    assert values["has_ended"] is False
    for token, expected in zip(values["tokens"], generation.tokens, strict=True):
        assert [one["logit"] for one in token["best"]] == [one.logit for one in expected.best]
        del token["best"]
        assert token == expected.chosen._asdict()


def test_a_terminal_gets_bars_and_a_file_does_not():
    assert "█" in _printed(_generated(), is_terminal=True)
    assert "█" not in _printed(_generated()) and "\x1b" not in _printed(_generated())


def test_pieces_that_cannot_be_printed_are_written_out():
    generation = _generated()[0][0]
    token = generation.tokens[0]
    strange = token._replace(chosen=token.chosen._replace(id=999, piece="\n\x1b[31m"))
    printed = _printed([[generation._replace(tokens=[strange])]])
    assert r"\n\x1b[31m" in printed and "\x1b" not in printed


def test_classes_are_given_for_every_line():
    found = classify(_trained(classifier), ["tea", "", "the dog sees a cat"])
    assert [one and one.name in ("statement", "question") for one in found] == [True, None, True]


@pytest.mark.parametrize(
    ("verb", "module", "sentence"),
    [
        (classify, language_model, "is a language model .*: use t2t-jax generate"),
        (translate, language_model, "is a language model .*: use t2t-jax generate"),
        (translate, classifier, "is a classifier .*: use t2t-jax classify"),
    ],
)
def test_the_wrong_verb_names_the_right_one(verb, module, sentence):
    with pytest.raises(ValueError, match=sentence):
        verb(_trained(module), ["tea"])


@pytest.mark.parametrize(
    ("changes", "verb"),
    [
        ({}, "translate"),
        ({"family": "recurrent"}, "translate"),
        ({"family": "decoder_only"}, "generate"),
        ({"family": "encoder_only", "pooling": "mean"}, "classify"),
        ({"family": "encoder_only", "pooling": "none"}, "score"),
    ],
)
def test_each_model_has_one_verb(changes, verb):
    model = make_model(small(**changes))
    users = {"translate": TranslationModel, "generate": LanguageModel, "classify": Classifier}
    assert {name for name, kind in users.items() if isinstance(model, kind)} == {verb} - {"score"}
    for other in users.keys() - {verb}:
        with pytest.raises(ValueError, match=f"not one to {other} with: .*t2t-jax {verb}"):
            raise wrong_verb(model, other)


@pytest.mark.parametrize("verb", ["generate", "classify"])
def test_help_explains_a_verb_that_needs_a_directory(verb):
    done = command(verb, "--help")
    assert f"t2t-jax {verb} --workdir=W" in done.stdout, done.stderr


def test_windows_are_continued_as_all_lines_at_once():
    lines = [*WORDS, "tea"]
    options: Any = dict(max_new_tokens=4, sampling=Sampling(temperature=30.0))

    def ids(texts):
        return [token.chosen.id for token in texts[0].tokens]

    found = [ids(its) for _, its in generate_lines(_trained(), [lines[:2], lines[2:]], **options)]
    assert found == [ids(its) for its in generate(_trained(), lines, **options)]
    assert found[2] != found[3]  # of the same prompt
