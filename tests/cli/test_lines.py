"""Verbs that read lines from standard input: windows, long lines, closed pipes."""

import codecs
import contextlib
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from t2t_jax.cli import lines
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.translate import translate, translate_lines
from t2t_jax.runs.workdir import load_trained, read_config
from tests.cli.command import REPOSITORY, command

SENTENCES = ["The dog sleeps.", "", "A cat.", "The old dog sees a cat.", "A dog."]


def typed(text):
    return "".join(f"{line}\n" for line in text)


@pytest.mark.parametrize("at_once", [1, 4, 1 << 19])
def test_lines_may_end_in_any_way_and_must_be_utf8(monkeypatch, at_once):
    def read(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(lines, "BYTES_AT_ONCE", at_once)
        return itertools.chain.from_iterable(lines.read_windows())

    assert list(read(b"a\r\n\nb\x0cc")) == ["a", "", "b\x0cc"]
    assert list(read(b"a\n")) == ["a"]
    # A mark of the byte order, as in files; only where there is one.
    assert list(read(codecs.BOM_UTF8 + "a\n\ufeffb\n".encode())) == ["a", "\ufeffb"]
    assert list(read(b"")) == []
    assert len(list(read(b"one\n" * 100))) == 100
    given = read("ä\n".encode() + b"\xff\n")
    assert next(given) == "ä"
    with pytest.raises(ValueError, match="line 2 of the input is not UTF-8"):
        next(given)


def test_windows_are_translated_as_all_lines_at_once(trained):
    model = load_trained(trained)
    windows = [SENTENCES[:2], SENTENCES[2:3], SENTENCES[3:]]
    assert list(translate_lines(model, windows)) == translate(model, SENTENCES)


def test_what_is_done_is_given_before_more_is_read(trained):
    read = []

    def windows():
        for window in (SENTENCES[:2], SENTENCES[2:]):
            read.append(window)
            yield window

    found = translate_lines(load_trained(trained), windows())
    next(found), next(found)
    assert len(read) == 1
    next(found)
    assert len(read) == 2


def test_a_long_line_is_translated_sentence_by_sentence_and_told(trained):
    limit = "--config.data.max_length=16"
    sentences = ["The dog sleeps.", "A cat sees the old dog.", "A dog."]
    alone = command("translate", f"--workdir={trained}", limit, text=typed(sentences))
    text = typed(["A cat.", " ".join(sentences * 4), "A dog."])
    done = command("translate", f"--workdir={trained}", limit, text=text)
    assert done.returncode == 0, done.stderr
    first, long, last = done.stdout.splitlines()
    assert long.split() == " ".join(alone.stdout.splitlines() * 4).split()
    told = r"^line 2 has \d+ tokens, more than data.max_length=16: translated in 12 parts$"
    assert re.search(told, done.stderr, re.MULTILINE)
    done = command("translate", f"--workdir={trained}", limit, text=text + text)
    assert "translated in 12 parts; 1 more line is too long up to line 6\n" in done.stderr
    assert "parts" not in alone.stderr


def test_the_n_best_of_a_long_line_are_those_of_its_parts(trained):
    config = read_config(trained)
    config.data.max_length, config.decoding.n_best = 16, 2
    model = load_trained(trained, read_sections(config))
    parts = ["The dog sleeps.", "A cat sees the dog."]
    long = " ".join(parts * 2)
    (best,) = translate_lines(model, [[long]])
    of_parts = translate(model, parts)
    for rank, translation in enumerate(best):
        expected = [of_part[rank] for of_part in of_parts] * 2
        assert translation.text.split() == " ".join(each.text for each in expected).split()
        assert translation.score == pytest.approx(sum(each.score for each in expected), rel=1e-4)


def test_every_part_of_a_long_line_begins_with_its_language_code(trained, monkeypatch):
    config = read_config(trained)
    config.data.max_length = 16
    model = load_trained(trained, read_sections(config))
    parts = ["The dog sleeps.", "A cat sees the dog.", "The dog sees."]
    monkeypatch.setattr(
        model.vocabulary, "language_code", lambda line: line[:3] * (line[:3] == "old")
    )
    long = "old " + " ".join(parts * 2)
    plain = " ".join(parts * 2)
    found, of_plain = translate_lines(model, [[long, plain]])
    for line, prefix in ((found, "old "), (of_plain, "")):
        expected = [best[0].text for best in translate(model, [prefix + part for part in parts])]
        assert line[0].text.split() == " ".join(expected * 2).split()


def test_a_long_line_is_refused_where_that_is_asked_for(trained):
    options = "--config.data.max_length=16", "--long_lines=refuse"
    text = typed(["A cat.", "the dog sleeps and " * 20, "A dog."])
    done = command("translate", f"--workdir={trained}", *options, text=text)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1
    assert "line 2 has " in done.stderr and "more than data.max_length=16" in done.stderr


@contextlib.contextmanager
def started(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE} | options
    command = [sys.executable, "-m", "t2t_jax.cli.main", *arguments]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, **options) as running:
        try:
            yield running
        finally:
            running.kill()


def test_an_interrupted_run_leaves_the_lines_that_are_done(trained, tmp_path):
    output = tmp_path / "output"
    with (
        output.open("wb") as stream,
        started("translate", f"--workdir={trained}", stdout=stream) as running,
    ):
        # Blank lines, which cost nothing, and are as long as a sentence.
        running.stdin.write(typed(["A cat.", *[" " * 255] * 2_100]).encode())
        running.stdin.flush()  # one window and a part of the next, which waits for more
        deadline = time.monotonic() + 120
        while output.stat().st_size == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130
        assert b"translate: stopped" in running.stderr.read()
    assert output.read_bytes().count(b"\n") == lines.BYTES_AT_ONCE // 256 + 1


def test_who_reads_no_more_ends_it_without_a_word(trained):
    with started("translate", f"--workdir={trained}") as running:
        running.stdout.close()
        _, told = running.communicate(typed(SENTENCES).encode(), timeout=120)
    assert running.returncode == 128 + signal.SIGPIPE
    assert b"Error" not in told and b"Exception" not in told, told


@pytest.mark.parametrize(("closing", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_stream_is_told_in_a_sentence(trained, closing, name):
    python = f"'{sys.executable}' -m t2t_jax.cli.main translate --workdir={trained}"
    done = subprocess.run(
        f"{python} {closing}", shell=True, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"t2t-jax translate: standard {name} is closed" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_full_disk_is_told_in_a_sentence(trained):
    with open("/dev/full", "wb") as full:
        with started("translate", f"--workdir={trained}", stdout=full) as running:
            _, told = running.communicate(typed(SENTENCES).encode(), timeout=120)
    assert running.returncode == 1
    assert b"No space left" in told and b"Traceback" not in told and b"ignored" not in told
