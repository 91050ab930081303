"""One interface to three kinds of corpora, for every task."""

import itertools
import pickle
from pathlib import Path

import pytest

from t2t_jax.data.corpora.corpus import (
    check_corpus,
    class_names,
    content_hashes,
    corpora_of,
    drop_reason,
    make_ready,
    read_examples,
    read_pairs,
    split_names,
)
from tests.data.text_corpus import (
    labelled_sentences,
    sentence_pairs,
    text_config,
    write_labelled,
)
from tests.data.tfds_corpus import WMT14, write_tfds


def num_examples(config, split):
    return sum(corpus.num_examples(split) for corpus in corpora_of(config, split).values())


def test_an_unknown_split_is_told_at_once(directory):
    with pytest.raises(ValueError, match="split 'long' does not exist: .* train, dev, test"):
        read_pairs(text_config(directory), "long")


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (("a", "b"), None),
        (("a",), None),
        (("a\tb\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029", "ö\u200d\ufeff\ufffd\u2581x"), None),
        (("", "b"), "blank"),
        (("a", " \t\u2028\x85\u3000"), "blank"),
        # Which SentencePiece takes for a space.
        (("a", "\u2581 \u2581"), "blank"),
        (("a", "b\0"), "control characters"),
        (("\x1b[1ma", "b"), "control characters"),
        *((("a", f"b{chr(code)}"), "control characters") for code in (1, 8, 14, 27, 127, 128, 159)),
        (("\0", ""), "control characters"),
        (("", "\0"), "blank"),
    ],
)
def test_examples_are_dropped_for_a_blank_side_or_control_characters(example, reason):
    assert drop_reason(example) == reason


def test_content_hashes_change_with_the_content_alone(directory):
    config = text_config(directory)
    before = content_hashes(config)
    assert sorted(before) == ["dev.de", "dev.en", "test.de", "test.en", "train.de", "train.en"]
    (directory / "dev.en").touch()
    assert content_hashes(config) == before
    with (directory / "dev.en").open("ab") as stream:
        stream.write(b" ")
    after = content_hashes(config)
    assert [name for name in before if before[name] != after[name]] == ["dev.en"]


@pytest.fixture
def labelled(tmp_path):
    for stem in ("train", "dev", "test"):
        write_labelled(tmp_path, stem, labelled_sentences(12))
    return tmp_path


def test_a_task_of_one_language_needs_and_hashes_no_other_file(directory):
    pairs = list(read_pairs(text_config(directory), "dev"))
    for task, side, kept in (
        ("language_modelling", 1, "de"),
        ("masked_language_modelling", 0, "en"),
    ):
        config = text_config(directory, task=task)
        assert list(read_examples(config, "dev")) == [(pair[side],) for pair in pairs]
        assert sorted(content_hashes(config)) == [f"{s}.{kept}" for s in ("dev", "test", "train")]
    for stem in ("train", "dev", "test"):
        (directory / f"{stem}.de").unlink()
    check_corpus(text_config(directory, task="masked_language_modelling"))
    with pytest.raises(ValueError, match=r"neither train\.de nor"):
        check_corpus(text_config(directory, task="language_modelling"))


def test_classes_are_those_of_train_in_alphabetical_order(labelled):
    config = text_config(labelled, task="classification")
    assert class_names(config) == ("four", "one", "three", "two")
    assert list(read_examples(config, "dev")) == labelled_sentences(12)
    assert class_names(text_config(labelled)) == ()
    check_corpus(config)


@pytest.mark.parametrize(
    ("stem", "labels", "message"),
    [
        ("train", ["a", "b"], "train.en has 12 lines, {d}/train.labels has 2: line 3 of train.en"),
        ("dev", ["one"] * 13, "{d}/dev.labels has 13: line 13 of dev.labels has no partner"),
        (
            "train",
            ["a", " ", *"b" * 10],
            "train.labels, line 2: blank, where each line must be a class",
        ),
        (
            "train",
            ["a"] * 11 + ["a "],
            "train.labels, line 12: class 'a ' begins or ends with white",
        ),
        ("train", ["a"] * 11 + ["\x7f"], "train.labels, line 12: control characters, where each"),
        (
            "train",
            ["a"] * 12,
            "train.labels, line 1: 'a' is the only class of train: at least 2 must occur",
        ),
        (
            "test",
            ["one", "six", *["one"] * 10],
            "test.labels, line 2: 'six' is no class of train, which has four, one, three, two",
        ),
    ],
)
def test_bad_labels_are_told_with_their_file(labelled, stem, labels, message):
    (labelled / f"{stem}.labels").write_text("".join(f"{label}\n" for label in labels))
    with pytest.raises(ValueError) as error:
        check_corpus(text_config(labelled, task="classification"))
    assert message.format(d=labelled) in str(error.value)


def test_missing_labels_are_told(labelled):
    (labelled / "dev.labels").unlink()
    with pytest.raises(ValueError, match=r"neither dev\.labels nor dev\.labels\.gz is there"):
        check_corpus(text_config(labelled, task="classification"))


@pytest.fixture(scope="module")
def tfds_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    pairs = sentence_pairs(60)
    write_tfds(directory, {"train": pairs[:25], "validation": pairs[25:30], "test": pairs[30:35]})
    write_tfds(directory, {"train": pairs[40:]}, "wmt16_translate/de-en")
    return directory


def tfds_config(directory: Path, **changes):
    names = {"source": "tfds", "name": WMT14, "dev": "validation", "test": "test[:80%]"}
    return text_config(directory, **names | changes)


def test_tfds_is_read_like_text_files(tfds_directory):
    config, pairs = tfds_config(tfds_directory), sentence_pairs(60)
    make_ready(config, lambda line: pytest.fail(line))  # it is there
    check_corpus(config)
    assert split_names(config) == ("train", "dev", "test")
    assert list(read_examples(config, "train")) == pairs[:25]
    assert list(read_pairs(config, "dev")) == pairs[25:30]
    assert list(read_examples(config, "test")) == pairs[30:34]
    assert [num_examples(config, split) for split in split_names(config)] == [25, 5, 4]
    german = tfds_config(tfds_directory, task="language_modelling")
    assert list(read_examples(german, "test")) == [(pair[1],) for pair in pairs[30:34]]
    assert class_names(config) == ()


def test_tfds_is_mixed_by_name(tfds_directory):
    mixture = f"{WMT14}=1,wmt16_translate/de-en=3"
    config, pairs = tfds_config(tfds_directory, mixture=mixture), sentence_pairs(60)
    check_corpus(config)
    assert list(read_examples(config, "train")) == pairs[:25] + pairs[40:]
    assert list(read_examples(config, "dev")) == pairs[25:30]
    assert num_examples(config, "train") == 45
    chunks_of = [corpus.read_chunks("train", 10) for corpus in corpora_of(config, "train").values()]
    assert [[len(c.decode()) for c in chunks] for chunks in chunks_of] == [[10, 10, 5], [10, 10]]
    hashes = content_hashes(config)
    assert {name.partition(":")[0] for name in hashes} == {
        *("corpus 1/train", "corpus 2/train", "dev", "test")
    }
    swapped = tfds_config(tfds_directory, mixture=",".join(reversed(mixture.split(","))))
    assert content_hashes(swapped) != hashes


def test_mistakes_about_tfds_are_told(tfds_directory):
    with pytest.raises(ValueError, match="has no split 'dev'"):
        check_corpus(tfds_config(tfds_directory, dev="dev"))
    unknown = tfds_config(tfds_directory, mixture="wmt17_translate/de-en=1")
    with pytest.raises(ValueError, match="'wmt17_translate/de-en'"):
        check_corpus(unknown)


@pytest.mark.parametrize("source", ["embedded", "text", "tfds"])
def test_chunks_are_pickled_and_decoded_into_the_same_examples(directory, tfds_directory, source):
    configs = {
        "embedded": text_config(directory, source="embedded", train_pairs=25),
        "text": text_config(directory),
        "tfds": tfds_config(tfds_directory),
    }
    config = configs[source]
    whole = list(read_examples(config, "train"))
    for size in (1, 7, 25, 10_000):
        chunks = corpora_of(config, "train")[""].read_chunks("train", size)
        decoded = [pickle.loads(pickle.dumps(chunk)).decode() for chunk in chunks]
        assert list(itertools.chain(*decoded)) == whole
        assert {len(examples) for examples in decoded[:-1]} <= {size}
