"""One run, with stand-ins for the verbs that train and score."""

import json
import math
import os
import subprocess
import sys
import time
import types

import jax
import pytest

from configs import tiny
from experiments.run import __main__ as command
from experiments.run import presence, record, run, trials
from experiments.run.outcomes import read_outcomes
from experiments.tables import quickstart
from t2t_jax.locks import IsTakenError
from t2t_jax.runs.kept_programs import keep_programs
from t2t_jax.runs.sections import read_sections
from t2t_jax.training.loop import Stopped
from t2t_jax.training.nonfinite import Diverged
from tests.cli.command import module

TRAINING = {
    "steps": 12,
    "target_tokens": 3456,
    "seconds": 7.5,
    "params": 1000,
    "data_fingerprint": "d",
    "vocabulary_fingerprint": "v",
    "direction": "en-de",
    "hardware": "paper and pencil",
    "examples": {"train": 9, "dev": 8, "test": 7},
}


@pytest.fixture
def verbs(monkeypatch):
    """Stand-ins for train and score that note how they were called."""
    calls = []

    def train(sections, workdir):
        calls.append(("train", sections))
        record.write_json(workdir / "training.json", TRAINING)
        return TRAINING["seconds"]

    def score_splits(workdir, splits, sections):
        calls.append(("score", splits))
        scores = {"perplexity": 1.5, "tokens": 10, "bleu": 90.0, "bleu_signature": "s"}
        return dict.fromkeys(splits, scores)

    verbs = types.SimpleNamespace(calls=calls)
    for function in (train, score_splits):
        name = function.__name__.partition("_")[0]
        module = types.ModuleType(f"t2t_jax.runs.{name}")
        setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(verbs, name, module)
    return verbs


@pytest.fixture
def directory(tmp_path):
    config = tiny.get_config()
    row = quickstart.TABLE.rows(config).named("one_head")
    prepared = record.make_run(quickstart.TABLE, row, config, seed=3)
    record.write_run(tmp_path / prepared.directory, prepared)
    return tmp_path / prepared.directory


@pytest.mark.parametrize("holds", ["run", "training"])
def test_a_run_that_another_process_does_has_an_exit_code_of_its_own(
    verbs, monkeypatch, directory, capsys, holds
):
    def is_taken(*_):
        raise IsTakenError("process 7 works on the run")

    if holds == "run":
        monkeypatch.setattr(command, "run", is_taken)
    else:
        verbs.train.train = is_taken
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    with pytest.raises(SystemExit) as stop:
        command.main(["run", str(directory)])
    assert stop.value.code == presence.IS_TAKEN
    assert capsys.readouterr().err == "run: process 7 works on the run\n"
    assert not (directory / "failure.json").exists()


def test_the_record_says_all_that_a_table_needs(verbs, directory):
    run.run(directory)
    values = json.loads((directory / "record.json").read_text())
    assert values["format"] == 1
    assert (values["table"], values["row"], values["seed"]) == ("quickstart", "one_head", 3)
    assert values["config"]["model"]["num_heads"] == 1
    assert values["scores"]["dev"]["perplexity"] == 1.5
    assert values["scores"]["test"]["bleu"] == 90.0
    assert values["seconds"]["train"] == 7.5 and values["seconds"]["score"] >= 0
    for key in set(TRAINING) - {"seconds"}:
        assert values[key] == TRAINING[key]
    assert {"commit", "versions", "changes", "base"} <= values.keys()
    assert {"python", "jax", "sacrebleu", "backend"} <= values["versions"].keys()
    assert values["versions"]["generator"] == "threefry2x32"


def test_the_record_tells_what_the_process_took_beside_training_and_scoring(verbs, directory):
    now = time.time()
    sign = presence.Sign("here", 7, now - 20, now, "training")  # it was started before that
    record.write_json(directory / presence.RUNNING_FILE, sign._asdict())
    values = run.run(directory)
    assert values["overhead_seconds"] == pytest.approx(20 - 7.5, abs=2)
    assert record.read_record(directory)["overhead_seconds"] == values["overhead_seconds"]


def test_training_gets_the_rows_config_with_the_seed(verbs, directory):
    run.run(directory)
    [(_, sections)] = [call for call in verbs.calls if call[0] == "train"]
    expected = quickstart.TABLE.rows(tiny.get_config()).named("one_head").config(tiny.get_config())
    assert sections == read_sections(expected)._replace(seed=3)
    # In one call, which loads the model once.
    assert verbs.calls[1:] == [("score", {"dev": False, "test": True})]


def test_long_sentences_are_translated_where_the_config_says_so(verbs, tmp_path):
    config = tiny.get_config()
    config.evaluation.bleu_on_long = config.evaluation.bleu_on_dev = True
    row = quickstart.TABLE.rows(config).named("base")
    prepared = record.make_run(quickstart.TABLE, row, config, seed=0)
    record.write_run(tmp_path, prepared)
    assert run.run(tmp_path)["scores"].keys() == {"dev", "test", "long"}
    assert verbs.calls[1:] == [("score", {"dev": True, "test": True, "long": True})]


def test_a_finished_run_calls_no_verb(verbs, directory):
    first = run.run(directory)
    verbs.calls.clear()
    assert run.run(directory) == first
    assert verbs.calls == []


def test_of_runs_that_are_not_wanted_no_record_is_read(verbs, directory):
    run.run(directory)
    (directory / record.RECORD_FILE).write_text("{")
    assert len(read_outcomes(directory).refused) == 1
    assert read_outcomes(directory, lambda run: run.seed < 0) == ([], {})


def test_a_run_that_diverged_leaves_at_which_step(verbs, directory):
    def diverges(config, workdir):
        raise Diverged("diverged at step 7: the loss is nan")

    verbs.train.train = diverges
    with pytest.raises(Diverged):
        run.run(directory)
    [outcome] = read_outcomes(directory).runs
    assert outcome.failure == "diverged at step 7: the loss is nan" and outcome.has_diverged


def test_a_failure_leaves_its_last_line_and_the_next_success_removes_it(verbs, directory):
    def broken(config, workdir):
        error = ValueError("the corpus is empty\nand more of it")
        error.add_note("a library explains its traceback")
        raise error

    working = verbs.train.train
    verbs.train.train = broken
    with pytest.raises(ValueError, match="the corpus is empty"):
        run.run(directory)
    failure = json.loads((directory / "failure.json").read_text())
    assert failure == {"error": "ValueError: the corpus is empty"}
    assert not (directory / "record.json").exists()

    verbs.train.train = working
    run.run(directory)
    assert not (directory / "failure.json").exists()


@pytest.mark.parametrize(
    ("verb", "advice"),
    [
        ("train", "--base.training.microbatches=0 computes a batch in as few parts as fit"),
        ("score", "lower data.*_tokens_per_batch, or decoding.tokens_per_batch"),
    ],
)
def test_of_too_little_memory_a_run_leaves_what_helps(verbs, directory, verb, advice):
    def broken(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of 9 bytes")

    [name] = [name for name in vars(getattr(verbs, verb)) if name.startswith(verb)]
    setattr(getattr(verbs, verb), name, broken)
    with pytest.raises(jax.errors.JaxRuntimeError):
        run.run(directory)
    [outcome] = read_outcomes(directory).runs
    assert outcome.failure.startswith(f"the device has not enough memory: {advice}")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Stopped])
def test_an_interrupted_run_is_no_failure(verbs, directory, stop):
    def interrupted(config, workdir):
        raise stop

    verbs.train.train = interrupted
    with pytest.raises(stop):
        run.run(directory)
    assert not (directory / "failure.json").exists()


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no run\.json"):
        record.read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"table": "t"}')
    with pytest.raises(ValueError, match="lacks row, changes, seed, config, base"):
        record.read_run(tmp_path)


def test_a_record_in_a_few_words_has_the_score_of_its_task():
    dev = {"perplexity": 1.25}
    text = record.score_text({"scores": {"dev": dev, "test": {"bleu": 90.04, "accuracy": 0.9}}})
    assert text == "PPL 1.25  BLEU 90.0"
    text = record.score_text({"scores": {"dev": dev, "test": {"accuracy": 0.987}}})
    assert text == "PPL 1.25  accuracy 98.7%"


def test_differences_name_changed_added_and_removed_keys():
    old = {"seed": 0, "model": {"d_k": 1, "gone": 2}}
    new = {"seed": 0, "model": {"d_k": 3, "fresh": 4}}
    assert record.config_differences(old, new) == [
        ("model.d_k", 1, 3),
        ("model.gone", 2, None),
        ("model.fresh", None, 4),
    ]
    # A key that came later did what it does by default.
    assert record.config_differences({"model": {}}, {"model": {"residual": True}}) == []
    new = {"model": {"residual": False}}
    assert record.config_differences({"model": {}}, new) == [("model.residual", True, False)]


def test_seeds_with_faster_products_are_of_another_row_and_old_ones_had_exact_products():
    exact, fast = ({"devices": {"matmul_precision": each}} for each in ("highest", "default"))
    assert record.settings(exact) != record.settings(fast)
    assert record.settings({"devices": {"data": 2}}) == record.settings(exact)


def test_outside_a_git_checkout_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "__file__", str(tmp_path / "experiments/run/run.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run.commit() == "unknown"


def test_what_is_compiled_is_kept_where_the_environment_says_and_never_where_a_run_does(
    monkeypatch, verbs, directory, tmp_path
):
    updates = {}
    monkeypatch.setattr(jax.config, "update", updates.__setitem__)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    keep_programs()
    assert not updates
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("T2T_JAX_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run_file = directory / record.RUN_FILE
    text = run_file.read_text().replace("~/.cache/t2t_jax", str(tmp_path / "evil"))
    run_file.write_text(text)
    assert "evil" in text
    command.main(["run", str(directory)])
    assert updates["jax_compilation_cache_dir"].startswith(f"{tmp_path}/mine/compiled/")
    monkeypatch.delenv("T2T_JAX_CACHE")
    keep_programs()
    own = f"{tmp_path}/home/.cache/t2t_jax/compiled/"
    assert updates["jax_compilation_cache_dir"].startswith(own)


def test_where_compiled_programs_cannot_be_kept_that_is_told_and_they_are_not(
    monkeypatch, tmp_path, capsys
):
    updates = {}
    monkeypatch.setattr(jax.config, "update", updates.__setitem__)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "a_file").touch()
    monkeypatch.setenv("T2T_JAX_CACHE", str(tmp_path / "a_file"))
    keep_programs()
    assert not updates
    said = capsys.readouterr().err
    assert said.startswith("compiled programs are not kept: ") and "a_file" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table3", "--row=A.h=1", "--workdir=w"], "--base is needed"),
        (["table3", "--row=X", "--base=configs/tiny.py", "--workdir=w"], "no row is called 'X'"),
        (["hedas"], "no table is called 'hedas' (did you mean heads?); there are depth, "),
        (["nothing"], "no table is called 'nothing'; there are depth, "),
        (["w/table3/base/seed-9"], "w/table3/base/seed-9 holds no run.json, which a sweep writes"),
        ([], "one argument is needed"),
    ],
)
def test_a_mistyped_command_ends_in_a_sentence(arguments, sentence):
    done = module("experiments.run", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("run: ") and sentence in done.stderr


def test_the_commit_is_what_the_environment_says_or_dirty(monkeypatch):
    monkeypatch.setattr(run, "_git", lambda verb, *_: {"rev-parse": b"abc", "status": b"M x"}[verb])
    monkeypatch.delenv("T2T_JAX_COMMIT", raising=False)
    assert run.commit() == "abc-dirty"
    monkeypatch.setenv("T2T_JAX_COMMIT", "def")
    assert run.commit() == "def"


def _git(*arguments):
    subprocess.run(["git", *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A commit of one file, which this code believes to be its own."""
    place = tmp_path / "code"
    _git("init", "-q", str(place))
    for folder in ("configs", "experiments/run", "experiments/tables", "t2t_jax/data"):
        (place / folder).mkdir(parents=True)
    (place / "run.py").write_text("old\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@e")
    _git("-C", str(place), "add", "run.py")
    _git("-C", str(place), *who, "commit", "-q", "-m", "first")
    monkeypatch.setattr(run, "__file__", str(place / "experiments/run/run.py"))
    monkeypatch.delenv("T2T_JAX_COMMIT", raising=False)
    return place


def test_what_was_not_committed_lies_beside_the_record(verbs, directory, repository):
    (repository / "run.py").write_bytes(b"new\xff\n")
    working = verbs.train.train

    def train(sections, workdir):
        (repository / "run.py").write_text("newer\n")  # which has not run
        return working(sections, workdir)

    verbs.train.train = train
    assert run.run(directory)["commit"].endswith("-dirty")
    diff = directory / "uncommitted.diff"
    assert b"-old" in diff.read_bytes() and b"+new\xff" in diff.read_bytes()
    _git("-C", str(repository), "checkout", "run.py")
    _git("-C", str(repository), "apply", str(diff))
    assert (repository / "run.py").read_bytes() == b"new\xff\n"


def test_a_run_knows_the_commits_that_it_was_begun_at(verbs, directory, monkeypatch):
    working = verbs.train.train

    def stopped(sections, workdir):
        raise Stopped("stopped after step 3")

    verbs.train.train = stopped
    for commit in ("nothing came of it", "first", "first"):
        monkeypatch.setenv("T2T_JAX_COMMIT", commit.replace(" ", "-"))
        with pytest.raises(Stopped):
            run.run(directory)
        if commit == "first":
            (directory / "checkpoints" / "3").mkdir(parents=True, exist_ok=True)
    verbs.train.train = working
    monkeypatch.setenv("T2T_JAX_COMMIT", "second")
    values = run.run(directory)
    assert (values["commit"], values["earlier_commits"]) == ("second", "first")
    assert (directory / "commits.txt").read_text() == "first\nsecond\n"


def test_checkpoints_in_a_bucket_are_those_of_the_run(verbs, directory, monkeypatch, tmp_path):
    there = tmp_path / "bucket"
    (there / "3").mkdir(parents=True)
    monkeypatch.setattr("t2t_jax.buckets.checkpoints_of", lambda _: there)
    (directory / "commits.txt").write_text("first\n")
    monkeypatch.setenv("T2T_JAX_COMMIT", "second")
    assert run.run(directory)["earlier_commits"] == "first"


def test_a_commit_without_changes_leaves_no_diff(verbs, directory, repository):
    assert not run.run(directory)["commit"].endswith("-dirty")
    assert not (directory / "uncommitted.diff").exists()


def test_a_file_that_was_never_added_lies_beside_the_record(verbs, directory, repository):
    names = ("experiments/tables/mine.py", "configs/mein größtes.py", "t2t_jax/data/ignored.py")
    for name in names:
        (repository / name).write_text(f"# {name}\n")
    (repository / ".git/info/exclude").write_text("ignored.py\n")
    assert run.run(directory)["commit"].endswith("-dirty")
    diff = directory / "uncommitted.diff"
    for name in names:
        (repository / name).unlink()
    _git("-C", str(repository), "apply", str(diff))
    assert [(repository / name).read_text() for name in names] == [f"# {name}\n" for name in names]


def test_what_is_no_code_of_ours_is_no_change(verbs, directory, repository):
    for name in ("corpus.en", "experiments/notes.txt", "scratch.py", "configs/x.pyc"):
        (repository / name).write_text("x")
    assert not run.run(directory)["commit"].endswith("-dirty")


def test_a_run_is_present_while_it_is_done(verbs, directory, monkeypatch):
    seen = []

    def train(config, workdir):
        seen.append(presence.read(workdir))
        record.write_json(workdir / "training.json", TRAINING)
        return 0.0

    verbs.train.train = train
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    command.main(["run", str(directory)])
    assert [sign and sign.pid for sign in seen] == [os.getpid()]


def _trial(tmp_path, **facts):
    config = tiny.get_config()
    row = quickstart.TABLE.rows(config).named("one_head")
    point = {"training.peak_learning_rate": 0.5}
    tuning = {"space": ["words"], "trials": 2, "trial": 1, "point": point} | facts
    prepared = record.make_run(quickstart.TABLE, row, config, 9, tuning=tuning)
    record.write_run(tmp_path / prepared.directory, prepared)
    return tmp_path / prepared.directory


def test_a_trial_has_the_rows_config_at_its_point_and_is_scored_by_dev_perplexity(verbs, tmp_path):
    directory = _trial(tmp_path)
    assert directory == tmp_path / "quickstart/one_head/trial-1"
    values = run.run(directory)
    [(_, sections), scored] = verbs.calls
    assert sections.training.peak_learning_rate == 0.5 and sections.model.num_heads == 1
    assert scored == ("score", {"dev": False})
    assert values["tuning"]["point"] == {"training.peak_learning_rate": 0.5}
    assert values["changes"].keys() == {"model.num_heads", "model.d_k", "model.d_v"}


def test_a_trial_that_diverges_is_recorded_and_has_not_failed(verbs, tmp_path):
    def diverges(config, workdir):
        raise Diverged("diverged at step 7: the loss is nan")

    verbs.train.train = diverges
    directory = _trial(tmp_path)
    run.run(directory)
    assert not (directory / "failure.json").exists()
    [outcome] = read_outcomes(directory).runs
    assert outcome.has_diverged and outcome.failure == "diverged at step 7: the loss is nan"
    assert [each.perplexity for each in trials.trials_of([outcome], 9)] == [math.inf]
    assert trials.best(trials.trials_of([outcome], 9)) is None


def test_what_waits_for_trials_cannot_be_run(verbs, tmp_path):
    directory = _trial(tmp_path, trial=None, point=None)
    assert directory.name == "tuned-seed-9"
    with pytest.raises(ValueError, match="waits for the trials of its row"):
        run.run(directory)
    assert verbs.calls == []


@pytest.mark.parametrize(
    "damage",
    [
        {"trials": 1},
        {"trials": "5"},
        {"trials": None},
        {"trial": 2},
        {"trial": -1},
        {"point": {}},
        {"point": {"a": []}},
        {"space": 1},
    ],
)
def test_a_tuning_that_is_none_is_damage(tmp_path, damage):
    directory = _trial(tmp_path)
    values = record.read_json(directory / "run.json")
    record.write_json(directory / "run.json", values | {"tuning": values["tuning"] | damage})
    with pytest.raises(ValueError, match=r"run.json: tuning must be none, or its space"):
        record.read_run(directory)
