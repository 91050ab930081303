"""The embedded corpus for each task: pinned, since its fingerprint stands for it."""

import hashlib
import json

import pytest

from t2t_jax.data.corpora.corpus import (
    check_corpus,
    class_names,
    content_hashes,
    corpora_of,
    read_examples,
    read_pairs,
    split_names,
)
from t2t_jax.data.corpora.grammar import embedded_pairs
from tests.data.text_corpus import text_config


def embedded(tmp_path, **changes):
    return text_config(tmp_path, source="embedded", train_pairs=20, **changes)


@pytest.mark.parametrize(
    ("task", "digest"),
    [
        ("translation", "a8bb36f01cdb78ff"),
        ("language_modelling", "59b345adf84dbc5d"),
        ("masked_language_modelling", "f4097ee4d7581f61"),
        ("classification", "ceaf8c7bed6c370b"),
    ],
)
def test_it_gives_the_sentences_that_its_fingerprint_stands_for(tmp_path, task, digest):
    lines = []
    for source, target in (("en", "de"), ("de", "en")):
        config = embedded(tmp_path, task=task, source_language=source, target_language=target)
        for split in split_names(config):
            examples = list(read_examples(config, split))
            assert corpora_of(config, split)[""].num_examples(split) == len(examples)
            lines += [json.dumps([split, *example]) for example in examples]
    assert hashlib.sha256("".join(lines).encode()).hexdigest()[:16] == digest, (
        "prepared data would be taken for what it is not: change _THIS_FILE_SHA256 of "
        "embedded_corpus.py, then this digest"
    )


def test_it_has_four_splits_and_both_directions(tmp_path):
    forth = embedded(tmp_path, corpus_seed=3)
    back = embedded(tmp_path, corpus_seed=3, source_language="de", target_language="en")
    assert split_names(forth) == ("train", "dev", "test", "long")
    pairs = list(read_pairs(forth, "train"))
    assert pairs == list(embedded_pairs("train", 20, 3))
    assert [(english, german) for german, english in read_pairs(back, "train")] == pairs
    check_corpus(forth)
    assert {"grammar.py", "embedded_corpus.py"} <= content_hashes(forth).keys()


def test_it_has_statements_and_questions(tmp_path):
    config = embedded(tmp_path, task="classification")
    assert split_names(config) == ("train", "dev", "test")
    assert class_names(config) == ("statement", "question")
    examples = list(read_examples(config, "train"))
    assert [name for _, name in examples] == ["statement", "question"] * 20
    assert sorted(examples[0][0].split()) == sorted(examples[1][0].split())
    check_corpus(config)
    assert "word_order.py" in content_hashes(config)


@pytest.mark.parametrize(
    ("task", "side"), [("language_modelling", 1), ("masked_language_modelling", 0)]
)
def test_it_has_text_of_one_language(tmp_path, task, side):
    config = embedded(tmp_path, task=task)
    pairs = read_pairs(config, "train")
    assert list(read_examples(config, "train")) == [(pair[side],) for pair in pairs]
