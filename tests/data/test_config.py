"""The section `config.data`: what is refused, and the messages."""

import dataclasses

import pytest

from configs import tiny
from t2t_jax.data.config import DataConfig

EMBEDDED = tiny.get_config().data.to_dict()

TEXT = {"source": "text", "directory": "d"}


def test_a_complete_config_is_accepted_and_frozen():
    config = DataConfig(**EMBEDDED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_length = 3  # pyright: ignore


@pytest.mark.parametrize(
    ("task", "direction"),
    [
        ("translation", "en-de"),
        ("language_modelling", "de"),
        ("masked_language_modelling", "en"),
        ("classification", "en"),
    ],
)
def test_the_direction_names_the_languages_that_the_task_reads(task, direction):
    assert DataConfig(**EMBEDDED | {"task": task}).direction == direction


def test_an_int_for_a_float_is_cast():
    coverage = DataConfig(**EMBEDDED | {"character_coverage": 1}).character_coverage
    assert isinstance(coverage, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "hub"}, "source='hub' is not one of 'embedded', 'text', 'tfds'"),
        ({"vocabulary_kind": "BPE"}, "vocabulary_kind='BPE' is not one of 'bpe', 'unigram'"),
        ({"vocabulary_size": "8000"}, "vocabulary_size='8000' is of type str, it must be int"),
        ({"num_buckets": True}, "num_buckets=True is of type bool, it must be int"),
        ({"character_coverage": "1"}, "character_coverage='1' is of type str, it must be float"),
        ({"directory": None}, "directory=None is of type NoneType, it must be str"),
        ({"directory": "f\udcfcr"}, "directory='f\\udcfcr' is not valid UTF-8"),
        ({"vocabulary_size": 4}, "vocabulary_size=4 must be at least 5"),
        (
            {"task": "masked_language_modelling", "vocabulary_size": 5},
            "vocabulary_size=5 must be at least 6",
        ),
        (
            {"task": "masked_language_modelling", "mask_rate": 0.0},
            "mask_rate=0.0: task='masked_language_modelling' needs above 0",
        ),
        ({"task": "parsing"}, "task='parsing' is not one of 'translation', 'language_modelling'"),
        ({"mask_rate": 1.0}, "mask_rate=1.0 must be in [0, 1)"),
        ({"max_length": 1}, "max_length=1 must be at least 2"),
        ({"train_pairs": 0}, "train_pairs=0 must be at least 1"),
        ({"corpus_seed": -1}, "corpus_seed=-1 must be at least 0"),
        ({"num_buckets": 0}, "num_buckets=0 must be at least 1"),
        ({"length_multiple": 0}, "length_multiple=0 must be at least 1"),
        ({"source_tokens_per_batch": 0}, "source_tokens_per_batch=0 must be at least 1"),
        ({"target_tokens_per_batch": -5}, "target_tokens_per_batch=-5 must be at least 1"),
        ({"character_coverage": 0.5}, "character_coverage=0.5 must lie between 0.98 and 1.0"),
        ({"character_coverage": float("nan")}, "character_coverage=nan must lie between"),
        ({"source_language": "fr"}, "source_language='fr': the embedded corpus has only"),
        ({"source_language": "de"}, "are both 'de': they must differ"),
        ({"source_language": "a/b"}, "source_language='a/b' is not a language code"),
        ({"cache": ""}, "cache='' is empty"),
        ({"source": "text"}, "directory='' is empty: source='text' needs the directory"),
        ({"source": "text", "directory": "d", "dev": ""}, "dev='' is empty"),
        ({"source": "tfds"}, "name='' is empty: source='tfds' needs a dataset such as"),
        ({"source": "tfds", "name": "a/b", "test": ""}, "test='' is empty"),
        (
            {"source": "tfds", "name": "a/b", "task": "classification"},
            "source='tfds' does not go with data.task='classification'",
        ),
        (
            {"batching": "packed", "task": "classification"},
            "batching='packed' does not go with data.task='classification'",
        ),
        ({"batching": "sorted"}, "batching='sorted' is not one of 'bucketed', 'packed'"),
        ({"packed_length": 0}, "packed_length=0 must be at least 1"),
        ({"vocabulary_sentences": 0}, "vocabulary_sentences=0 must be at least 1"),
        ({"mixture": "a=1"}, "mixture='a=1' must be '' where data.source='embedded'"),
        (TEXT | {"mixture": "a=1,b"}, "mixture: 'b' is no corpus with a whole number of times"),
        (TEXT | {"mixture": "a=1,"}, "mixture: '' is no corpus with a whole number of times"),
        (TEXT | {"mixture": "a=0"}, "mixture: 'a=0' is no corpus with a whole number of times"),
        (TEXT | {"mixture": "a=1.5"}, "mixture: 'a=1.5' is no corpus with a whole number of"),
        (TEXT | {"mixture": "a=1,b=1,a=2"}, "mixture names 'a' twice"),
        (TEXT | {"mixture": "=1"}, "mixture: '=1' is no corpus with a whole number of times"),
    ],
)
def test_a_mistake_is_told_with_name_value_and_what_is_allowed(changes, message):
    with pytest.raises((TypeError, ValueError)) as error:
        DataConfig(**EMBEDDED | changes)
    assert message in str(error.value)
    assert str(error.value).startswith("data.")
    assert "\n" not in str(error.value)


def test_the_language_that_a_task_does_not_read_may_be_any():
    changes = {"task": "classification", "source_language": "de", "target_language": "de"}
    assert DataConfig(**EMBEDDED | changes).source_language == "de"


@pytest.mark.parametrize(
    ("mixture", "corpora"),
    [
        ("", ()),
        ("a=1", (("a", 1),)),
        ("a/b.c=1, ~/news=12", (("a/b.c", 1), ("~/news", 12))),
        ("x=y=2", (("x=y", 2),)),
    ],
)
def test_a_mixture_names_corpora_and_how_often_each_is_read(mixture, corpora):
    assert DataConfig(**EMBEDDED | TEXT | {"mixture": mixture}).corpora == corpora
