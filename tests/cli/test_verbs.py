"""The verbs, as a user types them."""

import ast
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from configs import base
from t2t_jax.cli.config_keys import config_keys
from t2t_jax.json_files import flat_dict
from t2t_jax.runs import kept_programs
from t2t_jax.runs.effect import NOT_READ_BY
from t2t_jax.runs.keys import is_of_the_model, may_change
from t2t_jax.runs.sections import DevicesConfig, Sections
from t2t_jax.training.progress import Progress
from tests.cli.command import command, process

SECTIONS = {name: kind for name, kind in Sections.__annotations__.items() if name != "seed"}


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
        (["fly"], "'fly' is not a verb; the verbs are prepare, train, translate"),
        (["train", "--config=configs/tiny.py"], "t2t-jax train: --workdir is missing: the dir"),
        (
            ["train", "--config=configs/tiny.py", "--workdir="],
            "t2t-jax train: --workdir is empty: name a path\n",
        ),
        (["train"], "--config is missing: a file such as configs/tiny.py; without it, that of"),
        (
            ["translate"],
            "translate: --workdir is missing: the directory of a trained model; or --model: hf:DIR",
        ),
        (
            ["score", "--config.data.directory=DIR"],
            "t2t-jax score: --workdir is missing: the directory of a trained model\n",
        ),
        (["prepare", "--config=configs/tinny.py"], "did you mean configs/tiny.py?"),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.num_heads=4.5"],
            "t2t-jax prepare: --config.model.num_heads=4.5 is not a whole number\n",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.dropout_rate=x"],
            "t2t-jax prepare: --config.model.dropout_rate=x is not a number\n",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.output_bias=maybe"],
            "t2t-jax prepare: --config.model.output_bias=maybe is neither true nor false\n",
        ),
        (
            ["prepare", "--num_processes=x"],
            "t2t-jax prepare: --num_processes=x is not a whole number",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.nheads=3"],
            "there is no key --config.model.nheads: did you mean --config.model.num_heads?",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.d_model=64"],
            "there is no key --config.d_model: did you mean --config.model.d_model?",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--d_model=64"],
            "there is no flag --d_model: did you mean --config.model.d_model?",
        ),
        (["prepare", "--config=README.md"], "--config=README.md must be a Python file such as"),
        (["prepare", "--config=configs"], "--config=configs must be a Python file such as"),
        (["prepare", "--base=configs/tiny.py"], "there is no flag --base: did you mean --config?"),
        (
            ["train", "--config=configs/tiny.py", "--workdir=README.md/w"],
            "README.md/w cannot be the directory of a run: ",
        ),
        (
            ["prepare", "--config", "experiments/results/table3_tiny/table3/base/seed-0/run.json"],
            "run.json must be a Python file such as configs/tiny.py; keys that differ",
        ),
        (["prepare", "--config=tiny"], "there is no file tiny: did you mean configs/tiny.py?"),
        (["train", "--workdir=/nowhere"], "--config is needed, such as configs/tiny.py"),
        (["train", "--help=modle"], "--help=modle is none of data, model, training"),
        (["prepare", "--config=configs/tiny.py", "--config.model.d_ff=many"], "d_ff"),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model=3"],
            "--config.model is a section: set its keys, as in --config.model.KEY=value",
        ),
        (
            ["prepare", "--config=configs/tiny.py", "--config.model.d_ff", "--config.seed=1"],
            "--config.model.d_ff has no value before --config.seed=1",
        ),
        (
            ["plan", "--config=configs/big.py", "--topology=v5e-8", "--prices=none.json"],
            "plan: none.json: No such file or directory",
        ),
        (["prepare", "--config=configs/tiny.py", "extra"], "'extra' is not a flag"),
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
    assert "Traceback" not in done.stderr and "None" not in done.stderr


def test_a_damaged_run_is_told_as_that_and_not_as_a_missing_config(tmp_path):
    (tmp_path / "config.json").write_text("{")
    done = command("train", f"--workdir={tmp_path}")
    assert done.returncode == 1 and done.stderr.startswith(f"t2t-jax train: {tmp_path}/config.json")


def test_a_run_and_a_model_are_not_taken_both(trained):
    done = command("translate", f"--workdir={trained}", "--model=hf:DIR")
    assert "translate: --workdir and --model exclude each other: give only one" in done.stderr


def test_the_score_command_takes_files_any_number_of_them(trained, tmp_path):
    for side, line in (("en", "The dog sleeps."), ("de", "Der Hund schläft.")):
        (tmp_path / f"mine.{side}").write_text(f"{line}\n", encoding="utf-8")
    files = [f"--source={tmp_path}/mine.en", f"--reference={tmp_path}/mine.de"]
    done = command("score", f"--workdir={trained}", *files)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["name"] == "mine" and scores["sentences"] == 1
    assert scores["files"] == [f"{tmp_path}/mine.en", f"{tmp_path}/mine.de"]
    done = command("score", f"--workdir={trained}", *files, "--name=other", "--every_checkpoint")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["step 4", "step 8"]
    assert "  bleu_paper " in lines[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--source=a"], "--source, --reference and, if you like, --name go together"),
        (["--name=a"], "--source, --reference and, if you like, --name go together"),
        (["--source=a", "--reference=b", "--split=test"], "--split is of the run's corpus"),
        (["--every_checkpoint", "--checkpoint=4"], "are two things: give one of them"),
        (
            [f"--config.data.{key}" for key in ("source=text", "directory=DIR", "test=t16")],
            "score other files with --source=FILE --reference=FILE",
        ),
    ],
)
def test_flags_of_score_that_do_not_go_together_are_told(arguments, sentence, trained):
    done = command("score", f"--workdir={trained}", *arguments)
    assert done.returncode == 1 and sentence in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--config.seed=1"]], ids=["as it is", "changed"])
def test_a_config_that_is_not_there_is_named(arguments, tmp_path, monkeypatch):
    arguments = ["train", "--config=configs/none.py", "--workdir=w", *arguments]
    sentence = "t2t-jax train: configs/none.py: No such file or directory"
    assert command(*arguments).stderr == f"{sentence}\n"
    monkeypatch.chdir(tmp_path)
    shown = command(*arguments).stderr
    assert shown.startswith(sentence) and shown.endswith(": type this in a checkout of the code\n")


def test_a_config_may_import_what_lies_where_the_command_is_typed(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from beside import get_config\n")
    shutil.copy("configs/tiny.py", tmp_path / "beside.py")
    monkeypatch.chdir(tmp_path)
    shown = command("prepare", "--config=mine.py", "--config.seed=1", "--config.no_such=1").stderr
    assert "there is no key --config.no_such" in shown
    del sys.modules["beside"]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "--help"]])
def test_help_explains(arguments):
    assert "t2t-jax train" in command(*arguments).stdout


def test_help_lists_every_key_with_its_value_comment_and_choices():
    shown = command("train", "--help").stdout
    for key, value in flat_dict(base.get_config().to_dict()).items():
        assert f"--config.{key}=" in shown
        [entry] = [each for each in config_keys() if each.path == key]
        assert ast.literal_eval(entry.value) == value
        assert entry.comment
    for name, section in SECTIONS.items():
        for field in dataclasses.fields(section):
            for choice in typing.get_args(field.type):
                [entry] = [each for each in config_keys() if each.path == f"{name}.{field.name}"]
                words = f'"{choice}"' if isinstance(choice, str) else str(choice)
                assert words in f"{entry.value} {entry.comment}".replace("'", '"')


def test_help_of_train_names_the_keys_that_may_change_on_resuming():
    told = " ".join(command("train", "--help").stdout.split())
    sentence = told.partition("all keys of decoding and evaluation, and of ")[2]
    listed = sentence.partition(";")[0].split(", ")
    keys = [key for key in flat_dict(base.get_config().to_dict()) if may_change(key)]
    assert sorted(listed) == [key for key in sorted(keys) if key[:4] not in ("deco", "eval")]


def test_the_version_is_that_of_the_package():
    version = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert command("--version").stdout == f"t2t-jax {version}\n"


def test_help_shows_a_command_of_two_lines_in_two():
    shown = command("train", "--help").stdout
    assert "--init=hf:DIR \\\n      --config.training" in shown


def test_of_a_flag_given_twice_the_last_counts_everywhere(trained):
    done = command("translate", "--workdir=/nowhere", f"--workdir={trained}", text="a dog")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_stops_no_verb(closed, tmp_path):
    arguments = ["plan", "--config=configs/tiny.py", "--topology=h100-1", "--old_prices"]
    code = f"import sys; sys.{closed} = None; from t2t_jax.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (b"h100-1" in done.stdout) == (closed == "stderr") and done.stderr == b""


@pytest.mark.parametrize("command", ["t2t_jax.cli.main train", "experiments.sweep"])
def test_help_may_be_cut_off(command):
    arguments = [sys.executable, "-m", *command.split(), "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("arguments", ["--version", "--help", "train --help"])
def test_output_that_cannot_be_written_is_told(arguments):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "t2t_jax.cli.main", *arguments.split()],
            **dict(stdout=full, stderr=subprocess.PIPE, timeout=60),
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    assert done.returncode == 1
    said = done.stderr.decode().strip()
    assert said.startswith("t2t-jax")
    assert said.endswith(": standard output: No space left on device") and "\n" not in said


def test_help_says_that_not_every_entry_of_the_metrics_is_printed():
    [entry] = [key for key in config_keys() if key.path == "training.log_every_steps"]
    assert f"printed at most once in {Progress._SECONDS_BETWEEN_LINES:.0f} s" in entry.comment


def test_help_of_a_section_lists_its_keys_alone():
    shown = command("score", "--help=devices").stdout
    num_keys = len(dataclasses.fields(DevicesConfig))
    assert shown.count("--config.devices.") == shown.count("--config.") == num_keys


@pytest.mark.parametrize("verb", NOT_READ_BY)
def test_help_of_a_verb_lists_no_key_that_it_would_refuse(verb):
    shown = command(verb, "--help").stdout
    listed = re.findall(r"--config\.([\w.]+)=", shown.partition("Keys, with the value of")[2])
    keys = [key for key in flat_dict(base.get_config().to_dict()) if key not in NOT_READ_BY[verb]]
    assert sorted(listed) == sorted(key for key in keys if not is_of_the_model(key)) != []
    assert "model.d_model" not in listed
    if verb == "translate":
        assert command(verb, "--help=evaluation").stdout == "No key of evaluation is read here.\n\n"


def test_help_waits_for_no_library_that_is_heavy():
    code = """
import sys
from t2t_jax.cli.main import main
main()
print([name for name in ("jax", "flax", "orbax", "sentencepiece", "numpy") if name in sys.modules])
"""
    for verb in ("train", "score", "compare", "generate"):
        arguments = [sys.executable, "-c", code, verb, "--help"]
        found = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert found.stdout.splitlines()[-1] == "[]"


def test_what_a_verb_compiles_is_kept_for_the_next_process(trained, monkeypatch):
    kept = []
    monkeypatch.setattr(kept_programs, "keep_programs", lambda: kept.append("asked"))
    assert command("translate", f"--workdir={trained}", text="a dog\n").returncode == 0
    assert kept == ["asked"]


@pytest.mark.parametrize(
    ("verb", "what_it_says"),
    [
        ("prepare", "; run the same command again to resume"),
        ("train", " without saving; the same command begins anew: no checkpoint was saved yet"),
        ("translate", ""),
        ("score", ""),
    ],
)
def test_ctrl_c_ends_every_verb_in_a_sentence_with_one_exit_code(
    verb, what_it_says, trained, tmp_path, monkeypatch
):
    workdir = trained if verb in ("translate", "score") else tmp_path
    config = [] if workdir == trained or verb == "prepare" else ["--config=configs/tiny.py"]
    where = ["--config=configs/tiny.py"] if verb == "prepare" else [f"--workdir={workdir}"]

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(f"t2t_jax.cli.{verb}.main", interrupted)
    monkeypatch.setattr(os, "_exit", sys.exit)  # this process is to live
    done = command(verb, *where, *config)
    assert done.returncode == 130
    assert done.stderr == f"t2t-jax {verb}: stopped{what_it_says}\n"


def test_ctrl_c_after_a_checkpoint_says_what_is_left(trained, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("t2t_jax.cli.train.main", interrupted)
    monkeypatch.setattr(os, "_exit", sys.exit)
    done = command("train", f"--workdir={trained}")
    left = "stopped without saving; the same command goes on from the last checkpoint"
    assert (done.returncode, done.stderr) == (130, f"t2t-jax train: {left}\n")


@pytest.mark.parametrize(
    ("verb", "changes", "expected"),
    [
        ("train", [], "--config.training.microbatches=0 computes a batch in as few parts as fit"),
        ("train", ["--config.training.microbatches=0"], "memory: lower data.source_tokens_per_b"),
        ("translate", [], "memory: lower decoding.tokens_per_batch or beam_size\n"),
        ("explain", ["--source=a", "--output=a.html"], "memory: take a shorter sentence"),
        ("export", ["--format=marian", "--output=a"], "memory: JAX_PLATFORMS=cpu exports too"),
        ("score", [], "memory: lower data.*_tokens_per_batch, or decoding.tokens_per_batch"),
    ],
)
def test_too_little_memory_is_told_with_what_helps(verb, changes, expected, trained, monkeypatch):
    def out_of_memory():  # 2^52 bytes: more than any process can address
        huge = jax.jit(lambda x: jnp.sort(x + jnp.arange(2**30)[None] + jnp.ones((2**20, 1))))
        print(huge(1.0)[0, 0] + 1)

    monkeypatch.setattr(f"t2t_jax.cli.{verb}.main", out_of_memory)
    done = command(verb, f"--workdir={trained}", *changes)
    assert done.returncode == 1
    assert "the device has not enough memory: " in done.stderr and expected in done.stderr
    assert ("decoding" in done.stderr) == (verb in ("translate", "score"))
