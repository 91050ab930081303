"""Parallel sentences as they come out of text files, and what is said about bad ones."""

import gzip
import inspect
import itertools

import pytest

from t2t_jax.data.corpus import (
    check_corpus,
    class_names,
    content_hashes,
    read_examples,
    read_pairs,
    split_names,
)
from tests.data.text_corpus import labelled_sentences, text_config, write_corpus, write_labelled


@pytest.fixture
def directory(tmp_path):
    write_corpus(tmp_path)
    return tmp_path


def write_train(directory, english: bytes, german: bytes) -> None:
    (directory / "train.en").write_bytes(english)
    (directory / "train.de").write_bytes(german)


def test_pairs_come_in_order_with_blank_ones(directory):
    write_train(directory, b"one\n\nthree\n", "eins\nzwei\ndreißig\n".encode())
    pairs = list(read_pairs(text_config(directory), "train"))
    assert pairs == [("one", "eins"), ("", "zwei"), ("three", "dreißig")]


def test_the_direction_follows_the_languages(directory):
    config = text_config(directory, source_language="de", target_language="en")
    swapped = [(english, german) for german, english in read_pairs(config, "train")]
    assert swapped == list(read_pairs(text_config(directory), "train"))


def test_only_a_line_feed_ends_a_line(directory):
    inside = "a\u2028b\x0bc\x0cd\x85e\rf\u2029g"
    write_train(directory, f"{inside}\nsecond\n".encode(), b"x\ny\n")
    assert list(read_pairs(text_config(directory), "train")) == [(inside, "x"), ("second", "y")]


def test_byte_order_mark_and_carriage_returns_are_taken_off(directory):
    write_train(directory, b"\xef\xbb\xbfone\r\ntwo\r\n", b"eins\nzwei")
    pairs = list(read_pairs(text_config(directory), "train"))
    assert pairs == [("one", "eins"), ("two", "zwei")]


def test_gzip_files_read_like_plain_ones(directory):
    plain = list(read_pairs(text_config(directory), "train"))
    for language in ("en", "de"):
        file = directory / f"train.{language}"
        (directory / f"train.{language}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert list(read_pairs(text_config(directory), "train")) == plain


def test_reading_begins_before_the_end_of_the_file_is_known(directory):
    write_train(directory, b"one\n" * 100_000 + b"\xff\n", b"eins\n" * 100_001)
    pairs = read_pairs(text_config(directory), "train")
    assert list(itertools.islice(pairs, 2)) == [("one", "eins")] * 2


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        (b"a\nb\nc\n", b"x\ny\n", "3 lines, {d}/train.de has 2: line 3 of train.en has no partner"),
        (b"a\n", b"x\ny\n\n", "{d}/train.en has 1 lines, {d}/train.de has 3: line 2 of train.de"),
        (b"a\nb\xff\n", b"x\ny\n", "{d}/train.en, line 2: not UTF-8 (byte 0xff at position 1)"),
        (b"a\nb\n", b"x\n\xc3", "{d}/train.de, line 2: not UTF-8 (byte 0xc3 at position 0)"),
        (b"", b"x\n", "{d}/train.en is empty: one line for each example is expected"),
        (b"x\n", b"", "{d}/train.de is empty: one line for each example is expected"),
    ],
)
def test_a_bad_file_is_told_with_its_name_and_line(directory, english, german, message):
    write_train(directory, english, german)
    with pytest.raises(ValueError) as error:
        check_corpus(text_config(directory))
    assert message.format(d=directory) in str(error.value)


def test_every_split_is_checked(directory):
    (directory / "test.de").write_bytes(b"\xff\n" * 20)
    with pytest.raises(ValueError, match=r"test.de, line 1: not UTF-8"):
        check_corpus(text_config(directory))


def test_a_missing_file_is_told_with_the_names_looked_for(directory):
    (directory / "dev.de").unlink()
    with pytest.raises(ValueError, match=r"neither dev\.de nor dev\.de\.gz is there"):
        check_corpus(text_config(directory))


def test_a_missing_directory_is_told(directory):
    with pytest.raises(ValueError, match="does not exist or is no directory"):
        check_corpus(text_config(directory / "nowhere"))


@pytest.mark.parametrize("keep", [15, -4])
def test_a_damaged_gzip_file_is_told(directory, keep):
    packed = gzip.compress((directory / "train.en").read_bytes())
    (directory / "train.en").unlink()
    (directory / "train.en.gz").write_bytes(packed[:keep])
    with pytest.raises(ValueError, match=r"train.en.gz, after line .*damaged gzip file"):
        check_corpus(text_config(directory))


def test_no_gzip_file_under_that_name_is_told(directory):
    (directory / "train.en").rename(directory / "train.en.gz")
    with pytest.raises(ValueError, match=r"train.en.gz, after line 0: damaged gzip file"):
        check_corpus(text_config(directory))


def test_an_unknown_split_is_told_at_once(directory):
    with pytest.raises(ValueError, match="split 'long' does not exist: .* train, dev, test"):
        read_pairs(text_config(directory), "long")


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


def test_the_embedded_corpus_has_four_splits_and_both_directions(tmp_path):
    grammar = pytest.importorskip("t2t_jax.data.grammar", reason="the grammar is not written yet")
    forth = text_config(tmp_path, source="embedded", train_pairs=50, corpus_seed=3)
    back = text_config(
        tmp_path,
        source="embedded",
        train_pairs=50,
        corpus_seed=3,
        source_language="de",
        target_language="en",
    )
    assert split_names(forth) == ("train", "dev", "test", "long")
    pairs = list(read_pairs(forth, "train"))
    assert pairs == list(grammar.embedded_pairs("train", 50, 3))
    assert [(english, german) for german, english in read_pairs(back, "train")] == pairs
    assert sum(1 for _ in read_pairs(forth, "long")) == 1_000
    check_corpus(forth)
    assert inspect.getsourcefile(grammar).rsplit("/", 1)[-1] in content_hashes(forth)


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
            "train.labels, line 2 is blank: each line must be a class",
        ),
        ("train", ["a"] * 12, "train.labels has the class 'a' alone: at least 2 must occur"),
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


def test_the_embedded_corpus_has_statements_and_questions(tmp_path):
    config = text_config(tmp_path, source="embedded", train_pairs=3, task="classification")
    assert split_names(config) == ("train", "dev", "test")
    assert class_names(config) == ("statement", "question")
    examples = list(read_examples(config, "train"))
    assert [name for _, name in examples] == ["statement", "question"] * 3
    assert sorted(examples[0][0].split()) == sorted(examples[1][0].split())
    assert "word_order.py" in content_hashes(config)


@pytest.mark.parametrize(
    ("task", "side"), [("language_modelling", 1), ("masked_language_modelling", 0)]
)
def test_the_embedded_corpus_has_text_of_one_language(tmp_path, task, side):
    config = text_config(tmp_path, source="embedded", train_pairs=5, task=task)
    pairs = read_pairs(config, "train")
    assert list(read_examples(config, "train")) == [(pair[side],) for pair in pairs]
