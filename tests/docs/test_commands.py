"""Every command that is told is one: its flags are known, and what a test can do is done.

Commands of documents run here, at the smallest size, on a small corpus in the place of DIR. Where
a machine lacks what they need (a TFDS download, a model of another library, hours) their flags and
their config are read, as are those of docstrings. `make` says what it would do.
"""

import contextlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from unittest import mock

import pytest
from absl import app, flags

from configs import classifier, language_model, tiny
from experiments.tables.ablation import check_config
from t2t_jax.cli import main as verbs
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.effect import unmet
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.train import train
from tests.cli.command import command, module
from tests.data.text_corpus import sentence_pairs, write_pairs
from tests.docs.commands import REPOSITORY, documents, of_docstrings, of_documents
from tests.runs import conftest as runs
from tests.runs.configs import OVERRIDES, smallest

# Of this file alone: what pytest finds in a module with the scope of a package lasts to the end.
few_sentences_to_evaluate = pytest.fixture(scope="module", autouse=True)(runs.with_few_sentences)
cache = pytest.fixture(scope="module")(runs.with_cache)

FEWEST_STEPS = {
    "training.steps": 2,
    "training.warmup_steps": 1,
    "training.checkpoint_every_steps": 1,
    "decoding.average_checkpoints": 1,
    "decoding.max_tokens": 4,
}
# What each verb uses: a config whose run it can take.
USED = {"generate": language_model, "classify": classifier}


def _ids(found):
    return [f"{typed.place}: {typed.text}" for typed in found]


VERBS = [typed for typed in of_documents() if typed.text.startswith("t2t-jax")]
MODULES = [typed for typed in of_documents() if typed.text.startswith("python")]
TARGETS = [typed for typed in of_documents() if typed.text.startswith("make")]
DOCSTRINGS = of_docstrings()
RESULTS = REPOSITORY / "experiments" / "results"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """DIR: what README says a directory holds."""
    directory = tmp_path_factory.mktemp("DIR")
    for place in (directory, directory / "crawl"):
        place.mkdir(exist_ok=True)
        for stem in ("train", "student", "val", "test2016", "test2017"):
            write_pairs(place, stem, sentence_pairs(120))
    return directory


@pytest.fixture(scope="module")
def run_of(cache, tmp_path_factory):
    """The directory of a run that the verbs can use, trained once."""
    done: dict = {}

    def run(module):
        if module not in done:
            done[module] = tmp_path_factory.mktemp("run") / "w"
            train(smallest(cache, module, **FEWEST_STEPS), done[module])
        return done[module]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("typed", VERBS, ids=_ids(VERBS))
def test_a_verb_does_what_is_told(typed, corpus, run_of, cache, tmp_path):
    verb, *arguments = _arguments(typed)
    if "hf:DIR" in typed.text or re.search(r"configs/(base|big)\.py", typed.text):
        _read_flags([verb, *arguments])
        return
    workdir = run_of(USED.get(verb, tiny)) if verb not in ("prepare", "train") else tmp_path / "w"
    places = {"DIR": tmp_path / "out" if verb == "export" else corpus, "CRAWL": corpus / "crawl"}
    if verb == "explain":
        arguments = [each.replace("--output=", f"--output={tmp_path}/") for each in arguments]
        arguments = [each.replace("--compare=W2", f"--compare={workdir}") for each in arguments]
    arguments = [
        re.sub(r"\b(DIR|CRAWL)\b", lambda found: str(places[found[0]]), argument)
        for argument in arguments
        if not argument.startswith("--workdir=")
    ]
    if arguments and arguments[0].startswith("--config="):
        arguments[1:1] = smallest_flags(arguments, cache)
    if verb == "compare":
        arguments = [str(workdir) if each in ("W1", "W2") else each for each in arguments]
        names = [each.removeprefix("--name=") for each in arguments if each.startswith("--name=")]
        files = [f"--source={corpus}/test2017.en", f"--reference={corpus}/test2017.de"]
        command("score", f"--workdir={workdir}", *files, *(f"--name={name}" for name in names))
    needs_workdir = [] if verb in ("prepare", "compare") else [f"--workdir={workdir}"]
    done = command(verb, *arguments, *needs_workdir, text="The dog sleeps.\n")
    needs_another_library = verb == "export" and "-e '.[interop]'" in done.stderr
    assert done.returncode == 0 or needs_another_library, done.stderr


@pytest.mark.parametrize("typed", MODULES, ids=_ids(MODULES))
def test_a_command_of_experiments_does_what_is_told(typed, tmp_path):
    name, *arguments = _arguments(typed)
    if any(argument.startswith("--plan=") for argument in arguments):  # which compiles
        done = _read_flags_of_module(name, arguments)
    elif name == "experiments.sweep" and arguments[0] not in ("status", "score"):
        # Of all rows and pairs, other tests make sure.
        fewer = [] if any(each.startswith("--rows") for each in arguments) else ["--rows=base"]
        if any(each.startswith("--equal") for each in arguments):
            fewer.append("--base.data.train_pairs=300")
        done = module(name, *arguments, *fewer, *{"--dry_run"} - {*arguments})
        assert "base" in done.stdout
    elif name in ("experiments.report", "experiments.report.evidence"):
        is_compared = any("table3_tiny_fused" in each for each in arguments)
        kept = RESULTS / ("table3_tiny_fused" if is_compared else "ensembles_tiny")
        shutil.copytree(kept, tmp_path / "w")
        places = {"W": tmp_path / "w", "runs/ablation": tmp_path / "w"}
        done = module(name, *(str(places.get(argument, argument)) for argument in arguments))
    else:
        done = _read_flags_of_module(name, arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("typed", DOCSTRINGS, ids=_ids(DOCSTRINGS))
def test_the_flags_in_a_docstring_are_known(typed):
    name, *arguments = _arguments(typed)
    if typed.text.startswith("python"):
        done = _read_flags_of_module(name, arguments)
        assert done.returncode == 0, done.stderr
    else:
        _read_flags([name, *arguments])


@pytest.mark.parametrize("typed", TARGETS, ids=_ids(TARGETS))
def test_make_knows_its_targets(typed):
    words = ["make", "--dry-run", *_arguments(typed)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_the_readme_is_one():
    block = (
        (REPOSITORY / "README.md").read_text("utf-8").partition("# experiments/tables/widths")[2]
    )
    values: dict = {}
    exec(textwrap.dedent("    #" + block.partition("\n\nWhat a key")[0]), values)
    rows = values["TABLE"].rows(tiny.get_config()).rows
    assert [row.name for row in rows] == ["base", "narrow", "pre_norm"]
    for row in rows:
        check_config(row.config(tiny.get_config()), row.name)


def test_links_lead_somewhere():
    for path in documents():
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_an_extra_is_installed_as_the_readme_does_wherever_it_is_told():
    told = []
    sources = [*(REPOSITORY / "t2t_jax").rglob("*.py"), *(REPOSITORY / "experiments").rglob("*.py")]
    for path in [*documents(), *sources]:
        text = path.read_text("utf-8")
        told += re.findall(r"pip install ([^`\n]*?'[\w.-]*\[[{\w}]+\]')", text)
    assert len(told) >= 8
    assert {re.sub(r"[{\w}]+(?=\]'$)", "", each) for each in told} == {
        "-c constraints.txt -e '.[]'"
    }


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text("utf-8").splitlines()) <= 200


def smallest_flags(arguments, cache):
    """The flags of the smallest run, those that it would read."""
    config = runpy.run_path(arguments[0].partition("=")[2])["get_config"]()
    values = OVERRIDES | FEWEST_STEPS | {"data.cache": str(cache)}
    if any(argument.startswith("--config.data.directory=") for argument in arguments):
        config.data.source = "text"
        values["data.vocabulary_size"] = 60
    config.update_from_flattened_dict(values)
    all_values = flat_dict(config.to_dict())
    read = [key for key in values if not unmet(key, all_values)]
    return [f"--config.{key}={values[key]}" for key in read]


def _arguments(typed):
    """What follows the program's name, without redirections and `...`."""
    text = re.sub(r"\s[<>]\s*\S+", "", typed.text).replace("...", "")
    text = text.replace("CONFIG", "configs/tiny.py")
    return shlex.split(text.removeprefix("python -m").removeprefix("t2t-jax").removeprefix("make"))


def _read_flags(words):
    """Has the verb's flags parsed, and its config read."""
    verb, *arguments = words
    if any(argument.startswith(("--workdir=", "--model=")) for argument in arguments) and not any(
        argument.startswith("--config=") for argument in arguments
    ):
        # Its config would be read from there; every other flag is known all the same.
        arguments = [argument for argument in arguments if not argument.startswith("--config.")]

    def read(*_):
        if "config" in flags.FLAGS:
            read_sections(flags.FLAGS.config)

    with contextlib.ExitStack() as stack:
        for name in verbs._VERBS:
            stack.enter_context(mock.patch(f"t2t_jax.cli.{name}.main", read))
        config = tiny.get_config()
        for function, value in (
            ("workdir._read_config", config.to_dict()),
            ("pretrained.default_config", config),
        ):
            found = mock.Mock(return_value=value)
            stack.enter_context(mock.patch(f"t2t_jax.runs.{function}", found))
        done = command(verb, *arguments)
    assert done.returncode == 0, done.stderr


def _read_flags_of_module(name, arguments):
    """Has the flags parsed, and nothing done."""

    def run(main, flags_parser=flags.FLAGS, **_):
        flags_parser(sys.argv)

    with mock.patch.object(app, "run", run):
        return module(name, *arguments)
