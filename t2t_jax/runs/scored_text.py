"""What a model is scored on: a split of its corpus, or two given files."""

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_jax import hosts
from t2t_jax.data.corpora import text_files
from t2t_jax.data.corpora.corpus import drop_reason, files_of, read_examples
from t2t_jax.data.prepare.manifest import sha256_of
from t2t_jax.data.prepare.prepared import Prepared, PreparedSplit
from t2t_jax.data.prepare.tokenise import Side, Tokenise
from t2t_jax.data.prepare.unfinished import ARRAYS, array_file
from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.json_files import read_json
from t2t_jax.runs.name_of_test_set import check_name
from t2t_jax.runs.sections import Sections


class ScoredText(NamedTuple):
    """Sentences with their expected output."""

    name: str  # of its files of scores
    facts: dict[str, Any]  # what its scores say about it
    prepared: Prepared  # has it as a split of this name
    pairs: Callable[[], list[tuple[str, str]]]  # as text: of two sentences, or with its class


class GivenFiles(NamedTuple):
    """The user's own test set; line n of one file is the translation of line n of the other."""

    name: str
    files: list[str]  # source and reference
    sha256: list[str]
    pairs: list[tuple[str, str]]


def split_of(sections: Sections, prepared: Prepared, split: str) -> ScoredText:
    """A split of the corpus of a model."""
    data = sections.data
    facts = {
        "split": split,
        "files": files_of(data, split),
        "split_fingerprint": _split_fingerprint(prepared, split),
        "sentences": prepared.splits[split].num_pairs,
    }
    return ScoredText(split, facts, prepared, lambda: _pairs_of(sections, prepared, split))


def _split_fingerprint(prepared: Prepared, split: str) -> str:
    names = [array_file(prepared.directory, split, array).name for array in ARRAYS]
    return sha256_of([prepared.manifest["files"][name]["sha256"] for name in names])[:16]


def _pairs_of(sections: Sections, prepared: Prepared, split: str) -> list[tuple[str, str]]:
    """The text of the examples that were prepared: of train, those that are not too long."""
    data = sections.data
    examples = list(read_examples(data, split))
    most = data.max_length if split == "train" else None
    tokenise = Tokenise(data.task, prepared.vocabulary, prepared.classes, most, "int32")
    kept = itertools.compress(examples, tokenise.keeps(examples))
    return [(text, other) for text, other in kept]


def read_given(source: Path, reference: Path, name: str | None = None) -> GivenFiles:
    """Reads two files, which may be gzipped; `name` defaults to the source's name without ending.

    Raises:
      ValueError: a file cannot be read, is empty or not UTF-8, one has more lines than the other, a
        line is blank or has control characters, or the name is not valid.
    """
    files = [each.expanduser().absolute() for each in (source, reference)]
    for file in files:
        if file.exists() and not file.is_file():
            what = "a directory" if file.is_dir() else "a pipe or a device"
            raise ValueError(f"{file} is {what}: it must be a text file, which is read twice")
    text_files.check_counts(files, [text_files.check_file(file) for file in files])
    chunks = text_files.read_chunks(files, text_files.LINES_AT_ONCE)
    pairs = [(line, other) for chunk in chunks for line, other in chunk.decode()]
    for number, pair in enumerate(pairs, start=1):
        for file, line in zip(files, pair, strict=True):
            if reason := drop_reason((line,)):
                raise ValueError(
                    f"{file}, line {number:,}: {reason}, where each line must be a sentence"
                )
    if name is None:
        name = Path(files[0].name.removesuffix(".gz")).stem
    check_name(name)
    sha256 = list(map(text_files.file_sha256, files))
    hosts.check_same("the test set", repr(sha256).encode(), "give all the same files")
    return GivenFiles(name, list(map(str, files)), sha256, pairs)


def check_kept(workdir: Path, given: GivenFiles) -> None:
    """Raises ValueError if scores of other files, or of other lines, are kept under this name."""
    for file, scores in _kept_scores(workdir, given.name):
        if scores.get("sha256") != given.sha256:
            files = " and ".join(map(str, scores.get("files") or ["other files"]))
            raise ValueError(
                f"{file} has the scores of {files} as they were: choose another --name, or "
                "remove it"
            )


def check_kept_split(workdir: Path, direction: str, scored: ScoredText) -> None:
    """Raises ValueError if scores of another text, or of the other direction, are kept for it."""
    now = {"direction": direction, "split_fingerprint": scored.facts["split_fingerprint"]}
    for file, scores in _kept_scores(workdir, scored.name):
        if any(scores.get(key, value) != value for key, value in now.items()):
            raise ValueError(
                f"{file} has the scores of another {scored.name}, {scores.get('direction')} as it "
                "was: remove it to score this one, or give files as --source and --reference with "
                "a --name"
            )


def _kept_scores(workdir: Path, name: str) -> list[tuple[Path, dict[str, Any]]]:
    """All scores under this name, with their files."""
    path, curve = workdir / "scores" / f"{name}.json", curve_file(workdir, name)
    of_last = [(path, read_json(path))] if path.exists() else []
    return [*((curve, scores) for scores in read_curve(curve)), *of_last]


def curve_file(workdir: Path, name: str) -> Path:
    """The file with the scores of every checkpoint, one line each."""
    return workdir / "scores" / f"{name}.checkpoints.jsonl"


def read_curve(path: Path) -> list[dict[str, Any]]:
    """The scores of every checkpoint; none if there is no such file. Damaged lines are left out."""
    curve = []
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            curve.append(json.loads(line))
    return [each for each in curve if isinstance(each, dict) and isinstance(each.get("step"), int)]


def check_split(workdir: Path, before: Any, now: Sections, split: str) -> None:
    """Raises ValueError if `split` differs from the one in training.

    Args:
      before: the config of the run, section by section.
    """
    if split not in ("train", "dev", "test"):
        return
    asked = getattr(now.data, split)
    if asked != (its := before["data"].get(split)):
        advice = ""
        if now.data.task == "translation":
            files = "--source=FILE --reference=FILE --name=NAME"
            advice = f": score other files with {files}, without --split"
        raise ValueError(
            f"data.{split}={asked!r}, but the run in {workdir} has {its!r}, whose scores its "
            f"scores/{split}.json keeps{advice}"
        )


def given_text(sections: Sections, vocabulary: Vocabulary, given: GivenFiles) -> ScoredText:
    """The given lines, tokenised with this vocabulary.

    Raises:
      ValueError: the model does not translate, or a line has no tokens.
    """
    if sections.data.task != "translation":
        raise ValueError(
            f"--source and --reference are of a translation, but the model has learned "
            f"data.task={sections.data.task!r}"
        )
    dtype = np.dtype(np.int32)
    tokenised = Tokenise("translation", vocabulary, (), None, dtype.name)(_Lines(given.pairs))
    if tokenised.dropped:
        number = sum(tokenised.dropped.values())
        raise ValueError(
            f"{number:,} of the {len(given.pairs):,} lines of {' and '.join(given.files)} have no "
            "tokens on a side, for this model's tokenizer"
        )
    split = PreparedSplit(*_arrays(tokenised.source, dtype), *_arrays(tokenised.target, dtype))
    fingerprint = sha256_of([vocabulary.fingerprint, given.sha256])[:16]
    prepared = Prepared(Path(), vocabulary, {given.name: split}, fingerprint, {}, ())
    facts = {
        "name": given.name,
        "files": given.files,
        "sha256": given.sha256,
        "sentences": len(given.pairs),
    }
    return ScoredText(given.name, facts, prepared, lambda: given.pairs)


class _Lines(NamedTuple):
    pairs: list[tuple[str, str]]

    def decode(self) -> list[tuple[str, ...]]:
        return [*self.pairs]


def _arrays(side: Side, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Concatenated ids, and where each sentence begins and the last one ends."""
    return np.frombuffer(side.ids, dtype), np.concatenate([[0], np.cumsum(side.lengths)])
