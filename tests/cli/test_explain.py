"""The output of `explain`, and its errors for wrong flags."""

import csv
import json
from unittest import mock

import pytest

from t2t_jax.cli.explain import _labels
from t2t_jax.runs.translate import make_translator
from t2t_jax.runs.workdir import load_trained
from tests.cli.command import command

SOURCE = "--source=The dog sleeps."


def test_the_page_of_a_run_is_one_file(trained, tmp_path):
    page = tmp_path / "made" / "page.html"
    done = command("explain", f"--workdir={trained}", SOURCE, f"--output={page}", "--language=de")
    assert done.returncode == 0, done.stderr
    assert f"written: {page}" in done.stdout
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>") and 'lang="de"' in text
    assert [each.name for each in page.parent.iterdir()] == ["page.html"]


def test_models_are_called_by_what_tells_their_directories_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _labels(["runs/base/seed-1/"]) == ["seed-1"]
    assert _labels(["."]) == [tmp_path.name]
    assert _labels(["runs/base/seed-1", "runs/A/seed-1"]) == ["base/seed-1", "A/seed-1"]
    assert _labels(["base", "hf:models/gpt2"]) == ["base", "gpt2"]
    assert _labels(["base", "../" + tmp_path.name + "/base"]) == ["base", "base"]


def test_json_has_the_translation_and_csv_a_row_a_head(trained, tmp_path):
    paths = tmp_path / "all.json", tmp_path / "heads.csv"
    for path in paths:
        done = command("explain", f"--workdir={trained}", SOURCE, f"--output={path}")
        assert done.returncode == 0, done.stderr
    [[document]] = json.loads(paths[0].read_text("utf-8"))
    [[expected]] = make_translator(load_trained(trained))(["The dog sleeps."])
    assert document["output"] == expected.text
    assert document["facts"]["step"] == 8 and document["label"] == "w"
    rows = list(csv.DictReader(paths[1].read_text("utf-8").splitlines()))
    assert len(rows) == 6


def test_another_model_and_a_control_stand_beside_this_one(trained, tmp_path):
    path = tmp_path / "all.json"
    for flag in (f"--compare={trained}", "--control"):
        done = command("explain", f"--workdir={trained}", SOURCE, f"--output={path}", flag)
        assert done.returncode == 0, done.stderr
        [[one, other]] = json.loads(path.read_text("utf-8"))
        same = one["stacks"][0]["attentions"] == other["stacks"][0]["attentions"]
        assert same == (flag != "--control")
        assert one["stacks"][1]["tokens"] == other["stacks"][1]["tokens"]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_figure_is_a_file(ending, trained, tmp_path):
    path = tmp_path / f"head.{ending}"
    flags = ["--attention=cross", "--layer=1", "--head=2"]
    done = command("explain", f"--workdir={trained}", SOURCE, f"--output={path}", *flags)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([SOURCE], "--output is missing: the file to write"),
        (["--output=page.html"], "--source is missing: a sentence"),
        ([SOURCE, "--output=page"], "let it end in one of html, json, csv, png, svg, pdf"),
        ([SOURCE, SOURCE, "--output=a.csv"], "--format=csv shows one sentence and one model"),
        ([SOURCE, "--output=a.html", "--control", "--compare=w"], "give one"),
        ([SOURCE, "--output=a.html", "--compare=nowhere"], "nowhere holds no run"),
        (["--source= ", "--output=a.html"], "the text has no tokens"),
        ([SOURCE, "--output=a.png", "--layer=3"], "the model has layers encoder 1 to 1"),
        ([SOURCE, "--output=a.png", "--figure=contexts", "--head=9"], "has heads 1 to 2"),
        ([SOURCE, "--output=a.html", "--head=1"], "--head has no effect on html"),
        ([SOURCE, "--output=a.csv", "--figure=steps"], "--figure has no effect on csv"),
        ([SOURCE, "--output=a.json", "--language=de"], "--language has no effect on json"),
        ([SOURCE, "--output=a.csv", "--top_n=9"], "--top_n has no effect on csv"),
        ([SOURCE, "--output=a.png", "--top_n=9"], "--top_n has no effect on --figure=attention"),
        ([SOURCE, "--output=a.svg", "--figure=steps", "--layer=1"], "no effect on --figure=steps"),
        ([SOURCE, "--output=."], "--output=. is a directory: name a file in it"),
        (
            [SOURCE, "--output=/dev/null", "--format=json"],
            "null is a pipe or a device: name a file",
        ),
        ([SOURCE, "--output=/dev/null/a.html"], "/dev/null is not a directory"),
        ([SOURCE, "--output=a.html", "--top_n=0"], "--top_n"),
        ([SOURCE, "--output=a.html", "--config.training.steps=3"], "has no effect on explain"),
    ],
    ids=lambda each: str(each[-1]) if isinstance(each, list) else "",
)
def test_what_cannot_be_done_is_told_in_a_sentence(arguments, said, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("explain", f"--workdir={trained}", *arguments)
    assert done.returncode != 0 and said in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_be_written_is_left_as_it_is(trained, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("mine")
    path.chmod(0o444)
    done = command("explain", f"--workdir={trained}", SOURCE, f"--output={path}")
    assert done.returncode != 0 and "page.html is read-only, and is left as it is" in done.stderr
    before = (trained / "config.json").read_bytes()
    own = f"--output={trained / 'config.json'}"
    done = command("explain", f"--workdir={trained}", SOURCE, own)
    assert done.returncode != 0 and "is a file of a run, and is left as it is" in done.stderr
    assert (trained / "config.json").read_bytes() == before
    path.chmod(0o644)
    monkeypatch.setattr("os.replace", mock.Mock(side_effect=PermissionError(13, "not yours")))
    done = command("explain", f"--workdir={trained}", SOURCE, f"--output={path}")
    assert done.returncode != 0 and "page.html cannot be written: not yours" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "mine"
