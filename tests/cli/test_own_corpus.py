"""A given corpus is used, or refused."""

import json

import pytest

from configs import tiny
from configs.base import get_config as get_base
from experiments.launchers import options
from experiments.sweep import sweep as sweeping
from t2t_jax.runs.own_corpus import with_own_corpus
from tests.cli.command import command, module
from tests.data.text_corpus import sentence_pairs, write_labelled, write_pairs
from tests.docs.test_commands import smallest_flags


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "DIR"
    folder.mkdir()
    for stem in ("train", "valid", "test2016"):
        write_pairs(folder, stem, sentence_pairs(60))
    return folder


def test_a_directory_alone_is_enough_and_is_what_the_run_was_made_of(directory, tmp_path):
    where = ["--config=configs/tiny.py", f"--config.data.directory={directory}"]
    flags = smallest_flags(where, tmp_path / "cache")
    done = command("prepare", *where, *flags)
    assert done.returncode == 0, done.stderr
    said = f"the corpus is in {directory}, hence data.source=text data.dev=valid data.test=test2016"
    assert done.stderr.splitlines()[0] == said
    assert "train: 60 pairs" in done.stderr

    workdir = tmp_path / "w"
    for _ in range(2):  # begins, and goes on
        done = command("train", *where, *flags, f"--workdir={workdir}")
        assert done.returncode == 0, done.stderr
    data = json.loads((workdir / "config.json").read_text("utf-8"))["data"]
    names = {"source": "text", "train": "train", "dev": "valid", "test": "test2016"}
    assert {key: data[key] for key in names} == names
    cache = f"--config.data.cache={tmp_path / 'cache'}"
    done = command("score", f"--workdir={workdir}", cache)
    assert done.returncode == 0, done.stderr


def test_a_source_that_was_said_too_is_not_changed(directory):
    keys = ["--config.data.source=embedded", f"--config.data.directory={directory}"]
    done = command("prepare", "--config=configs/tiny.py", *keys)
    assert done.returncode == 1
    assert done.stderr == (
        "t2t-jax prepare: --config.data.directory has no effect where data.source='embedded': it "
        "is read only where data.source is not 'embedded'\n"
    )


@pytest.mark.parametrize("verb", ["prepare", "train"])
def test_a_key_that_nothing_reads_is_refused(verb, tmp_path):
    keys = ["--config.model.relative_buckets=8", f"--config.data.cache={tmp_path}"]
    workdir = [f"--workdir={tmp_path / 'w'}"] if verb == "train" else []
    done = command(verb, "--config=configs/tiny.py", *keys, *workdir)
    assert done.returncode == 1
    assert "--config.model.relative_buckets has no effect where model.positions=" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_verbs_of_a_run_refuse_it_too(trained):
    done = command("translate", f"--workdir={trained}", "--config.data.mask_rate=0.5")
    assert done.returncode == 1
    assert "--config.data.mask_rate has no effect where data.task='translation'" in done.stderr


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        *(("translate", key) for key in ("training.steps=5", "data.directory=D", "seed=3")),
        ("score", "training.peak_learning_rate=1.0"),
        ("export", "evaluation.num_probes=9"),
    ],
)
def test_a_key_that_the_verb_does_not_read_is_refused(trained, verb, key):
    needs = ["--format=marian", "--output=absent"] if verb == "export" else []
    source = ["--config.data.source=text"] if "directory" in key else []
    done = command(verb, f"--workdir={trained}", f"--config.{key}", *source, *needs)
    assert done.returncode == 1
    name = key.partition("=")[0]
    sentence = f"--config.{name} has no effect on {verb}, which does not read it\n"
    assert done.stderr.endswith(f"t2t-jax {verb}: {sentence}")


def sweep(*arguments):
    words = ("positions", "--base=configs/tiny.py", "--dry_run", *arguments)
    return module("experiments.sweep", *words)


def test_a_sweep_refuses_what_no_row_reads():
    key = "--base.model.relative_buckets=8"
    assert sweep(key).returncode == 0
    refused = sweep(key, "--rows=base")
    assert refused.returncode == 1
    assert "sweep: --base.model.relative_buckets has no effect" in refused.stderr


def test_a_sweep_finds_the_corpus_too(directory):
    done = sweep(f"--base.data.directory={directory}")
    assert done.returncode == 0
    assert f"sweep: the corpus is in {directory}, hence data.source=text" in done.stderr


def test_text_files_are_no_directory_of_tfds_and_without_any_it_is_one(directory, tmp_path):
    base = get_base()
    base.data.directory = str(directory)
    said = []
    config = with_own_corpus(base, "config", ["data.directory"], said.append)
    assert (config.data.source, config.data.dev) == ("text", "valid")
    assert len(said) == 1
    for given in (["data.directory", "data.source"], ["data.directory", "data.name"]):
        assert with_own_corpus(base, "config", given, said.append).data.source == "tfds"
    (tmp_path / "empty").mkdir()
    (tmp_path / "tfds" / "wmt14_translate").mkdir(parents=True)
    for name in ("empty", "tfds", "gs://bucket/tfds"):
        base.data.directory = str(tmp_path / name) if "://" not in name else name
        assert with_own_corpus(base, "config", ["data.directory"], said.append) == base
    assert len(said) == 1


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (tiny, {"source_language": "fr"}),
        (tiny, {"mixture": "DIR=3,DIR/more=1"}),
        (get_base, {"task": "classification"}),
        (get_base, {"mixture": "DIR=3,DIR/more=1"}),
    ],
)
def test_the_corpus_is_text_before_its_keys_are_checked(directory, config, changes):
    config = config() if config is get_base else config.get_config()
    write_labelled(directory, "train", [("a dog", "one")])
    config.data.update({k: v.replace("DIR", str(directory)) for k, v in changes.items()})
    config.data.directory = str(directory)
    given = ["data.directory", *(f"data.{key}" for key in changes)]
    assert with_own_corpus(config, "config", given, print).data.source == "text"


def test_a_directory_of_neither_text_nor_tfds_is_refused_before_tfds_fills_it(tmp_path):
    base = get_base()
    (tmp_path / "notes.txt").write_text("x")
    for directory, why in (
        (tmp_path / "typo", "is not an existing directory"),
        (tmp_path, "holds neither text files that end in .en and .de nor TFDS's folder wmt14_tr"),
    ):
        base.data.directory = str(directory)
        with pytest.raises(ValueError, match=f"--config.data.directory={directory} {why}"):
            with_own_corpus(base, "config", ["data.directory"], print)
        given = ["data.directory", "data.source"]
        assert with_own_corpus(base, "config", given, print) == base


_SAYS = "--config.data.cache=typed"


@pytest.mark.parametrize(
    ("environment", "typed", "expected"),
    [("mine", [], "mine"), ("mine", [_SAYS], "typed"), ("", [], "~/.cache/t2t_jax")],
)
@pytest.mark.parametrize("verb", ["prepare", "train"])
def test_prepared_data_is_kept_where_the_environment_says_unless_it_is_typed(
    verb, environment, typed, expected, monkeypatch
):
    asked = []
    monkeypatch.setenv("T2T_JAX_CACHE", environment)
    monkeypatch.setattr(
        f"t2t_jax.runs.{verb}.{verb}", lambda sections, *_: asked.append(sections.data.cache)
    )
    workdir = ["--workdir=w"] if verb == "train" else []
    done = command(verb, "--config=configs/tiny.py", *workdir, *typed)
    assert (done.returncode, asked) == (0, [expected]), done.stderr


@pytest.mark.parametrize(
    ("launcher", "expected"), [("local", "mine"), ("tpu_vm", "~/.cache/t2t_jax")]
)
def test_a_sweep_keeps_it_there_too_but_not_on_other_peoples_machines(
    launcher, expected, monkeypatch
):
    asked = []
    monkeypatch.setenv("T2T_JAX_CACHE", "mine")
    monkeypatch.setattr(options, "chosen", lambda values: options.LOCAL)

    def run_table(table, base, *_, **__):
        asked.append(base.data.cache)

    monkeypatch.setattr(sweeping, "run_table", run_table)
    where = ["--base=configs/tiny.py", "--workdir=w", f"--launcher={launcher}"]
    done = module("experiments.sweep", "quickstart", *where)
    assert (done.returncode, asked) == (0, [expected]), done.stderr
