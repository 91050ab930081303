"""The verbs as a person types them."""

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


def test_a_mistake_ends_a_process_so_too():
    # In a process, since nothing checks types there before the file that is not there is missed.
    done = process("train", "--config=configs/none.py", "--workdir=w")
    assert done.returncode == 1
    assert done.stderr.startswith("t2t-jax train: ") and "configs/none.py" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"]])
def test_help_explains(arguments):
    assert "t2t-jax train" in command(*arguments).stdout
