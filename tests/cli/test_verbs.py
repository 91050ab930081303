"""The verbs as a person types them."""

import shutil
import sys

import pytest

from tests.cli.command import command, process


def test_the_translate_command_reads_lines_and_writes_lines(trained):
    done = process("translate", f"--workdir={trained}", text="The dog sleeps.\r\n\nA cat.")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""


def test_the_translate_command_takes_decoding_keys_and_prints_n_best(trained):
    done = command(
        "translate", f"--workdir={trained}", "--config.decoding.n_best=2", text="A dog sleeps.\n"
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1"]
    assert float(rows[0][1]) >= float(rows[1][1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "'fly' is no verb; there are prepare, train, translate"),
        (["train", "--config=configs/tiny.py"], "--workdir"),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.nheads=3"],
            "the config has no key 'nheads'",
        ),
        (["prepare", "--config=configs/tiny.py", "--config.model.d_ff=many"], "d_ff"),
        (["prepare", "--config=configs/tiny.py", "extra"], "'extra' is no flag"),
        (
            ["prepare", "--config=configs/multi30k.py", "--config.data.directory=/nowhere"],
            "/nowhere",
        ),
        (["score", "--workdir=/nowhere"], "/nowhere holds no run"),
    ],
)
def test_a_mistake_ends_in_a_sentence_and_not_in_a_traceback(arguments, sentence):
    done = command(*arguments)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--config.seed=1"]], ids=["as it is", "changed"])
def test_a_config_that_is_not_there_is_named(arguments, tmp_path, monkeypatch):
    arguments = ["train", "--config=configs/none.py", "--workdir=w", *arguments]
    sentence = "t2t-jax train: [Errno 2] No such file or directory: 'configs/none.py'"
    assert command(*arguments).stderr == f"{sentence}\n"
    monkeypatch.chdir(tmp_path)
    shown = command(*arguments).stderr
    assert shown.startswith(sentence) and shown.endswith(": type this in a checkout of the code\n")


def test_a_config_may_import_what_lies_where_the_command_is_typed(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from beside import get_config\n")
    shutil.copy("configs/tiny.py", tmp_path / "beside.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shown = command("prepare", "--config=mine.py", "--config.no_such=1").stderr
    assert "the config has no key no_such" in shown


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"]])
def test_help_explains(arguments):
    assert "t2t-jax train" in command(*arguments).stdout
