"""A key that a user sets has an effect, or is refused."""

import dataclasses
import shutil
from typing import get_args

import pytest
from ml_collections import ConfigDict

from configs import base, tiny
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.effect import (
    ALWAYS_READ,
    ASKED_BY_FALSE,
    NOT_READ_BY,
    READ_IF_ANY,
    READ_WHERE,
    check_effect,
    unmet,
)
from t2t_jax.runs.pretrained import check_read
from t2t_jax.runs.score import score
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.translate import translate_lines
from t2t_jax.runs.workdir import load_trained, read_config
from tests.model.configs import small
from tests.model.test_every_key import FIELDS, KINDS, NOT_IN_THE_LOGITS, computation, others

BASE = flat_dict(base.get_config().to_dict())
FAMILIES = (
    ("encoder_decoder", "none", "translation"),
    ("decoder_only", "none", "language_modelling"),
    ("encoder_only", "none", "masked_language_modelling"),
    ("encoder_only", "query", "classification"),
    ("recurrent", "none", "translation"),
)


def test_every_key_is_named_once():
    assert set(READ_WHERE).isdisjoint(ALWAYS_READ)
    assert READ_WHERE.keys() | ALWAYS_READ == BASE.keys()


@pytest.mark.parametrize("key", READ_WHERE)
def test_a_condition_names_keys_and_choices_that_there_are(key):
    fields = {f"model.{name}": kind for name, kind in FIELDS.items()}
    for condition in READ_WHERE[key] + READ_IF_ANY.get(key, ()):
        assert condition.other in BASE and condition.other != key
        choices = get_args(fields.get(condition.other))
        assert not choices or set(condition.values) <= set(choices)


def config_with(**changes):
    config = base.get_config()
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.parametrize("key", READ_WHERE)
def test_a_key_that_is_not_read_is_refused_and_one_that_is_read_is_not(key):
    for condition in READ_WHERE[key]:
        met, not_met = values_for(condition)
        with pytest.raises(ValueError, match=rf"--config\.{key} has no effect where") as refused:
            check_effect(
                "config", [key], [config_with(**{key: some(key), condition.other: not_met})]
            )
        assert f"{condition.other}=" in str(refused.value)
    all_met = {condition.other: values_for(condition)[0] for condition in READ_WHERE[key]}
    check_effect("config", [key], [config_with(**{key: some(key)} | all_met)])


@pytest.mark.parametrize("key", READ_IF_ANY)
def test_one_of_several_conditions_is_enough_and_all_are_named(key):
    none_met = {condition.other: values_for(condition)[1] for condition in READ_IF_ANY[key]}
    asked = config_with(**{key: some(key)} | none_met)
    with pytest.raises(ValueError, match=rf"--config\.{key} has no effect where") as refused:
        check_effect("config", [key], [asked])
    for condition in READ_IF_ANY[key]:
        assert str(condition) in str(refused.value)
        asked = config_with(
            **{key: some(key)} | none_met | {condition.other: values_for(condition)[0]}
        )
        check_effect("config", [key], [asked])


def test_false_asks_for_something_where_true_is_usual():
    usual = {key for key in READ_WHERE if key.startswith("model.") and BASE[key] is True}
    assert usual == ASKED_BY_FALSE
    config = config_with(**{"model.recurrent_attention": False})
    with pytest.raises(ValueError, match="--config.model.recurrent_attention has no effect where"):
        check_effect("config", ["model.recurrent_attention"], [config])


def test_explain_shows_the_penalty_of_greedy_search():
    config = config_with(**{"decoding.beam_size": 1, "decoding.length_penalty": 1.0})
    check_effect("config", ["decoding.length_penalty"], [config], "explain")
    with pytest.raises(ValueError, match=r"where decoding\.beam_size=1"):
        check_effect("config", ["decoding.length_penalty"], [config], "translate")


def some(key):
    """A value that asks for something."""
    value = BASE[key]
    return value or {bool: True, str: "some", int: 1, float: 0.5}[type(value)]


_ANOTHER = {str: "another", int: 7, float: 0.7}


def values_for(condition):
    """A value of the other key with which the condition holds, and one with which it does not."""
    inside = condition.values[0]
    outside = not inside if isinstance(inside, bool) else _ANOTHER[type(inside)]
    return (outside, inside) if condition.negated else (inside, outside)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "pooling", "task"), FAMILIES)
def test_what_is_said_of_a_model_is_so(family, pooling, task):
    kinds = {"family": family, "pooling": pooling}
    assert_told(set(FIELDS) - {*KINDS, *NOT_IN_THE_LOGITS}, task, **kinds)
    some_of = {key.removeprefix("model.") for key in READ_IF_ANY}
    assert_told(some_of, task, **kinds, norm="none")
    assert_told(some_of, task, **kinds, norm="none", embedding_norm=True)
    assert_told(some_of, task, **kinds, feed_forward=False)
    assert_told(some_of, task, **kinds, dropout_rate=0.0)


def assert_told(keys, task, **switches):
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = small(**{"dropout_rate": 0.1, **sizes, **switches})
    values = BASE | {f"model.{name}": value for name, value in dataclasses.asdict(config).items()}
    values["data.task"] = task
    for key in keys:
        has_effect = computation(changed(config, key)) != computation(config)
        assert has_effect == (not unmet(f"model.{key}", values)), key


def changed(config, key):
    if key == "tied_embeddings":  # without a source "decoder" is "all"
        return dataclasses.replace(config, tied_embeddings="none")
    return dataclasses.replace(config, **{key: others(key, config)[0]})


class Reads:
    """A section that tells when a key is read which is said not to be."""

    def __init__(self, name, section, not_read):
        self._of = name, section, not_read

    def __getattr__(self, key):
        name, section, not_read = self._of
        assert f"{name}.{key}" not in not_read, f"{name}.{key} is read"
        return getattr(section, key)


def reads_nothing_of(verb, workdir):
    """The sections of a run, which tell when a key is read that `verb` is said not to read."""
    sections = read_sections(read_config(workdir))
    not_read = NOT_READ_BY[verb]
    names = [
        name for name in ("data", "training", "evaluation") if verb != "score" or name != "data"
    ]
    told = {name: Reads(name, getattr(sections, name), not_read) for name in names}
    assert "seed" in not_read
    return sections._replace(seed=None, **told)


@pytest.mark.slow
def test_a_verb_reads_none_of_the_keys_that_it_is_said_not_to(trained, tmp_path):
    trained = shutil.copytree(trained, tmp_path / "w")  # in which it leaves scores
    model = load_trained(trained, reads_nothing_of("translate", trained))
    [found] = translate_lines(model, [["The dog sleeps."]])
    assert found
    assert score(trained, "test", reads_nothing_of("score", trained))["perplexity"] > 1
    with pytest.raises(AssertionError, match="training.steps is read"):
        _ = model.sections.training.steps


@pytest.mark.parametrize("verb", NOT_READ_BY)
def test_keys_that_a_verb_does_not_read_are_keys(verb):
    assert BASE.keys() >= NOT_READ_BY[verb]
    config = base.get_config()
    for key in NOT_READ_BY[verb] - READ_WHERE.keys() - {"seed"}:
        if BASE[key]:
            with pytest.raises(ValueError, match=f"--config.{key} has no effect on {verb}, which"):
                check_effect("config", [key], [config], verb)
        check_effect("config", [key], [config])
    for key in (
        "decoding.tokens_per_batch",
        "data.max_length",
        "devices.data",
        "training.keep_checkpoints",
    ):
        check_effect("config", [key], [config], verb)


@pytest.mark.parametrize("verb", ["generate", "classify"])
def test_a_model_of_another_library_searches_only_where_it_translates(verb):
    """Its config has no task, and no condition on the task can refuse the key."""
    config = ConfigDict({"data": {"max_length": 512}, "decoding": {"beam_size": 4, "n_best": 2}})
    for key in ("decoding.beam_size", "decoding.n_best"):
        with pytest.raises(ValueError, match=f"--config.{key} has no effect on {verb}, which"):
            check_effect("config", [key], [config], verb)
        check_effect("config", [key], [config], "translate")


def test_one_row_that_reads_a_key_is_enough():
    configs = [config_with(), config_with(**{"model.positions": "relative"})]
    check_effect("base", ["model.relative_buckets"], configs)
    with pytest.raises(ValueError, match="--base.model.relative_buckets has no effect where"):
        check_effect("base", ["model.relative_buckets"], configs[:1])


def test_what_asks_for_nothing_may_stand():
    config = tiny.get_config()
    check_effect("config", ["data.directory", "data.mixture", "training.weight_decay"], [config])


def test_a_config_of_an_earlier_version_is_not_asked_for_what_it_lacks():
    assert not unmet("model.max_positions", {"model.max_positions": 1_024})


def test_what_the_weights_of_init_come_with_cannot_be_set():
    check_read(["model.dropout_rate", "model.num_classes", "data.max_length", "training.steps"])
    of_the_weights = ("data.vocabulary_size", "data.character_coverage", "data.lowercase")
    for key in ("model.num_encoder_layers", *of_the_weights):
        with pytest.raises(ValueError, match=f"--config.{key} has no effect with --init, whose"):
            check_read(["training.steps", key])
