"""How fast this machine prepares a corpus as large as the paper's, and in how much memory.

    python -m experiments.benchmarks.prepare_speed --pairs=4500000 --directory=DIR

Writes text files of invented words, Zipf-distributed like real ones, in sentences of 25 tokens on
average with a WMT-like spread of lengths, then prepares them twice as `t2t-jax prepare` does and
prints time and memory. Memory is the total resident memory of the command and its worker processes.
--keep keeps the prepared corpus, and reuses text from a run before. Both are in DIR/invented-PAIRS.
"""

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags

from t2t_jax.cli.command import parse_flags

_LANGUAGES = ("en", "de")
_WORDS = 200_000  # distinct words per language
_MORPHEMES = 1_000  # that they are made of
_LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
# Zipf-Mandelbrot law: the frequency of word r + 1 is proportional to 1 / (r + _SHIFT).
_SHIFT = 2.7
# Words per sentence: mean and spread of the logarithm, and the longest.
_LOG_LENGTH, _LOG_SPREAD, _LONGEST = 2.67, 0.6, 200
_PAIRS_AT_ONCE = 100_000
_EVALUATION_PAIRS = 3_000
_SECONDS_BETWEEN_SAMPLES = 0.1


class Event(NamedTuple):
    """A line of the log, and the time spent when it came."""

    line: str
    seconds: float
    cpu_seconds: float  # of all processes


class Measured(NamedTuple):
    """One call of `t2t-jax prepare`."""

    events: list[Event]  # the last one, without a line, is the end
    peak_memory_mib: float

    def until(self, start: str) -> Event:
        """The last event whose line starts with `start`."""
        return [event for event in self.events if event.line.startswith(start)][-1]


def write_corpus(directory: Path, num_pairs: int) -> None:
    """Writes train, dev and test, always the same bytes for the same number of pairs."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, language in enumerate(_LANGUAGES):
        generator = np.random.default_rng(number)
        words = _invented_words(generator)
        # Each word followed by a space, then each word at the end of a line.
        pieces = np.array([word + end for end in (b" ", b"\n") for word in words], object)
        sizes = {"train": num_pairs, "dev": _EVALUATION_PAIRS, "test": _EVALUATION_PAIRS}
        for split, size in sizes.items():
            with (directory / f"{split}.{language}").open("wb") as stream:
                for start in range(0, size, _PAIRS_AT_ONCE):
                    num_lines = min(_PAIRS_AT_ONCE, size - start)
                    # Both sides of a pair have equally many words.
                    lengths = _lengths(np.random.default_rng((start, *split.encode())), num_lines)
                    ids = _zipf(generator, int(lengths.sum()))
                    ids[np.cumsum(lengths) - 1] += _WORDS
                    stream.write(b"".join(pieces[ids].tolist()))


def _invented_words(generator: np.random.Generator) -> list[bytes]:
    """Distinct words, short ones first."""
    letters = np.array(list(_LETTERS))
    weights = 1 / np.arange(1, len(letters) + 1)
    lengths = generator.integers(1, 5, _MORPHEMES)
    drawn = "".join(generator.choice(letters, lengths.sum(), p=weights / weights.sum()))
    ends = np.cumsum(lengths)
    morphemes = [drawn[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    size = 2 * _WORDS  # some of them equal
    nums_morphemes = 1 + generator.binomial(3, np.minimum(0.6, np.arange(size) / 20_000))
    # Some morphemes are more frequent than others.
    chosen = (_MORPHEMES * generator.random((size, 4)) ** 3).astype(int).tolist()
    words = dict.fromkeys(
        "".join([morphemes[k] for k in row[:number]])
        for row, number in zip(chosen, nums_morphemes.tolist(), strict=True)
    )
    return [word.encode() for word in itertools.islice(words, _WORDS)]


def _lengths(generator: np.random.Generator, size: int) -> np.ndarray:
    lengths = generator.lognormal(_LOG_LENGTH, _LOG_SPREAD, size)
    return np.clip(np.rint(lengths), 1, _LONGEST).astype(np.int64)


def _zipf(generator: np.random.Generator, size: int) -> np.ndarray:
    """Word numbers, drawn by the inverse of the distribution function."""
    ranks = _SHIFT * ((_WORDS + _SHIFT) / _SHIFT) ** generator.random(size) - _SHIFT
    return ranks.astype(np.int64)


def measure(directory: Path, *more_flags: str) -> Measured:
    """Prepares the corpus in `directory`, in a process of its own."""
    command = [
        *(sys.executable, "-m", "t2t_jax.cli.main", "prepare", "--config=configs/base.py"),
        *("--config.data.source=text", f"--config.data.directory={directory}"),
        *("--config.data.dev=dev", "--config.data.test=test"),
        f"--config.data.cache={directory / 'cache'}",
        *more_flags,
    ]
    events = []
    started = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        memory = _PeakMemory(process.pid)
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            spent = time.monotonic() - started, _spent_by(process.pid).cpu_seconds
            events.append(Event(line, *spent))
        peak_memory = memory.stop() / 2**20
        before_its_end = _spent_by(process.pid).cpu_seconds
    events.append(Event("", time.monotonic() - started, before_its_end))
    if process.returncode != 0:
        sys.exit(process.returncode)  # its output says why
    return Measured(events, peak_memory)


class _PeakMemory:
    """Watches the resident memory of a process and its children."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._peak = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """Stops watching; returns the peak in bytes."""
        self._is_over.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._is_over.wait(_SECONDS_BETWEEN_SAMPLES):
            self._peak = max(self._peak, _spent_by(self._process_id).resident_bytes)


class _Spent(NamedTuple):
    resident_bytes: int
    cpu_seconds: float


def _spent_by(process_id: int) -> _Spent:
    """Memory and CPU time of a process and all its descendants, as Linux reports them."""
    folder = Path("/proc", str(process_id))
    try:
        fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        threads = (folder / "task").iterdir()
        texts = [(thread / "children").read_text() for thread in threads]
    except OSError:  # it has ended in the meantime
        return _Spent(0, 0.0)
    # Its own, and those of children that have ended, in user and in system mode.
    ticks = sum(map(int, fields[11:15]))
    of_children = [_spent_by(int(child)) for text in texts for child in text.split()]
    return _Spent(
        int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        + sum(one.resident_bytes for one in of_children),
        ticks / os.sysconf("SC_CLK_TCK") + sum(one.cpu_seconds for one in of_children),
    )


def measure_twice(directory: Path, *more_flags: str) -> dict[str, Any]:
    """The costs of a first and a second `prepare` of the corpus there.

    A small corpus logs no line for counting its words, which then counts as learning.
    """
    first, second = measure(directory, *more_flags), measure(directory, *more_flags)
    (manifest_file,) = (directory / "cache").glob("*/manifest.json")
    train = json.loads(manifest_file.read_text())["splits"]["train"]
    num_pairs = train["pairs"] + sum(train["dropped"].values())
    told = [event for event in first.events if event.line.startswith("read words")]
    counted = [Event("", 0, 0), *told][-1]
    lines = ("vocabulary:", "train:", "prepared data written")
    learned, tokenised, written = map(first.until, lines)
    tokenising = tokenised.seconds - learned.seconds
    cpu_of_tokenising = tokenised.cpu_seconds - learned.cpu_seconds
    phases = {
        "start, check, count the words": (Event("", 0, 0), counted),
        "learn the pieces": (counted, learned),
        "tokenise": (learned, tokenised),
        "finish": (tokenised, written),
        "all of it": (Event("", 0, 0), first.events[-1]),
        "second prepare": (Event("", 0, 0), second.events[-1]),
    }
    return {
        "pairs": train["pairs"],
        "source_tokens_per_pair": round(train["source_tokens"] / train["pairs"], 1),
        "target_tokens_per_pair": round(train["target_tokens"] / train["pairs"], 1),
        "pairs_per_second_tokenised": round(num_pairs / tokenising),
        "pairs_per_cpu_second_tokenised": round(num_pairs / cpu_of_tokenising),
        "pairs_per_second": round(num_pairs / first.events[-1].seconds),
        "peak_memory_mib": round(first.peak_memory_mib),
        "seconds": {
            name: round(stop.seconds - start.seconds, 1) for name, (start, stop) in phases.items()
        },
        "cpu_seconds": {
            name: round(stop.cpu_seconds - start.cpu_seconds, 1)
            for name, (start, stop) in phases.items()
        },
    }


def main(argv: list[str]) -> None:
    """Reads the flags and measures."""
    del argv
    # Of its own: somebody may name the directory of a corpus.
    num_pairs = flags.FLAGS.pairs
    directory = Path(flags.FLAGS.directory) / f"invented-{num_pairs}"
    if not (flags.FLAGS.keep and (directory / "test.de").exists()):
        write_corpus(directory, num_pairs)
    shutil.rmtree(directory / "cache", ignore_errors=True)
    print(json.dumps(measure_twice(directory), indent=2))
    if not flags.FLAGS.keep:
        shutil.rmtree(directory / "cache")


if __name__ == "__main__":
    flags.DEFINE_integer("pairs", 200_000, "sentence pairs in train", lower_bound=1)
    flags.DEFINE_string("directory", None, "where the corpus and the prepared data go")
    flags.DEFINE_bool("keep", False, "keep the prepared data; reuse existing text")
    flags.mark_flag_as_required("directory")
    app.run(main, flags_parser=functools.partial(parse_flags, "prepare_speed"))
