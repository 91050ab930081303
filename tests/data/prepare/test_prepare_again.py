"""Preparing when killed, out of space or done twice at once; mixtures; odd lines."""

import contextlib
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from t2t_jax.data.corpora.text_files import UnreadableError
from t2t_jax.data.prepare import building
from t2t_jax.data.prepare.prepared import PreparedSplit, prepare
from t2t_jax.data.prepare.tokenise import Tokenise
from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary
from tests.data.prepare_corpus import PAIRS_PER_CHUNK
from tests.data.text_corpus import sentence_pairs, text_config, write_pairs

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(building, "_EXAMPLES_PER_CHUNK", PAIRS_PER_CHUNK)
    monkeypatch.setattr(building, "num_cores", lambda: 1)  # processes take a second to start


def silent(line: str) -> None:
    """Takes the log lines nobody asks for."""


def contents(prepared):
    return {name: (prepared.directory / name).read_bytes() for name in prepared.manifest["files"]}


def started(directory, num_processes=1, *limit):
    """`prepare` as a program, which may be told how large a file may be."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.data.prepare_corpus"]
        + [str(argument) for argument in (directory, num_processes, *limit)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Killed(BaseException):
    """Stands for a signal; nothing may catch it."""


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("last_chunk", [0, 1, 5, 11, 12, 14, 16])
def test_what_a_killed_run_has_finished_is_not_done_again(directory, monkeypatch, last_chunk):
    whole = prepare(text_config(directory, cache=str(directory / "other")), silent)
    num_tokenised = [0]

    def counted(self, chunk, tokenise=Tokenise.__call__):
        if num_tokenised[0] == last_chunk:
            raise Killed
        num_tokenised[0] += 1
        return tokenise(self, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(Tokenise, "__call__", counted)
        with pytest.raises(Killed):
            prepare(text_config(directory), silent)
        (left,) = (directory / "cache").iterdir()
        assert left.name.endswith(".unfinished")
        # The second run may tokenise the rest of the 12 + 3 + 3 chunks, and learns nothing.
        num_tokenised[0] = last_chunk - 18
        last_chunk = None
        patch.setattr(building, "learn_from_train", None)
        lines = []
        prepared = prepare(text_config(directory), lines.append)
    assert num_tokenised == [0]
    assert lines[0] == "vocabulary: 60 pieces, learned by an earlier run"
    assert contents(prepared) == contents(whole)
    assert prepared.fingerprint == whole.fingerprint
    assert os.listdir(directory / "cache") == [prepared.directory.name]


def test_a_run_that_is_killed_from_outside_is_completed_by_the_same_command(directory):
    write_pairs(directory, "train", sentence_pairs(80) * 200)
    journal = None
    with started(directory) as process:
        deadline = time.monotonic() + 60
        while journal is None or journal.read_bytes().count(b"\n") < 5:
            assert time.monotonic() < deadline and process.poll() is None
            journal = next((directory / "cache").glob(".*.unfinished/journal.jsonl"), None)
        process.send_signal(signal.SIGKILL)
    with started(directory) as process:
        output, _ = process.communicate(timeout=120)
    first, second, *_, fingerprint = output.splitlines()
    assert first == "vocabulary: 60 pieces, learned by an earlier run"
    assert second.startswith("resuming after ") and second.endswith(" of an earlier run")
    prepared = prepare(text_config(directory, cache=str(directory / "other")), silent)
    assert fingerprint == prepared.fingerprint


def test_a_kill_between_the_last_chunk_and_the_name_costs_nothing(directory, monkeypatch):
    from t2t_jax.data.prepare import prepared as prepared_module

    whole = prepare(text_config(directory, cache=str(directory / "other")), silent)

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(prepared_module, "finish", killed)
        with pytest.raises(Killed):
            prepare(text_config(directory), silent)
    assert contents(prepare(text_config(directory), silent)) == contents(whole)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_worker_processes_write_the_same_bytes(directory, monkeypatch, kind):
    monkeypatch.setattr(building, "_EXAMPLES_PER_CHUNK", 30)
    changes = {"vocabulary_kind": kind, "vocabulary_size": 40}
    one = prepare(text_config(directory, **changes), silent, num_processes=1)
    other = text_config(directory, cache=str(directory / "other"), **changes)
    two = prepare(other, silent, num_processes=2)
    assert contents(one) == contents(two) and one.manifest == two.manifest


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_full_disk_is_told_in_a_sentence_and_then_gone_on_from(directory, num_processes):
    write_pairs(directory, "train", sentence_pairs(80))
    with started(directory, num_processes, 2_000) as process:
        output, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert error.startswith("failed: ") and error.count("\n") == 1
    assert "(File too large): finished work is kept; run the same command again" in error
    lines = []
    prepared = prepare(text_config(directory), lines.append)
    if "vocabulary:" in output:
        assert lines[0] == "vocabulary: 60 pieces, learned by an earlier run"
    other = prepare(text_config(directory, cache=str(directory / "other")), silent)
    assert contents(prepared) == contents(other)


def test_a_worker_that_was_killed_leaves_what_is_finished(directory, monkeypatch):
    def killed(*_):
        raise ChildProcessError("a worker process has been ended")

    with monkeypatch.context() as patch:
        patch.setattr(building, "ordered_map", killed)
        with pytest.raises(OSError, match="been ended: finished work is kept; run the same"):
            prepare(text_config(directory), silent)
    lines = []
    prepare(text_config(directory), lines.append)
    assert lines[0] == "vocabulary: 60 pieces, learned by an earlier run"


def test_two_processes_at_once_work_once(directory):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(directory)) for _ in range(2)]
        outputs = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    prepared = prepare(text_config(directory), silent)
    assert [output[-1] for output in outputs] == [prepared.fingerprint] * 2
    # The other has waited, or come when all was done.
    num_learned = sum("learned from train" in line for output in outputs for line in output)
    assert num_learned == 1
    assert os.listdir(directory / "cache") == [prepared.directory.name]


def test_who_has_waited_loads_what_the_other_has_written(directory):
    waits, lines, threads = threading.Event(), [], []

    def log_of_second(line):
        lines.append(line)
        waits.set()

    def log_of_first(line):
        if line.startswith("test:"):
            second = threading.Thread(target=prepare, args=(text_config(directory), log_of_second))
            second.start()
            threads.append(second)
            assert waits.wait(60)

    prepared = prepare(text_config(directory), log_of_first)
    threads[0].join()
    assert lines[0] == "another process is preparing this corpus: waiting for it"
    assert lines[-1] == f"nothing has changed: prepared data loaded from {prepared.directory}"
    assert len(lines) == 5


@pytest.mark.usefixtures("small_chunks")
def test_a_mixture_is_its_corpora_one_after_the_other(directory):
    pairs = sentence_pairs(80)
    parts = {"a": [*pairs[:50], ("", "x")], "b": pairs[50:]}
    for name, part in parts.items():
        (directory / name).mkdir()
        write_pairs(directory / name, "train", part)
    plain = prepare(text_config(directory), silent)
    mixture = f"{directory}/a=1,{directory}/b=3"
    lines = []
    prepared = prepare(text_config(directory, mixture=mixture), lines.append)
    train = prepared.splits["train"]
    assert train.corpus_ends == train.ends == (50, 80)
    assert prepared.splits["dev"].corpus_ends == (20,)
    np.testing.assert_array_equal(train.source_ids, plain.splits["train"].source_ids)
    np.testing.assert_array_equal(train.target_offsets, plain.splits["train"].target_offsets)
    assert prepared.vocabulary.fingerprint == plain.vocabulary.fingerprint
    assert prepared.fingerprint != plain.fingerprint  # what divides train is data too
    assert lines[-5:-3] == [
        f"train of {directory}/b: 30 pairs kept",
        "train: 80 pairs kept; dropped: 1 blank",
    ]
    assert prepared.manifest["splits"]["train"]["corpora"] == [
        {"name": f"{directory}/a", "pairs": 50, "dropped": {"blank": 1}},
        {"name": f"{directory}/b", "pairs": 30, "dropped": {}},
    ]
    # How often each is read is no matter of the token ids.
    other = prepare(text_config(directory, mixture=mixture.replace("=3", "=2")), silent)
    assert other.directory == prepared.directory


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("last_chunk", [3, 8, 10])
def test_a_mixture_is_gone_on_with_where_it_was_killed(directory, monkeypatch, last_chunk):
    pairs = sentence_pairs(80)
    for name, part in {"a": pairs[:50], "b": pairs[50:]}.items():  # 8 and 5 chunks
        (directory / name).mkdir()
        write_pairs(directory / name, "train", part)
    config = text_config(directory, mixture=f"{directory}/a=1,{directory}/b=3")
    chunks = itertools.count()

    def counted(self, chunk, tokenise=Tokenise.__call__):
        if next(chunks) == last_chunk:
            raise Killed
        return tokenise(self, chunk)

    monkeypatch.setattr(Tokenise, "__call__", counted)
    with pytest.raises(Killed):
        prepare(config, silent)
    prepared = prepare(config, silent)
    assert next(chunks) == 1 + 13 + 3 + 3
    assert prepared.splits["train"].ends == (50, 80)
    whole = prepare(dataclasses.replace(config, cache=str(directory / "other")), silent)
    assert contents(prepared) == contents(whole)


def test_a_corpus_of_a_mixture_of_which_nothing_is_left_is_told(directory):
    (directory / "a").mkdir()
    write_pairs(directory / "a", "train", [("x", ""), ("", "y")])
    with pytest.raises(ValueError, match=r"nothing is left .* train of .*/a: 0 pairs kept; dropp"):
        prepare(text_config(directory, mixture=f"{directory}=1,{directory}/a=1"), silent)


def test_a_split_without_ends_is_one_corpus():
    offsets = np.array([0, 1, 2])
    assert PreparedSplit(np.zeros(2), offsets, np.zeros(2), offsets).ends == (2,)


def test_control_characters_are_counted(directory):
    write_pairs(directory, "dev", [("the \0 cat", "die Katze"), ("the cow", "die Kuh")])
    lines = []
    prepare(text_config(directory), lines.append)
    assert "dev: 1 pairs kept; dropped: 1 with control characters" in lines


class Bar(contextlib.nullcontext):
    """Remembers what it was told."""

    told = []

    def __init__(self, name, total, start):
        super().__init__(self)
        self.told.append((name, total, start))

    def update(self, done, text):
        self.told.append((done, text))


@pytest.mark.usefixtures("small_chunks")
def test_progress_of_many_chunks_is_shown_by_the_pair(directory, monkeypatch):
    monkeypatch.setattr(Bar, "told", [])
    prepare(text_config(directory), silent, make_bar=Bar, num_processes=1)
    done = [(min(start + 7, 80), "pairs") for start in range(0, 80, 7)]
    starts = ("read words of train", 80, 0), ("tokenise train", 80, 0), ("tokenise dev", 20, 0)
    assert Bar.told[:26] == [starts[0], *done, starts[1], *done]
    assert Bar.told[26] == starts[2]


def test_of_long_examples_a_chunk_has_fewer(directory, monkeypatch):
    assert building._examples_per_chunk(text_config(directory)) == 25_000
    write_pairs(directory, "train", [("word " * 6_000, "Wort " * 4_000)] * 10)
    assert building._examples_per_chunk(text_config(directory)) == 200
    monkeypatch.setattr(building, "_CHARACTERS_PER_CHUNK", 10)
    assert building._examples_per_chunk(text_config(directory)) == 1


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_a_line_of_a_hundred_thousand_letters_is_no_trouble(directory, kind):
    pairs = [*sentence_pairs(80), ("cat" * 33_333, "Katze " * 50_000)]
    write_pairs(directory, "train", pairs)
    write_pairs(directory, "dev", pairs[-3:])
    config = text_config(directory, vocabulary_kind=kind, vocabulary_size=40)
    prepared = prepare(config, silent)
    assert prepared.manifest["splits"]["train"]["dropped"] == {"too_long": 1}
    ids = prepared.vocabulary.encode(["Katze " * 50_000])[0]
    assert prepared.splits["dev"].target_lengths[-1] == len(ids) + 1


def test_a_corpus_that_changes_while_it_is_read_is_not_kept(directory):
    before = {file: file.read_bytes() for file in directory.glob("train.*")}

    def log(line):
        if line.startswith("vocabulary: "):
            write_pairs(directory, "train", sentence_pairs(80)[:5])

    with pytest.raises(ValueError, match="the corpus was changed while it was read: run the same"):
        prepare(text_config(directory), log)
    for file, content in before.items():
        file.write_bytes(content)
    assert prepare(text_config(directory), silent).splits["train"].num_pairs == 80


def test_a_mixture_moved_since_is_told_by_the_names_of_today(directory):
    for name in ("a", "b"):
        (directory / name).mkdir()
        write_pairs(directory / name, "train", sentence_pairs(80))
    prepare(text_config(directory, mixture=f"{directory}/a=1,{directory}/b=3"), silent)
    (directory / "a").rename(directory / "moved")
    lines = []
    prepare(text_config(directory, mixture=f"{directory}/moved=1,{directory}/b=3"), lines.append)
    assert lines[0] == f"train of {directory}/moved: 80 pairs kept"
    assert lines[-1].startswith("nothing has changed")


def test_what_another_config_has_left_unfinished_is_told(directory):
    left = directory / "cache" / ".0123456789abcdef.unfinished"
    left.mkdir(parents=True)
    lines = []
    prepare(text_config(directory), lines.append)
    assert f"{left} is of another config or corpus: delete it if nobody is making it" in lines


def test_a_cache_that_cannot_be_written_is_told_with_what_names_another(directory):
    (directory / "file").touch()
    with pytest.raises(
        OSError, match=r"file/cache cannot be written \(Not a dir.* data.cache or T"
    ):
        prepare(text_config(directory, cache=str(directory / "file/cache")), silent)


def test_a_given_vocabulary_is_not_written(directory):
    given = learn_vocabulary(["the cow sees die Kuh ."], "char", 30, 1.0)
    prepared = prepare(text_config(directory), silent, given)
    assert not (prepared.directory / "vocabulary.model").exists()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("is_passing", [True, False])
def test_an_error_of_the_disk_keeps_what_is_finished_and_a_mistake_does_not(
    directory, monkeypatch, is_passing
):
    num_tokenised = [0]

    def fails(self, chunk, tokenise=Tokenise.__call__):
        num_tokenised[0] += 1
        if num_tokenised[0] < 5:
            return tokenise(self, chunk)
        raise (UnreadableError if is_passing else ValueError)("train.en cannot be read")

    monkeypatch.setattr(Tokenise, "__call__", fails)
    with pytest.raises(ValueError, match="cannot be read"):
        prepare(text_config(directory), silent)
    assert any((directory / "cache").glob(".*.unfinished")) == is_passing
