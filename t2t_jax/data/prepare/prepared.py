"""Token ids on disk: sentences are tokenised once, then read as memory-mapped arrays.

A prepared corpus is a directory named after all it depends on: the config keys that change a
token, and the bytes of the input. It holds `manifest.json`, `vocabulary.model` if one was learned,
and four arrays per split, `SPLIT.{source,target}_{ids,offsets}.bin`. It is built under another name
and renamed when complete, so a directory under its final name is complete. The next process
completes what a killed one leaves; two at once do not disturb each other.

If `data.cache` is in a bucket, one machine builds a directory and uploads it, and every other
machine downloads it once. The manifest is uploaded last, and shows that all files are there.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import DTypeLike

from t2t_jax import buckets
from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.corpus import check_corpus, content_hashes, make_ready
from t2t_jax.data.corpora.text_files import UnreadableError
from t2t_jax.data.prepare import manifest as manifests
from t2t_jax.data.prepare.building import VOCABULARY, BuildOptions, MakeBar, build, split_lines
from t2t_jax.data.prepare.unfinished import (
    ARRAYS,
    WHAT_IS_LEFT,
    array_file,
    finish,
    only_one_process,
    writing,
)
from t2t_jax.data.vocabulary.vocabulary import Vocabulary


class PreparedSplit(NamedTuple):
    """Pair p is `source_ids[source_offsets[p] : source_offsets[p + 1]]`, likewise for the target.

    translation                two sentences, each with the end token, without a start token
    language_modelling         source: nothing; target: a sentence with the end token
    masked_language_modelling  source and target: the same sentence with start and end tokens
    classification             source: a sentence with start and end tokens; target: 1 + its class

    All arrays are memory-mapped and read-only. The pairs of a mixture are ordered by corpus:
    corpus c ends before pair `corpus_ends[c]`.
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray
    corpus_ends: tuple[int, ...] = ()  # (): one corpus, see `ends`

    @property
    def ends(self) -> tuple[int, ...]:
        """`corpus_ends`; for a single corpus, its number of pairs."""
        return self.corpus_ends or (self.num_pairs,)

    @property
    def num_pairs(self) -> int:
        """Number of sentence pairs, or of sentences for tasks without pairs."""
        return len(self.source_offsets) - 1

    @property
    def source_lengths(self) -> Int[np.ndarray, " pairs"]:
        """Tokens of each source, start and end tokens included."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> Int[np.ndarray, " pairs"]:
        """Tokens of each target, start and end tokens included."""
        return np.diff(self.target_offsets)


class Prepared(NamedTuple):
    """A corpus as token ids."""

    directory: Path
    vocabulary: Vocabulary
    splits: dict[str, PreparedSplit]
    fingerprint: str  # 16 hexadecimal digits over a learned vocabulary and all token ids
    manifest: dict  # direction, pairs and tokens, what was dropped and why, sha256 of each file
    classes: tuple[str, ...]  # class names by number; none unless the task is classification


def prepare(
    config: DataConfig,
    log: Callable[[str], None],
    vocabulary: Vocabulary | None = None,
    *,
    make_bar: MakeBar | None = None,
    num_processes: int | None = None,
) -> Prepared:
    """Learns the vocabulary and tokenises every split, or loads the result of an earlier call.

    Pairs with a `drop_reason` are dropped from every split; pairs with a side of more than
    `max_length` tokens only from train, so that every model is scored on the same sentences.

    Args:
      log: called with lines of text: what is done, what is kept and dropped of each split, and
        the directory.
      vocabulary: used instead of learning one.
      make_bar: makes a progress bar; called with a name, the number of examples, and how many of
        them are already done. No bar if None, or if the corpus is small.
      num_processes: None: chosen automatically. The bytes written do not depend on it.

    Raises:
      ValueError: the input is wrong (see `check_corpus`), the vocabulary cannot be learned (see
        `learn_vocabulary`), nothing is left of a split, or the prepared files are damaged.
      OSError: a file cannot be written, or a worker process was killed; finished parts are kept
        for the next call.
    """
    if vocabulary is not None and config.task == "masked_language_modelling":
        if not vocabulary.has_mask:
            raise ValueError(f"data.task={config.task!r} needs a vocabulary with a mask token")
    make_ready(config, log)
    made_from = {
        "config": manifests.settings(config, vocabulary),
        "inputs": content_hashes(config),
        "place": manifests.place(config),
    }
    key = manifests.cache_key(made_from["config"], made_from["inputs"])
    if buckets.is_bucket(config.cache):
        cache = buckets.local_cache(config.cache)
    else:
        cache = buckets.local_path(config.cache, "data.cache")
    options = BuildOptions(log, make_bar, num_processes)
    asked = _Asked(config, cache / key, made_from, vocabulary, options)
    if buckets.is_bucket(config.cache):
        return _prepared_by_bucket(f"{config.cache.rstrip('/')}/{key}", asked)
    return _prepared_here(asked)


class _Asked(NamedTuple):
    """What is to be prepared, and where on this machine."""

    config: DataConfig
    directory: Path
    made_from: dict[str, Any]  # all that its bytes depend on
    vocabulary: Vocabulary | None  # given, not learned
    options: BuildOptions


def _prepared_here(asked: _Asked) -> Prepared:
    config, directory, _, vocabulary, (log, *_) = asked
    if not directory.exists():
        check_corpus(config)
        with only_one_process(directory.with_name(f".{directory.name}.lock"), log):
            if not directory.exists():  # another process may have made it in the meantime
                _build_aside(asked)
                prepared = _load(directory, vocabulary)
                log(f"prepared data written to {directory}")
                return prepared
    prepared = _load(directory, vocabulary)
    for split, entry in prepared.manifest["splits"].items():
        for line, _ in split_lines(config, split, entry):
            log(line)
    if versions := manifests.other_versions(prepared.manifest, prepared.vocabulary):
        log(versions)
    log(f"nothing has changed: prepared data loaded from {directory}")
    return prepared


def _prepared_by_bucket(url: str, asked: _Asked) -> Prepared:
    """`_prepared_here`, in this machine's copy of `url`, which is in a bucket."""
    directory, log = asked.directory, asked.options.log
    is_there = (buckets.place(url) / manifests.FILE).exists()
    if is_there and not directory.exists():
        with only_one_process(directory.with_name(f".{directory.name}.lock"), log):
            if not directory.exists():
                aside = directory.with_name(f".{directory.name}.fetched")
                shutil.rmtree(aside, ignore_errors=True)
                buckets.fetch(url, aside)
                try:
                    manifests.checked_manifest(aside)
                except UnreadableError:
                    raise
                except ValueError as error:
                    raise ValueError(f"{url} is damaged: delete it and prepare again") from error
                aside.rename(directory)
                log(f"prepared data fetched from {url}")
    prepared = _prepared_here(asked)
    if not is_there:
        buckets.send(directory, url, last=manifests.FILE)
        log(f"prepared data sent to {url}")
    return prepared


def already_prepared(config: DataConfig) -> Prepared | None:
    """The result of an earlier call of `prepare` with this config, or None.

    Nothing is built or fetched: a corpus that is not on this machine gives None.

    Raises:
      ValueError: the prepared files are damaged.
    """
    try:
        inputs = content_hashes(config)
    except (OSError, ValueError, LookupError):
        return None
    key = manifests.cache_key(manifests.settings(config, None), inputs)
    cache = config.cache
    here = buckets.local_cache(cache) if buckets.is_bucket(cache) else Path(cache).expanduser()
    return _load(here / key, None) if (here / key).exists() else None


def _build_aside(asked: _Asked) -> None:
    config, directory, made_from, vocabulary, options = asked
    changes = manifests.changes(directory.parent, made_from)
    if changes:
        options.log(f"prepared anew: {changes}")
    for other in sorted(directory.parent.glob(".*.unfinished")):
        if other.name != f".{directory.name}.unfinished":
            options.log(f"{other} is of another config or corpus: delete it if nobody is making it")
    unfinished = directory.with_name(f".{directory.name}.unfinished")
    try:
        manifest = build(config, unfinished, vocabulary, options) | made_from
        if content_hashes(config) != made_from["inputs"]:
            raise ValueError("the corpus was changed while it was read: run the same command again")
    except UnreadableError:  # which may not come again
        raise
    except ValueError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    except ChildProcessError as error:
        raise ChildProcessError(f"{error}: {WHAT_IS_LEFT}") from error
    with writing(unfinished):
        manifests.write_manifest(unfinished, manifest)
    finish(unfinished, directory)


def _load(directory: Path, vocabulary: Vocabulary | None) -> Prepared:
    manifest = manifests.checked_manifest(directory)
    splits = {}
    for split, entry in manifest["splits"].items():
        arrays = {}
        for name in ARRAYS:
            dtype = np.int64 if name.endswith("offsets") else manifest["ids_dtype"]
            arrays[name] = _mapped(array_file(directory, split, name), dtype)
        sizes = [corpus["pairs"] for corpus in entry.get("corpora", [entry])]
        splits[split] = PreparedSplit(**arrays, corpus_ends=tuple(np.cumsum(sizes).tolist()))
    vocabulary = vocabulary or Vocabulary.load(directory / VOCABULARY)
    classes = tuple(manifest["classes"])
    return Prepared(directory, vocabulary, splits, manifest["fingerprint"], manifest, classes)


def _mapped(file: Path, dtype: DTypeLike) -> np.ndarray:
    if file.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # A plain view of the mapped memory: indexing np.memmap itself is slow.
    return np.asarray(np.memmap(file, dtype, mode="r"))
