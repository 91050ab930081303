"""Builds the contents of a prepared directory: the vocabulary, then the arrays of each split.

Finished parts stay in the directory, and the next build there continues after them.
"""

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.corpus import Chunk, class_names, corpora_of, split_names
from t2t_jax.data.prepare import manifest as manifests
from t2t_jax.data.prepare.teaching import learn_from_train
from t2t_jax.data.prepare.tokenise import TOO_LONG, Tokenise
from t2t_jax.data.prepare.unfinished import (
    ARRAYS,
    Entry,
    Unfinished,
    array_file,
    begun_with,
    write_whole,
    writing,
)
from t2t_jax.data.prepare.workers import num_cores, ordered_map
from t2t_jax.data.vocabulary.vocabulary import Vocabulary

VOCABULARY = "vocabulary.model"
# Half a second's work, which is what a kill loses. Fewer if examples are long, to save memory.
_EXAMPLES_PER_CHUNK = 25_000
_CHARACTERS_PER_CHUNK = 10_000_000
_EXAMPLES_TO_MEASURE = 200
# Fewer are done before other processes have started, or anyone has looked for a bar.
_FEW_CHUNKS = 2


class Bar(Protocol):
    """Shows how many of a number of examples are done."""

    def update(self, done: int, text: str) -> None:
        """`done` examples are done; `text` names them."""


# Called with a name, the number of examples, and how many of them were done before.
MakeBar = Callable[[str, int, int], contextlib.AbstractContextManager[Bar]]


class BuildOptions(NamedTuple):
    """How to build; none of these options changes a byte of the result."""

    log: Callable[[str], None]  # called with lines of text
    make_bar: MakeBar | None  # for long work
    num_processes: int | None  # None: by the machine's cores and the corpus's size


def build(
    config: DataConfig, directory: Path, vocabulary: Vocabulary | None, options: BuildOptions
) -> dict[str, Any]:
    """Builds in `directory` and returns the manifest, except for what the corpus is built from.

    Raises:
      ValueError: a text is not UTF-8, the vocabulary cannot be learned, or nothing is left of a
        split.
      OSError: a file cannot be written, or a process was killed; in words.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    sizes = {
        split: tuple(each.num_examples(split) for each in corpora_of(config, split).values())
        for split in split_names(config)
    }
    per_chunk = _examples_per_chunk(config)
    names = []
    if vocabulary is None:
        vocabulary = _learned(config, directory, sizes["train"], per_chunk, options)
        names.append(VOCABULARY)
    # Half the memory, if ids fit.
    dtype = np.dtype(np.uint16 if vocabulary.size <= 1 << 16 else np.int32)
    classes = class_names(config)
    identity = {
        "vocabulary": vocabulary.fingerprint,
        manifests.MADE_WITH: vocabulary.libraries,
        "ids_dtype": dtype.name,
        "examples_per_chunk": per_chunk,
    }
    splits = {}
    with Unfinished(directory, identity, dtype.itemsize) as unfinished:
        if unfinished.entries:
            num_done = sum(entry.num_examples for entry in unfinished.entries)
            options.log(f"resuming after {num_done:,} {_examples(config)} of an earlier run")
        for split in split_names(config):
            max_length = config.max_length if split == "train" else None
            tokenise = Tokenise(config.task, vocabulary, classes, max_length, dtype.name)
            _tokenise_split(config, split, sizes[split], per_chunk, tokenise, unfinished, options)
            splits[split] = _split_entry(config, split, unfinished, dtype.itemsize)
            for line, num_pairs in split_lines(config, split, splits[split]):
                options.log(line)
                if num_pairs == 0:
                    raise ValueError(f"nothing is left of the corpus: {line}")
            names += [array_file(directory, split, name).name for name in ARRAYS]
    files = manifests.described_files([directory / name for name in sorted(names)])
    return {
        "format": manifests.FORMAT,
        "direction": config.direction,
        "fingerprint": _fingerprint(files, classes, splits["train"]),
        "vocabulary_fingerprint": vocabulary.fingerprint,
        "vocabulary_size": vocabulary.size,
        manifests.MADE_WITH: vocabulary.libraries,
        "ids_dtype": dtype.name,
        "splits": splits,
        "files": files,
        "classes": classes,
    }


def split_lines(config: DataConfig, split: str, entry: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """What was kept and dropped, in words, and how many were kept; also per corpus of a mixture."""
    # The names of today: an unchanged mixture may have been prepared from other directories.
    for (name, _), corpus in zip(config.corpora, entry.get("corpora", ()), strict=False):
        yield f"{split} of {name}: {_kept_and_dropped(config, corpus)}", corpus["pairs"]
    yield f"{split}: {_kept_and_dropped(config, entry)}", entry["pairs"]


def _kept_and_dropped(config: DataConfig, entry: dict[str, Any]) -> str:
    words = {"blank": "blank", TOO_LONG: f"over {config.max_length} tokens"}
    dropped = [
        f"{number:,} {words.get(reason, f'with {reason}')}"
        for reason, number in entry["dropped"].items()
    ]
    kept = f"{entry['pairs']:,} {_examples(config)} kept"
    return f"{kept}; dropped: {', '.join(dropped)}" if dropped else kept


def _examples(config: DataConfig) -> str:
    return "pairs" if config.task == "translation" else "sentences"


def _examples_per_chunk(config: DataConfig) -> int:
    """How many examples a process holds in memory, by the corpus that begins with the longest."""
    fitting = _EXAMPLES_PER_CHUNK
    for corpus in corpora_of(config, "train").values():
        examples = next(corpus.read_chunks("train", _EXAMPLES_TO_MEASURE)).decode()
        num_characters = sum(len(text) for example in examples for text in example)
        fitting = min(fitting, _CHARACTERS_PER_CHUNK * len(examples) // max(num_characters, 1))
    return max(1, fitting)


def _learned(
    config: DataConfig,
    directory: Path,
    sizes: tuple[int, ...],
    per_chunk: int,
    options: BuildOptions,
) -> Vocabulary:
    """The vocabulary of train, possibly learned by an earlier run that was killed."""
    file = directory / VOCABULARY
    if file.is_file():
        with contextlib.suppress(ValueError):  # damaged by a power cut
            vocabulary = Vocabulary.load(file)
            if begun_with(directory).get("vocabulary") == vocabulary.fingerprint:
                options.log(f"vocabulary: {vocabulary.size:,} pieces, learned by an earlier run")
                return vocabulary
    total = sum(sizes)
    with _bar(options, "read words of train", total, 0, per_chunk) as bar:
        vocabulary = learn_from_train(
            config,
            sizes,
            examples_per_chunk=per_chunk,
            num_processes=_num_processes(options, total, per_chunk),
            progress=lambda done: bar.update(done, _examples(config)),
        )
    write_whole(file, vocabulary.model)
    options.log(
        f"vocabulary: {vocabulary.size:,} {config.vocabulary_kind} pieces learned from train"
    )
    return vocabulary


def _tokenise_split(
    config: DataConfig,
    split: str,
    sizes: tuple[int, ...],
    per_chunk: int,
    tokenise: Tokenise,
    unfinished: Unfinished,
    options: BuildOptions,
) -> None:
    """Adds the missing chunks of the split."""
    num_done = sum(entry.num_examples for entry in unfinished.entries if entry.split == split)
    total = sum(sizes)
    if num_done == total:
        return
    corpora = corpora_of(config, split).values()
    num_there = [len(unfinished.of(split, number)) for number in range(len(corpora))]
    on_their_way: collections.deque[int] = collections.deque()  # the corpus of each chunk

    def missing() -> Iterator[Chunk]:
        for number, corpus in enumerate(corpora):
            chunks = corpus.read_chunks(split, per_chunk)
            for chunk in itertools.islice(chunks, num_there[number], None):
                on_their_way.append(number)
                yield chunk

    num_processes = _num_processes(options, total - num_done, per_chunk)
    with (
        _bar(options, f"tokenise {split}", total, num_done, per_chunk) as bar,
        contextlib.closing(ordered_map(tokenise, missing(), num_processes)) as tokenised,
    ):
        for chunk in tokenised:
            unfinished.add(split, on_their_way.popleft(), chunk)
            num_done += chunk.num_examples
            bar.update(num_done, _examples(config))


def _split_entry(
    config: DataConfig, split: str, unfinished: Unfinished, bytes_per_id: int
) -> dict[str, Any]:
    """The manifest's entry for a split."""
    names = list(corpora_of(config, split))
    of_corpora = [unfinished.of(split, number) for number in range(len(names))]
    all_entries = list(itertools.chain.from_iterable(of_corpora))
    num_bytes = dict(zip(ARRAYS, all_entries[-1].num_bytes, strict=True))
    entry = _sums(all_entries) | {
        "source_tokens": num_bytes["source_ids"] // bytes_per_id,
        "target_tokens": num_bytes["target_ids"] // bytes_per_id,
    }
    if names != [""]:
        corpora = zip(names, of_corpora, strict=True)
        entry["corpora"] = [{"name": name} | _sums(entries) for name, entries in corpora]
    return entry


def _sums(entries: Iterable[Entry]) -> dict[str, Any]:
    num_pairs, dropped = 0, collections.Counter()
    for entry in entries:
        num_pairs += entry.num_pairs
        dropped.update(entry.dropped)
    return {"pairs": num_pairs, "dropped": dict(sorted(dropped.items()))}


def _fingerprint(files: dict[str, Any], classes: tuple[str, ...], train: dict[str, Any]) -> str:
    """16 hexadecimal digits over a learned vocabulary, all token ids and how they are divided."""
    parts: dict[str, Any] = {"files": files}
    if classes:
        parts["classes"] = classes
    if "corpora" in train:
        parts["corpora"] = [corpus["pairs"] for corpus in train["corpora"]]
    return manifests.sha256_of(parts if len(parts) > 1 else files)[:16]


def _num_processes(options: BuildOptions, num_examples: int, per_chunk: int) -> int:
    number = options.num_processes
    if number is None:
        number = num_cores() if num_examples >= _FEW_CHUNKS * per_chunk else 1
    return min(number, -(-num_examples // per_chunk))


def _bar(
    options: BuildOptions, name: str, total: int, start: int, per_chunk: int
) -> contextlib.AbstractContextManager[Bar]:
    is_long = total - start >= _FEW_CHUNKS * per_chunk
    return options.make_bar(name, total, start) if options.make_bar and is_long else _NoBar()


class _NoBar(contextlib.nullcontext):
    def __enter__(self) -> "_NoBar":
        return self

    def update(self, done: int, text: str) -> None:
        """Shows nothing."""
