"""Another library's tokenizer behind the interface of our vocabulary.

Our models have four reserved ids, PAD, START, END and UNKNOWN (and MASK if there is one), the same
in every vocabulary. A pretrained model has its own anywhere among its rows. `Rows` maps each of our
ids to their row: first the reserved ones, then all others in order.
"""

import dataclasses
import hashlib
import importlib.metadata
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from t2t_jax.data.vocabulary.vocabulary import (
    END_ID,
    MASK_ID,
    PAD_ID,
    START_ID,
    UNKNOWN_ID,
    Vocabulary,
)
from t2t_jax.interop.libraries import in_one_line, library
from t2t_jax.json_files import read_json, write_json

_NO_ROW = -1
# Makes a probability 0 in float32, and stays finite in a sum.
SILENT = np.float32(-1e9)

# If two reserved ids share a row, the first here gets it.
_CLAIMS = (END_ID, START_ID, UNKNOWN_ID, MASK_ID, PAD_ID)

# The possible files of a tokenizer; the rest of a directory is the model.
_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "source.spm",
    "target.spm",
)
_LIBRARIES = ("transformers", "tokenizers", "sentencepiece")  # Marian uses the last
_ROWS_FILE = "rows.json"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Which of a pretrained model's rows each of our ids stands for.

    A row may serve two reserved ids (GPT-2 starts and ends a text with the same token, Marian
    starts with its padding). The logit then goes to one of them and the other is silent: END comes
    first, because it is generated, and PAD last, because label smoothing can leave it out.
    """

    num_theirs: int  # rows of their embedding
    reserved: tuple[int | None, ...]  # their rows of PAD, START, END, UNKNOWN and maybe MASK

    def __post_init__(self) -> None:
        for row in self.reserved:
            if row is not None and not 0 <= row < self.num_theirs:
                raise ValueError(
                    f"a special token has id {row}, but the model has only {self.num_theirs} rows "
                    f"(0 to {self.num_theirs - 1})"
                )

    @property
    def theirs(self) -> Int[np.ndarray, " rows"]:
        """Their row of each of our ids, or -1 if there is none."""
        first = [_NO_ROW if row is None else row for row in self.reserved]
        return np.array([*first, *sorted(set(range(self.num_theirs)) - set(first))])

    @property
    def ours(self) -> Int[np.ndarray, " theirs"]:
        """Our id of each of their rows."""
        theirs, is_silent = self.theirs, self.is_silent
        ours = np.full(self.num_theirs, _NO_ROW)
        ours[theirs[~is_silent]] = np.flatnonzero(~is_silent)
        return ours

    @property
    def is_silent(self) -> Bool[np.ndarray, " rows"]:
        """True for ids without a row of their own."""
        is_silent = np.zeros(len(self.theirs), bool)
        taken = {_NO_ROW}
        for ours in sorted(range(len(self.reserved)), key=_CLAIMS.index):
            row = int(self.theirs[ours])
            is_silent[ours] = row in taken
            taken.add(row)
        return is_silent

    def table(self, theirs: Float[np.ndarray, "theirs D"]) -> Float[np.ndarray, "rows D"]:
        """Their embedding in our order; zeros for an id without a row."""
        rows = self.theirs
        return np.where((rows == _NO_ROW)[:, None], np.float32(0), theirs[rows])

    def bias(self, theirs: Float[np.ndarray, " theirs"]) -> Float[np.ndarray, " rows"]:
        """Their output bias in our order; low enough at silent ids to keep their probabilities."""
        return np.where(self.is_silent, SILENT, theirs[self.theirs])


class PretrainedVocabulary(Vocabulary):
    """The tokenizer of a directory in Hugging Face format, with our ids.

    Sentences are tokenised as by the `transformers` library, without special tokens.

    Args:
      directory: holds the tokenizer's files; nothing else is read, nothing is downloaded.
      rows: of its model.

    Raises:
      ValueError: `transformers` is not installed, there is no tokenizer, or it has more tokens
        than the model has rows.
    """

    def __init__(self, directory: Path, rows: Rows) -> None:
        self._directory = directory
        self.rows = rows  # of the model, one per id
        self._tokenizer = load_tokenizer(directory)
        if len(self._tokenizer) > rows.num_theirs:
            raise ValueError(
                f"{directory}: the tokenizer has {len(self._tokenizer)} tokens, but the model only "
                f"{rows.num_theirs} rows"
            )
        self._ours = rows.ours
        self._theirs = rows.theirs

    def __reduce__(self) -> tuple:
        return PretrainedVocabulary, (self._directory, self.rows)

    @property
    def size(self) -> int:
        """Number of ids, the reserved ones included; the model may have more rows."""
        return int(np.max(np.flatnonzero(self._theirs < len(self._tokenizer)))) + 1

    @property
    def has_mask(self) -> bool:
        """Whether MASK_ID is a mask token."""
        return len(self.rows.reserved) > MASK_ID

    @property
    def fingerprint(self) -> str:
        """First 16 hexadecimal digits of the sha256 of the tokenizer's files and the rows."""
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(self.rows)).encode())
        for file in _tokenizer_files(self._directory):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def libraries(self) -> dict[str, str]:
        """Versions of the libraries that cut text into tokens, by name."""
        return {name: importlib.metadata.version(name) for name in _LIBRARIES}

    def encode(self, sentences: list[str]) -> list[list[int]]:
        """Token ids of each sentence, without start or end; none for a blank sentence."""
        return self._encoded(sentences)

    def encode_target(self, sentences: list[str]) -> list[list[int]]:
        """The same for the target language, for which Marian has its own tokenizer."""
        return self._encoded(sentences, is_target=True)

    def language_code(self, line: str) -> str:
        """A code such as ">>fra<<" at the beginning of a line, if this tokenizer has it."""
        codes = getattr(self._tokenizer, "supported_language_codes", ())  # Marian's
        return next((code for code in codes if line.startswith(code)), "")

    def decode(self, sentences: Iterable[Iterable[int]]) -> list[str]:
        """The text of each list of ids up to its first END_ID, without special tokens."""
        texts = []
        for sentence in sentences:
            until_end = itertools.takewhile(lambda token_id: token_id != END_ID, map(int, sentence))
            ids = [token_id for token_id in until_end if token_id not in (PAD_ID, START_ID)]
            theirs = [int(self._theirs[token_id]) for token_id in ids]
            theirs = [row for row in theirs if row != _NO_ROW]
            texts.append(self._tokenizer.decode(theirs, skip_special_tokens=True))
        return texts

    def piece(self, token_id: int) -> str:
        """The tokenizer's text of the token."""
        row = int(self._theirs[token_id])
        if row == _NO_ROW or row >= len(self._tokenizer):
            return f"<{token_id}>"
        return self._tokenizer.convert_ids_to_tokens(row)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a directory for `load`, atomically."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        self.save_tokenizer(partial)
        config = self._directory / "config.json"
        if not (partial / config.name).exists():  # a tokenizer may need its model type
            shutil.copyfile(config, partial / config.name)
        write_json(partial / _ROWS_FILE, dataclasses.asdict(self.rows))
        partial.rename(path)

    def save_tokenizer(self, path: Path) -> None:
        """Writes the tokenizer's files into the directory `path`."""
        path.mkdir(parents=True, exist_ok=True)
        for file in _tokenizer_files(self._directory):
            if not (path / file.name).exists():
                shutil.copyfile(file, path / file.name)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "PretrainedVocabulary":
        """The vocabulary that `save` wrote.

        Raises:
          ValueError: there is none, or it is damaged.
        """
        path = Path(path)
        if not (path / _ROWS_FILE).is_file():
            raise ValueError(f"no vocabulary at {path}: t2t-jax train --init=hf:DIR leaves one")
        values = read_json(path / _ROWS_FILE)
        try:
            rows = Rows(values["num_theirs"], tuple(values["reserved"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path / _ROWS_FILE} is damaged: {error}") from error
        return cls(path, rows)

    def _encoded(self, sentences: list[str], *, is_target: bool = False) -> list[list[int]]:
        if not sentences:  # tokenizers refuse an empty list
            return []
        name = "text_target" if is_target else "text"
        found = self._tokenizer(**{name: list(sentences)}, add_special_tokens=False)["input_ids"]
        return [
            self._ours[np.array(ids, int)].tolist() if sentence.strip() else []
            for sentence, ids in zip(sentences, found, strict=True)
        ]


def load_tokenizer(directory: Path) -> Any:
    """The tokenizer of `directory`, as the `transformers` library reads it.

    Raises:
      ValueError: it cannot be read, or `transformers` is not installed.
    """
    transformers = library("transformers")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of one library about another's calls
            return transformers.AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # the libraries behind it have their own exceptions
        told = in_one_line(error)
        raise ValueError(f"{directory} holds no tokenizer that can be read: {told}") from error


def reserved_rows(
    tokenizer: Any, *, pad: int | None, start: int | None, end: int | None
) -> tuple[int | None, ...]:
    """Their rows of our reserved ids; the tokenizer gives the unknown and mask tokens."""
    reserved: list[int | None] = [None] * (UNKNOWN_ID + 1)
    reserved[PAD_ID], reserved[START_ID], reserved[END_ID] = pad, start, end
    reserved[UNKNOWN_ID] = tokenizer.unk_token_id
    # GPT-2's tokenizer also uses its one special token as unknown; with bytes, nothing is unknown.
    if reserved[UNKNOWN_ID] in reserved[:UNKNOWN_ID]:
        reserved[UNKNOWN_ID] = None
    mask = tokenizer.mask_token_id
    return tuple(reserved) if mask is None else (*reserved, mask)


def _tokenizer_files(directory: Path) -> list[Path]:
    return [directory / name for name in _FILES if (directory / name).is_file()]
