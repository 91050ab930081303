"""Files of any bytes: every example comes out intact and aligned, or one sentence says why not."""

import contextlib
import gzip
import itertools
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_jax.data.corpora import text_files
from t2t_jax.data.corpora.corpus import (
    check_corpus,
    class_names,
    corpora_of,
    drop_reason,
    read_examples,
)
from t2t_jax.data.prepare.prepared import prepare
from tests.data.text_corpus import text_config

fuzz = settings(max_examples=100, derandomize=True, database=None)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# All that Unicode, Python or some editor takes for white space or for the end of a line.
SPACES = " \t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\u3000"
LETTERS = "ab\0\x01\x08\x0e\x1b\x7f\x80\x9fäß中😀\u0301\u200d\ufeff\ufffd\u2581\uffff"
TEXTS = st.text(
    st.sampled_from(SPACES + LETTERS) | st.characters(exclude_categories=["Cs"]), max_size=6
)
WRONG_BYTES = [b"\xff\xfe", b"\xc3", b"\x80", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]
ENDS = st.sampled_from([b"\n", b"\r\n"])
JOINED = st.sampled_from([b"\n", b"\n", b"\r", BYTE_ORDER_MARK, *WRONG_BYTES])
ANY_BYTES = st.binary(max_size=20) | st.lists(TEXTS.map(str.encode) | JOINED).map(b"".join)


@st.composite
def parallel_files(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Mostly valid ones of as many lines, each with line ends, mark and last line of its own."""
    if draw(st.integers(0, 3)) == 0:
        return draw(ANY_BYTES), draw(ANY_BYTES)
    lines = draw(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12))
    files = []
    for texts in zip(*lines, strict=True):
        end, mark = draw(ENDS), draw(st.sampled_from([b"", BYTE_ORDER_MARK]))
        file = mark + b"".join(text.replace("\n", "").encode() + end for text in texts)
        files.append(file.removesuffix(draw(st.sampled_from([b"", b"\n"]))))
    return files[0], files[1]


def expected_lines(file: bytes) -> list[str]:
    """The lines of a file by the plainest of ways; UnicodeDecodeError where that is none."""
    *lines, rest = file.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    lines += [rest] if rest else []
    return [line.removesuffix(b"\r").decode() for line in lines]


def expected_pairs(files: tuple[bytes, bytes]) -> list[tuple[str, str]] | None:
    """None for what must be refused."""
    try:
        sides = [expected_lines(file) for file in files]
    except UnicodeDecodeError:
        return None
    is_parallel = len(sides[0]) == len(sides[1]) > 0
    return list(zip(*sides, strict=True)) if is_parallel else None


def is_left_out(pair: tuple[str, str]) -> bool:
    """By the table of Unicode's control characters, not by a regular expression."""
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - set(SPACES + "\n")
    is_blank = any(not "".join(text.split()).strip("\u2581") for text in pair)
    return is_blank or any(controls & set(text) for text in pair)


def write(directory: Path, files: tuple[bytes, bytes], zipped: tuple[bool, bool]) -> None:
    directory.mkdir(exist_ok=True)
    for stem in ("train", "dev", "test"):
        for language, content, is_zipped in zip(("en", "de"), files, zipped, strict=True):
            if is_zipped:
                (directory / f"{stem}.{language}.gz").write_bytes(gzip.compress(content))
            else:
                (directory / f"{stem}.{language}").write_bytes(content)


@contextlib.contextmanager
def new_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@contextlib.contextmanager
def blocks_of(num_bytes: int) -> Iterator[None]:
    """Reads so many bytes at once: characters and line ends are cut at every place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK_BYTES", num_bytes)
        yield


def refusal(function, *args) -> str | None:
    """The sentence of the error, None where there is none."""
    try:
        function(*args)
    except ValueError as error:
        assert not isinstance(error, UnicodeError)
        assert str(error).isprintable(), str(error)
        return str(error)
    return None


@fuzz
@given(parallel_files(), st.tuples(st.booleans(), st.booleans()), st.integers(1, 8))
def test_any_two_files_are_read_in_full_or_refused(files, zipped, num_bytes):
    pairs = expected_pairs(files)
    with new_directory() as directory, blocks_of(num_bytes):
        write(directory, files, zipped)
        config = text_config(directory)
        told = refusal(check_corpus, config)
        if pairs is None:
            assert told is not None
            assert refusal(list, read_examples(config, "train")) is not None
        else:
            assert list(read_examples(config, "train")) == pairs
            assert corpora_of(config, "train")[""].num_examples("train") == len(pairs)
            assert [drop_reason(pair) is not None for pair in pairs] == list(
                map(is_left_out, pairs)
            )
            if told is not None:  # UTF-16, of which nothing would be kept
                assert "has a NUL in every line" in told
                assert all(map(is_left_out, pairs))


@fuzz
@given(parallel_files(), st.integers(1, 5))
def test_chunks_of_any_size_give_the_same_examples_and_errors(files, size):
    with new_directory() as directory:
        write(directory, files, (False, False))
        config = text_config(directory)

        def chunks() -> Iterator[list[tuple[str, ...]]]:
            for chunk in corpora_of(config, "train")[""].read_chunks("train", size):
                yield pickle.loads(pickle.dumps(chunk)).decode()

        told = refusal(list, read_examples(config, "train"))
        assert refusal(list, chunks()) == told
        if told is None:
            *whole, last = chunks()
            assert all(len(chunk) == size for chunk in whole) and 0 < len(last) <= size
            assert [*itertools.chain(*whole), *last] == list(read_examples(config, "train"))


@fuzz
@given(parallel_files(), parallel_files(), st.integers(1, 5))
def test_a_mixture_is_its_corpora_or_refused_with_the_name_of_one(first, second, size):
    with new_directory() as directory:
        mixture = f"{directory}/a=2,{directory}/b=1"
        write(directory / "a", first, (False, False))
        write(directory / "b", second, (False, True))
        write(directory, (b"x\n", b"y\n"), (False, False))
        config = text_config(directory, mixture=mixture)
        parts = [expected_pairs(files) for files in (first, second)]
        if None in parts:
            told = refusal(check_corpus, config)
            assert told is not None
            assert f"{directory}/{'ab'[parts.index(None)]}/train." in told or "NUL" in told
            return
        assert list(read_examples(config, "train")) == [*parts[0], *parts[1]]
        corpora = corpora_of(config, "train").values()
        chunks_of = [corpus.read_chunks("train", size) for corpus in corpora]
        assert [[e for chunk in chunks for e in chunk.decode()] for chunks in chunks_of] == parts
        assert [corpus.num_examples("train") for corpus in corpora] == list(map(len, parts))
        assert list(read_examples(config, "test")) == [("x", "y")]


@fuzz
@given(parallel_files())
def test_any_labels_are_classes_or_refused(files):
    pairs = expected_pairs(files)
    labels = [label for _, label in pairs or []]
    with new_directory() as directory:
        write(directory, files, (False, False))
        for stem in ("train", "dev", "test"):
            (directory / f"{stem}.de").rename(directory / f"{stem}.labels")
        config = text_config(directory, task="classification")
        told = refusal(check_corpus, config)
        if (
            pairs is None
            or len(set(labels)) < 2
            or any(is_left_out((x, x)) or x != x.strip() for x in labels)
        ):
            assert told is not None
        elif told is None:
            assert class_names(config) == tuple(sorted(set(labels)))
        else:
            assert "has a NUL in every line" in told


@fuzz
@given(st.binary(min_size=1, max_size=3), st.integers(0, 200), st.integers(0, 200))
def test_a_damaged_gzip_file_is_never_read_as_something_else(damage, start, stop):
    lines = [f"line {number}" for number in range(30)]
    packed = gzip.compress("\n".join(lines).encode(), mtime=0)
    with new_directory() as directory:
        write(directory, (b"x\n" * 30, b""), (False, True))
        file = directory / "train.de.gz"
        file.write_bytes(packed[:start] + damage + packed[stop:])
        told = refusal(
            check_corpus,
            text_config(directory, task="language_modelling", dev="train", test="train"),
        )
        if told is None:
            examples = read_examples(text_config(directory), "train")
            assert [german for _, german in examples] == lines
        else:
            assert str(file) in told


@settings(fuzz, max_examples=8)
@given(parallel_files())
def test_what_is_prepared_are_the_pairs_that_are_not_left_out(files):
    pairs = expected_pairs(files)
    kept = [pair for pair in pairs or [] if not is_left_out(pair)]
    with new_directory() as directory:
        write(directory, files, (False, False))
        config = text_config(directory, vocabulary_kind="char", vocabulary_size=1_000)
        try:
            prepared = prepare(config, lambda line: None)
        except ValueError:
            assert not kept
            return
        for split, arrays in prepared.splits.items():
            assert arrays.num_pairs == len(kept)
            dropped = prepared.manifest["splits"][split]["dropped"]
            assert sum(dropped.values()) == len(pairs) - len(kept)
            for side, ids, offsets in (
                (0, arrays.source_ids, arrays.source_offsets),
                (1, arrays.target_ids, arrays.target_offsets),
            ):
                sentences = [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]
                spaced = [" ".join(pair[side].replace("\u2581", " ").split()) for pair in kept]
                assert prepared.vocabulary.decode(sentences) == spaced
