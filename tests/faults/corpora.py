"""Pairs of byte strings as the two sides of a corpus: refused, or aligned line by line."""

import contextlib
import random
import shutil
from pathlib import Path

import numpy as np

from t2t_jax.data.prepare.prepared import PreparedSplit, prepare
from t2t_jax.data.vocabulary.vocabulary import END_ID, Vocabulary, learn_vocabulary
from tests.data.text_corpus import text_config
from tests.faults.count import Count

_WORDS = ("katze", "hund", "x", "ab", "zzz", "0", "12")
# What other programs take for the end of a line, or of a file, or cannot read.
_ODD = [
    *(b"\n", b"\n\n", b"\r\n", b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\0"),
    *(text.encode() for text in ("\x85", "\u2028", "\u2029", "\ufeff", "\u2581", "\u3000", "\xa0")),
    *(b" ", b"\t", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1a", b"\x1f\x8b"),
]


def pairs_of_bytes(directory: Path, num: int, seed: int) -> Count:
    """Prepares so many corpora of random bytes, most of them with as many line feeds a side."""
    draws = random.Random(seed)
    letters = "".join(_WORDS) + "bcdefgh3456789"
    vocabulary = learn_vocabulary([" ".join(letters)] * 9, "char", len(set(letters)) + 5, 1.0)
    refused = kept = dropped = 0
    lost = []
    for number in range(num):
        place = directory / str(number)
        place.mkdir()
        both = _corpus(draws)
        for stem in ("train", "dev", "test"):
            for language, content in zip(("en", "de"), both, strict=True):
                (place / f"{stem}.{language}").write_bytes(content)
        try:
            prepared = None
            with contextlib.suppress(ValueError):
                prepared = prepare(
                    text_config(place), lambda line: None, vocabulary, num_processes=1
                )
            if prepared is None:
                refused += 1
                _check_refused(both)
            else:
                pairs = _lines(both)
                kept += (num_kept := _num_in_place(prepared.splits["train"], pairs, vocabulary))
                dropped += len(pairs) - num_kept
        except AssertionError as error:
            lost.append(f"corpus {number} with seed {seed}: {error}: {both!r}")
        shutil.rmtree(place)
    remark = f"{refused} refused; of the others {kept:,} pairs in place, {dropped:,} left out"
    return Count("pairs of byte strings as corpora", num, tuple(lost), remark)


def _corpus(draws: random.Random) -> tuple[bytes, bytes]:
    """Two files, mostly of as many lines; each line of words of its own, with odd bytes within."""
    num_lines, share = draws.randint(0, 12), draws.choice((0.0, 0.02, 0.3))

    def side(name: str) -> bytes:
        lines = []
        for number in range(num_lines):
            words = [f"{name}{number}".encode()]
            words += (draws.choice(_WORDS).encode() for _ in range(draws.randint(0, 4)))
            line = b" ".join(words) if draws.random() > 0.1 else b""
            while draws.random() < share:
                place = draws.randint(0, len(line))
                odd = draws.choice(_ODD)
                # More often than not without a line feed, which would leave it without partner.
                if b"\n" not in odd or draws.random() < 0.1:
                    line = line[:place] + odd + line[place:]
            lines.append(line)
        end = draws.choice((b"\n", b"\n", b"\r\n"))
        whole = end.join(lines) + draws.choice((end, b""))
        return draws.choice((b"", b"", b"", b"\xef\xbb\xbf")) + whole

    return side("a"), side("b")


def _lines(both: tuple[bytes, bytes]) -> list[tuple[str, str]]:
    """What stands in the lines of both files, found in the plainest way.

    Raises:
      AssertionError: they are no corpus.
    """
    columns = []
    for content in both:
        lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        try:
            columns.append([line.removesuffix(b"\r").decode() for line in lines])
        except UnicodeDecodeError:
            raise AssertionError("it is not UTF-8 and was not refused") from None
    assert len(columns[0]) == len(columns[1]) > 0, "unequal numbers of lines were not refused"
    return list(zip(*columns, strict=True))


def _check_refused(both: tuple[bytes, bytes]) -> None:
    """Raises AssertionError where there is a pair that can be used and nothing to refuse."""
    try:
        pairs = _lines(both)
    except AssertionError:
        return
    usable = [pair for pair in pairs if all(side.isprintable() and side.strip() for side in pair)]
    assert not usable, "it was refused for nothing"


def _num_in_place(
    split: PreparedSplit, pairs: list[tuple[str, str]], vocabulary: Vocabulary
) -> int:
    """How many pairs were kept, of which each must be the next of the lines that is there whole.

    Raises:
      AssertionError: one is none of those that are left.
    """
    sides = [vocabulary.encode(list(side)) for side in zip(*pairs, strict=True)]
    left = iter(zip(*sides, strict=True))
    for number in range(split.num_pairs):
        ours = (
            _ids(split.source_ids, split.source_offsets, number),
            _ids(split.target_ids, split.target_offsets, number),
        )
        assert any(ours == (a + [END_ID], b + [END_ID]) for a, b in left), f"pair {number} is amiss"
    return split.num_pairs


def _ids(ids: np.ndarray, offsets: np.ndarray, number: int) -> list[int]:
    return ids[offsets[number] : offsets[number + 1]].tolist()
