"""Parallel lines read from text files, and the errors for bad ones."""

import gzip
import itertools
import os
from pathlib import Path

import pytest

from t2t_jax.data.corpora.corpus import check_corpus, content_hashes, read_examples
from tests.data.text_corpus import (
    sentence_pairs,
    text_config,
)


def write_train(directory, english: bytes, german: bytes) -> None:
    (directory / "train.en").write_bytes(english)
    (directory / "train.de").write_bytes(german)


def test_pairs_come_in_order_with_blank_ones(directory):
    write_train(directory, b"one\n\nthree\n", "eins\nzwei\ndreißig\n".encode())
    pairs = list(read_examples(text_config(directory), "train"))
    assert pairs == [("one", "eins"), ("", "zwei"), ("three", "dreißig")]


def test_the_direction_follows_the_languages(directory):
    config = text_config(directory, source_language="de", target_language="en")
    swapped = [(english, german) for german, english in read_examples(config, "train")]
    assert swapped == list(read_examples(text_config(directory), "train"))


def test_only_a_line_feed_ends_a_line(directory):
    inside = "a\u2028b\x0bc\x0cd\x85e\rf\u2029g"
    write_train(directory, f"{inside}\nsecond\n".encode(), b"x\ny\n")
    assert list(read_examples(text_config(directory), "train")) == [(inside, "x"), ("second", "y")]


def test_byte_order_mark_and_carriage_returns_are_taken_off(directory):
    write_train(directory, b"\xef\xbb\xbfone\r\ntwo\r\n", b"eins\nzwei")
    pairs = list(read_examples(text_config(directory), "train"))
    assert pairs == [("one", "eins"), ("two", "zwei")]


def test_gzip_files_read_like_plain_ones(directory):
    plain = list(read_examples(text_config(directory), "train"))
    for language in ("en", "de"):
        file = directory / f"train.{language}"
        (directory / f"train.{language}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert list(read_examples(text_config(directory), "train")) == plain


def test_reading_begins_before_the_end_of_the_file_is_known(directory):
    write_train(directory, b"one\n" * 100_000 + b"\xff\n", b"eins\n" * 100_001)
    pairs = read_examples(text_config(directory), "train")
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
        (b"\xef\xbb\xbf", b"x\n", "{d}/train.en is empty: one line for each example is expected"),
        # CESU-8's surrogates, Java's two bytes for a NUL, Latin-1 and UTF-16 with its mark.
        (b"a\n\xed\xa0\x80\n", b"x\ny\n", "{d}/train.en, line 2: not UTF-8 (byte 0xed at"),
        (b"a\nbc\xc0\x80\n", b"x\ny\n", "line 2: not UTF-8 (byte 0xc0 at position 2), as text"),
        (b"a\n", "Straße\n".encode("latin-1"), "{d}/train.de, line 1: not UTF-8 (byte 0xdf at"),
        ("a\n".encode("utf-16"), b"x\n", "{d}/train.en, line 1: not UTF-8 (byte 0xff at position"),
        ("a\nb".encode("utf-16le"), b"x\ny", "{d}/train.en has a NUL in every line, as UTF-16"),
        (b"\xff\n" * 9, b"x\n\xff\n", "{d}/train.en, line 1: not UTF-8"),
    ],
)
def test_a_bad_file_is_told_with_its_name_and_line(directory, english, german, message):
    write_train(directory, english, german)
    with pytest.raises(ValueError) as error:
        check_corpus(text_config(directory))
    assert message.format(d=directory) in str(error.value)


def test_a_mistake_far_into_large_files_is_told_with_its_line(directory):
    write_train(directory, b"ein\n" * 300_000 + b"\xe4\n", b"\n" * 300_001)
    with pytest.raises(ValueError, match=r"train.en, line 300,001: not UTF-8 .* at position 0"):
        check_corpus(text_config(directory))


def test_carriage_returns_in_one_file_alone_do_not_matter(directory):
    write_train(directory, b"one\r\ntwo\r\n\r\n", b"eins\nzwei\r\r\n\n")
    check_corpus(text_config(directory))
    pairs = list(read_examples(text_config(directory), "train"))
    assert pairs == [("one", "eins"), ("two", "zwei\r"), ("", "")]


def test_lines_may_be_very_long(directory):
    english, german = "word " * 100_000, "x" * 10_000_000
    write_train(directory, f"{english}\na\n".encode(), f"{german}\nb\n".encode())
    check_corpus(text_config(directory))
    assert list(read_examples(text_config(directory), "train")) == [(english, german), ("a", "b")]


def test_every_split_is_checked(directory):
    (directory / "test.de").write_bytes(b"\xff\n" * 20)
    with pytest.raises(ValueError, match=r"test.de, line 1: not UTF-8"):
        check_corpus(text_config(directory))


def test_a_missing_file_is_told_with_the_names_looked_for(directory):
    (directory / "dev.de").unlink()
    with pytest.raises(ValueError, match=r"neither dev\.de nor dev\.de\.gz is there, but dev\.en"):
        check_corpus(text_config(directory))
    for file in directory.iterdir():
        file.unlink()
    with pytest.raises(ValueError, match=r"is there, but no other file; data\.train must be"):
        check_corpus(text_config(directory))


def test_a_missing_directory_is_told(directory):
    with pytest.raises(
        ValueError, match="nowhere, which data.directory or .* is not an existing directory"
    ):
        check_corpus(text_config(directory / "nowhere"))


def test_a_directory_in_the_place_of_a_file_is_told(directory):
    (directory / "dev.de").unlink()
    (directory / "dev.de").mkdir()
    with pytest.raises(ValueError, match=r"dev\.de is a directory: it must be a text file"):
        check_corpus(text_config(directory))


def test_a_broken_link_or_a_pipe_in_the_place_of_a_file_is_told(directory):
    file = directory / "dev.de"
    for make in (lambda: file.symlink_to("nowhere"), lambda: os.mkfifo(file)):
        file.unlink()
        make()
        with pytest.raises(ValueError, match=r"dev\.de is a broken link, a pipe or a device: it"):
            check_corpus(text_config(directory))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(directory):
    (directory / "dev.de").chmod(0)
    for function in (check_corpus, content_hashes):
        with pytest.raises(ValueError, match=r"dev\.de cannot be read: Permission denied"):
            function(text_config(directory))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file of Linux")
def test_a_file_that_cannot_be_read_is_told(directory):
    (directory / "dev.de").unlink()
    (directory / "dev.de").symlink_to("/proc/self/mem")
    for function in (check_corpus, content_hashes):
        with pytest.raises(ValueError, match=r"dev\.de cannot be read: Input/output error"):
            function(text_config(directory))


def test_a_plain_file_is_taken_before_a_gzip_file(directory):
    (directory / "train.en.gz").write_bytes(b"no gzip file at all")
    check_corpus(text_config(directory))
    assert list(read_examples(text_config(directory), "train")) == sentence_pairs(80)


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
