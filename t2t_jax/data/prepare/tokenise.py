"""Tokenises sentences. In: a chunk of a corpus. Out: its ids, as bytes.

Runs in worker processes. Each remembers the ids of the words it has met: a few hundred thousand
words make up nearly all of a text, and looking one up is several times as fast as finding its
pieces.
"""

import array
import dataclasses
import functools
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from t2t_jax.data.config import Task
from t2t_jax.data.corpora.corpus import Chunk, drop_reason
from t2t_jax.data.vocabulary.vocabulary import END_ID, SPACE_PIECE, START_ID, Vocabulary

TOO_LONG = "too_long"
# About 80 MB of memory. Words are added when first met, so the frequent ones come first.
_MAX_WORDS_REMEMBERED = 500_000
_MAX_LETTERS_REMEMBERED = 100


class Side(NamedTuple):
    """All sources, or all targets, of some examples."""

    ids: bytes  # concatenated
    lengths: Int[np.ndarray, " examples"]  # tokens of each


class Tokenised(NamedTuple):
    """A tokenised chunk of a corpus, without dropped examples."""

    num_examples: int  # in the chunk
    dropped: dict[str, int]  # dropped examples by reason
    source: Side
    target: Side


@dataclasses.dataclass(frozen=True)
class Tokenise:
    """Tokenises examples; `PreparedSplit` describes the ids of each task.

    Drops examples with a `drop_reason`, with no tokens on a side ("blank"), or with more than
    `max_length` tokens on a side ("too_long").
    """

    task: Task
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    max_length: int | None  # tokens per side, start and end included; None: any number
    dtype: str  # of an id: "uint16" or "int32"

    def __call__(self, chunk: Chunk) -> Tokenised:
        examples = chunk.decode()
        found = self._found(examples)
        dropped = Counter(each for each in found if isinstance(each, str))
        kept = [each for each in found if not isinstance(each, str)]
        source, target = map(self._side, zip(*kept, strict=True) if kept else ((), ()))
        return Tokenised(len(examples), dict(dropped), source, target)

    def keeps(self, examples: list[tuple[str, ...]]) -> list[bool]:
        """Whether each example is kept."""
        return [not isinstance(each, str) for each in self._found(examples)]

    def _found(self, examples: list[tuple[str, ...]]) -> list[tuple[bytes, bytes] | str]:
        """The source and target ids of each example, or why it is dropped."""
        reasons = list(map(drop_reason, examples))
        usable = examples
        if any(reasons):
            usable = [e for e, reason in zip(examples, reasons, strict=True) if reason is None]
        max_bytes = sys.maxsize if self.max_length is None else self.max_length * self._bytes_per_id
        pairs = iter(self._pairs(usable) if usable else ())
        found = []
        for reason in reasons:
            each = reason or next(pairs) or "blank"
            if not isinstance(each, str) and max(map(len, each)) > max_bytes:
                each = TOO_LONG
            found.append(each)
        return found

    @property
    def _bytes_per_id(self) -> int:
        return np.dtype(self.dtype).itemsize

    @functools.cached_property
    def _encode(self) -> Callable[[list[str]], list[bytes]]:
        return make_encode(self.vocabulary, self.dtype)

    def _pairs(self, examples: list[tuple[str, ...]]) -> list[tuple[bytes, bytes] | None]:
        """The source and target ids of each example; None for one without tokens on a side."""
        start, end = (_as_bytes([token_id], self.dtype) for token_id in (START_ID, END_ID))
        texts, *others = map(list, zip(*examples, strict=True))
        encoded = self._encode(texts)
        match self.task:
            case "translation":
                pairs = zip(encoded, self._encode_target(others[0]), strict=True)
                return [(s + end, t + end) if s and t else None for s, t in pairs]
            case "language_modelling":
                return [(b"", ids + end) if ids else None for ids in encoded]
            case "masked_language_modelling":
                sentences = [start + ids + end if ids else None for ids in encoded]
                return [(ids, ids) if ids else None for ids in sentences]
            case "classification":
                targets = {
                    name: _as_bytes([number], self.dtype)
                    for number, name in enumerate(self.classes, start=1)
                }
                pairs = zip(encoded, others[0], strict=True)
                return [(start + ids + end, targets[name]) if ids else None for ids, name in pairs]

    def _encode_target(self, texts: list[str]) -> list[bytes]:
        if type(self.vocabulary) is Vocabulary:  # encodes both sides alike
            return self._encode(texts)
        return [_as_bytes(ids, self.dtype) for ids in self.vocabulary.encode_target(texts)]

    def _side(self, sentences: tuple[bytes, ...]) -> Side:
        num_bytes = np.fromiter(map(len, sentences), np.int64, len(sentences))
        return Side(b"".join(sentences), num_bytes // self._bytes_per_id)


def make_encode(vocabulary: Vocabulary, dtype: str) -> Callable[[list[str]], list[bytes]]:
    """The fastest function that gives what `vocabulary.encode` gives, each sentence as bytes."""
    # Another library's tokenizer may treat spaces in any way.
    if type(vocabulary) is not Vocabulary or not vocabulary.is_word_by_word:
        return lambda sentences: [_as_bytes(ids, dtype) for ids in vocabulary.encode(sentences)]
    look_up = _IdsOfWords(vocabulary, dtype).__getitem__
    join = b"".join

    def encode(sentences: list[str]) -> list[bytes]:
        encoded = []
        for sentence in sentences:
            try:
                encoded.append(join(map(look_up, sentence.split())))
            except _LiteralSpace:
                encoded.append(_as_bytes(vocabulary.encode([sentence])[0], dtype))
        return encoded

    return encode


class _LiteralSpace(Exception):
    """A word contains SentencePiece's sign for a space."""


class _IdsOfWords(dict[str, bytes]):
    """The ids of every word, computed when first requested."""

    def __init__(self, vocabulary: Vocabulary, dtype: str) -> None:
        self._vocabulary = vocabulary
        self._code = np.dtype(dtype).char

    def __missing__(self, word: str) -> bytes:
        if SPACE_PIECE in word:
            raise _LiteralSpace
        ids = array.array(self._code, self._vocabulary.encode_word(word)).tobytes()
        if len(self) < _MAX_WORDS_REMEMBERED and len(word) <= _MAX_LETTERS_REMEMBERED:
            self[word] = ids
        return ids


def _as_bytes(ids: list[int], dtype: str) -> bytes:
    # Faster than numpy for short lists.
    return array.array(np.dtype(dtype).char, ids).tobytes()
