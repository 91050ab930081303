"""SentencePiece: from sentences to token ids, and back.

One vocabulary serves both languages. Letters stay as they are written (no Unicode normalisation),
or all become lower case, which the model itself then does; white space changes: every run of it,
tabs and no-break spaces included, becomes one space, and none is left at the ends.
"""

import contextlib
import functools
import hashlib
import io
import itertools
import os
import re
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from t2t_jax.cores import own_cores
from t2t_jax.data.vocabulary import model_proto
from t2t_jax.json_files import write_bytes

PAD_ID, START_ID, END_ID, UNKNOWN_ID = 0, 1, 2, 3
MASK_ID = 4  # only in a vocabulary of masked language modelling; elsewhere 4 is a piece of text
_MASK = "<mask>"
SPACE_PIECE = "\u2581"  # SentencePiece's sign for a space; it cannot tell the two apart

# Written into the model, and for unigram it affects the order of sums: the machine's number of
# cores would change the fingerprint.
_LEARNING_THREADS = 4
# SentencePiece silently skips longer sentences; its default is 4,192.
_MAX_SENTENCE_BYTES = 1 << 20
# Longer ones are no words. SentencePiece refuses some, and takes minutes for long repetitions.
_MAX_WORD_CHARACTERS = 1_000
# SentencePiece needs some 70 bytes per character of the words that it learns BPE from.
_MAX_BPE_CHARACTERS = 12_000_000
_ERRORS_ONLY = 2
# These models segment word by word. Unigram does not: among segmentations with equal scores,
# rounding decides, which depends on the words before. Nor does "word": unknown words in a row
# are one token.
_BPE_AND_CHAR = (2, 4)


class Vocabulary:
    """Pieces of words and their ids.

    Args:
      model: the bytes of a SentencePiece model from `learn_vocabulary`.

    Raises:
      ValueError: `model` is no SentencePiece model, or its reserved ids are not ours.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise ValueError("these bytes are no SentencePiece model") from error
        processor = self._processor
        reserved = processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()
        if reserved != (PAD_ID, START_ID, END_ID, UNKNOWN_ID):
            raise ValueError(
                f"this vocabulary's padding, start, end and unknown ids are {reserved}: they must "
                f"be {(PAD_ID, START_ID, END_ID, UNKNOWN_ID)}, as `learn_vocabulary` makes them"
            )

    def __reduce__(self) -> tuple:
        return Vocabulary, (self.model,)

    @property
    def size(self) -> int:
        """Number of pieces, the reserved ones included."""
        return self._processor.get_piece_size()

    @property
    def has_mask(self) -> bool:
        """Whether MASK_ID is a mask token."""
        is_reserved = self.size > MASK_ID and self._processor.is_control(MASK_ID)
        return is_reserved and self.piece(MASK_ID) == _MASK

    @property
    def fingerprint(self) -> str:
        """First 16 hexadecimal digits of the model's sha256."""
        return hashlib.sha256(self.model).hexdigest()[:16]

    @property
    def libraries(self) -> dict[str, str]:
        """Versions of the libraries that cut text into tokens, by name."""
        return {"sentencepiece": sentencepiece.__version__}

    @functools.cached_property
    def is_word_by_word(self) -> bool:
        """Whether `encode` is `encode_word` of each word, unless one holds U+2581 itself."""
        if model_proto.value(self.model, model_proto.TRAINER_MODEL_TYPE) not in _BPE_AND_CHAR:
            return False
        processor = self._processor
        has_space = not processor.is_unknown(processor.piece_to_id(SPACE_PIECE))
        # Characters that all of SentencePiece's own normalisation rules change, and lower-casing
        # does not.
        keeps_letters = processor.normalize("ﬁ ａ½") == f"{SPACE_PIECE}ﬁ{SPACE_PIECE}ａ½"
        pieces = map(processor.id_to_piece, range(self.size))
        space_is_first = not any(SPACE_PIECE in piece[1:] for piece in pieces)
        return has_space and keeps_letters and space_is_first

    def encode_word(self, word: str) -> list[int]:
        """Token ids of a word without white space."""
        return self._processor.encode(word)

    def encode(self, sentences: list[str]) -> list[list[int]]:
        """Token ids of each sentence, without start or end; none for a blank sentence."""
        plain = [_single_spaced(sentence) for sentence in sentences]
        return self._processor.encode(plain, num_threads=len(own_cores()))

    def encode_target(self, sentences: list[str]) -> list[list[int]]:
        """The same for sentences of the target language; the vocabulary is shared."""
        return self.encode(sentences)

    def language_code(self, line: str) -> str:
        """What at the beginning of a line says into which language to translate it: here nothing.

        Tokenizers of other libraries may have such tokens.
        """
        return ""

    def decode(self, sentences: Iterable[Iterable[int]]) -> list[str]:
        """The text of each list of ids up to its first END_ID, without other reserved ids.

        UNKNOWN_ID is written as " ⁇ ".
        """
        ids = [_ids_of_text(sentence) for sentence in sentences]
        # SentencePiece takes an empty list for one sentence, not zero.
        return [_single_spaced(text) for text in self._processor.decode(ids)] if ids else []

    def piece(self, token_id: int) -> str:
        """The text of a piece; U+2581 stands for the space before a word."""
        return self._processor.id_to_piece(token_id)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the model's bytes, also readable by SentencePiece's own tools."""
        write_bytes(Path(path), self.model)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """The vocabulary that `save` wrote.

        Raises:
          ValueError: the file does not exist or is no vocabulary of ours.
        """
        if not Path(path).is_file():
            raise ValueError(f"no vocabulary at {path}: copy it from where the run was trained")
        try:
            return cls(Path(path).read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def learn_vocabulary(
    sentences: Iterable[str],
    kind: str,
    size: int,
    character_coverage: float,
    *,
    with_mask: bool = False,
    lowercase: bool = False,
) -> Vocabulary:
    """Learns pieces from sentences; the same sentences give the same bytes on every machine, but
    with `lowercase` only where Python has the same version of Unicode.

    `with_mask` also reserves MASK_ID, for the tokens that a model has to predict. `lowercase`:
    pieces of the text in lower case, character by character, by Python's own table.

    "bpe" and "unigram" get exactly `size` pieces. For "word" and "char", `size` is an upper
    bound: there are fewer pieces if the text has fewer words or characters. "unigram" keeps all
    sentences in memory, the others only their words. Words of more than 1,000 characters are
    ignored.

    Raises:
      ValueError: there is no text, or it does not give `size` pieces.
    """
    if kind != "unigram":
        counts = Counter(itertools.chain.from_iterable(map(str.split, sentences)))
        return learn_from_words(
            counts, kind, size, character_coverage, with_mask=with_mask, lowercase=lowercase
        )
    lines = itertools.chain.from_iterable(map(_lines_of_words, sentences))
    return _learn(lines, kind, size, character_coverage, with_mask, lowercase)


def learn_from_words(
    counts: Mapping[str, int],
    kind: str,
    size: int,
    character_coverage: float,
    *,
    with_mask: bool = False,
    lowercase: bool = False,
) -> Vocabulary:
    """As `learn_vocabulary`, but from word counts instead of sentences; not for "unigram".

    The model is the same, byte for byte, except for "bpe" of a text whose distinct words have more
    than 12 million characters together: a million words, or some 300,000 sentences of a language
    without spaces. The rarest are ignored, but their characters still become pieces if
    `character_coverage` is 1.
    """
    if lowercase:
        counts = _in_lower_case(counts)
    words = sorted(word for word in counts if len(word) <= _MAX_WORD_CHARACTERS)
    required = ""
    if kind == "bpe":
        num_characters = np.fromiter(map(len, words), np.int64, len(words))
        if num_characters.sum() > _MAX_BPE_CHARACTERS:
            is_frequent = _most_frequent(words, counts, num_characters)
            rare = itertools.compress(words, ~is_frequent)
            words = list(itertools.compress(words, is_frequent))
            if character_coverage == 1:
                required = "".join(sorted(set().union(*rare).difference(*words)))
    lines = (f"{word}\t{counts[word]}" for word in words)
    return _learn(
        lines, kind, size, character_coverage, with_mask, lowercase, required, are_words=True
    )


@functools.cache
def _lower_cases() -> dict[int, str]:
    """The lower case of every character that is not its own."""
    characters = map(chr, range(sys.maxunicode + 1))
    return {ord(each): each.lower() for each in characters if each != each.lower()}


def _in_lower_case(counts: Mapping[str, int]) -> Counter[str]:
    lowered: Counter[str] = Counter()
    for word, count in counts.items():
        lowered[word.translate(_lower_cases())] += count
    return lowered


def _most_frequent(
    words: list[str], counts: Mapping[str, int], num_characters: np.ndarray
) -> np.ndarray:
    """True for the most frequent words that BPE may learn from; ties are broken evenly."""
    frequency = np.fromiter((counts[word] for word in words), np.int64, len(words))
    scattered = np.arange(len(words)) * 0.6180339887498949 % 1  # golden ratio: even at any count
    order = np.lexsort((scattered, -frequency))
    is_frequent = np.zeros(len(words), bool)
    is_frequent[order] = np.cumsum(num_characters[order]) <= _MAX_BPE_CHARACTERS
    return is_frequent


def _learn(
    lines: Iterator[str],
    kind: str,
    size: int,
    character_coverage: float,
    with_mask: bool,
    lowercase: bool,
    required_characters: str = "",
    *,
    are_words: bool = False,
) -> Vocabulary:
    """Learns from sentences, or from lines of a word, a tab and its count."""
    stream = _RememberedErrors(lines)
    model = io.BytesIO()
    # Only the options given here are written into the model.
    options: dict[str, Any] = {"input_format": "tsv"} if are_words else {}
    if required_characters:
        options["required_chars"] = required_characters
    try:
        first = next(stream, None)
        if first is None:
            raise ValueError(
                "no sentence to learn a vocabulary from: all are blank, or have no white space "
                f"within {_MAX_WORD_CHARACTERS:,} characters"
            )
        with _normalisation(lowercase) as rule:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=itertools.chain([first], stream),
                model_writer=model,
                model_type=kind,
                vocab_size=size,
                character_coverage=character_coverage,
                hard_vocab_limit=kind in ("bpe", "unigram"),
                pad_id=PAD_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                unk_id=UNKNOWN_ID,
                # A control symbol is never produced by a text that contains "<mask>".
                control_symbols=[_MASK] if with_mask else [],
                max_sentence_length=_MAX_SENTENCE_BYTES,
                num_threads=_LEARNING_THREADS,
                minloglevel=_ERRORS_ONLY,
                **rule,
                **options,
            )
    except RuntimeError as error:
        if stream.error is not None:
            raise stream.error from None
        raise ValueError(_in_words(str(error), kind, size)) from error
    # Neither is part of the vocabulary, so neither may change the fingerprint.
    learned = model_proto.without(model.getvalue(), model_proto.TRAINER_INPUT_FORMAT)
    return Vocabulary(model_proto.without(learned, model_proto.NORMALIZER_RULES_FILE))


@contextlib.contextmanager
def _normalisation(lowercase: bool) -> Iterator[dict[str, str]]:
    """SentencePiece's options for what it does to letters; it reads its rules from a file."""
    if not lowercase:
        yield {"normalization_rule_name": "identity"}
        return
    rules = (
        f"{code:x}\t{' '.join(f'{ord(each):x}' for each in lower)}\n"
        for code, lower in _lower_cases().items()
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "lower_case.tsv"
        file.write_text("".join(rules))
        yield {"normalization_rule_tsv": str(file)}


class _RememberedErrors:
    """Lines of text; keeps an error that SentencePiece would replace by another."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.error: BaseException | None = None
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise


def _lines_of_words(text: str) -> list[str]:
    """A sentence without overlong words; a long one is split in lines: no piece spans two words."""
    words = text.split()
    if len(text) <= _MAX_WORD_CHARACTERS:
        return [" ".join(words)] if words else []
    words = [word for word in words if len(word) <= _MAX_WORD_CHARACTERS]
    return textwrap.wrap(
        " ".join(words), _MAX_WORD_CHARACTERS, break_long_words=False, break_on_hyphens=False
    )


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _ids_of_text(ids: Iterable[int]) -> list[int]:
    until_end = itertools.takewhile(lambda token_id: token_id != END_ID, map(int, ids))
    return [token_id for token_id in until_end if token_id not in (PAD_ID, START_ID)]


def _in_words(message: str, kind: str, size: int) -> str:
    """SentencePiece's error as one sentence, or its own text if it is not a known one."""
    if too_large := re.search(r"too high.*<= (\d+)", message):
        return (
            f"data.vocabulary_size={size} is too large: this text gives a {kind} vocabulary of "
            f"at most {too_large[1]} pieces"
        )
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"data.vocabulary_size={size} is too small: the characters of this text and the "
            f"reserved pieces need at least {too_small[1]} (or lower data.character_coverage)"
        )
    return f"no {kind} vocabulary of data.vocabulary_size={size} could be learned: {message}"
