"""Parallel sentences as they come out of text files, and what is said about bad ones."""

import gzip
import inspect
import itertools

import pytest

from t2t_jax.data.corpus import check_corpus, content_hashes, read_pairs, split_names
from tests.data.text_corpus import text_config, write_corpus


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
        (b"", b"x\n", "{d}/train.en is empty: one sentence a line is expected"),
        (b"x\n", b"", "{d}/train.de is empty: one sentence a line is expected"),
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
