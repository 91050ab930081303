"""docs/FILES.md names what a run leaves, and every field in it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from t2t_jax.runs.score import score, score_files
from t2t_jax.runs.scored_text import read_given
from tests.docs.commands import REPOSITORY

_DOCUMENT = (REPOSITORY / "docs" / "FILES.md").read_text("utf-8")
_CODE = " ".join(re.findall("`([^`]+)`", _DOCUMENT))
NAMED = set(re.findall(r"[\w.]+", _CODE))


def fields_of(path: Path) -> set[str]:
    return {name for line in path.read_text("utf-8").splitlines() for name in json.loads(line)}


def test_the_files_of_a_run_and_their_fields_are_named(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "w")
    given = [tmp_path / f"mine.{language}" for language in ("en", "de")]
    for path in given:
        path.write_text("a dog\n", "utf-8")
    scores = score(run, "test") | score_files(run, read_given(*given))
    training = json.loads((run / "training.json").read_text("utf-8"))
    files = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    fields = fields_of(run / "metrics.jsonl") | set(training) | set(scores)
    assert {"metrics.jsonl", "checkpoints", "scores"} <= files and {"goodput", "bleu"} <= fields
    assert (files | fields) - NAMED == set()


@pytest.mark.parametrize("name", ["record.json", "metrics.jsonl"])
def test_the_fields_of_every_kept_file_are_named(name):
    found = sorted((REPOSITORY / "experiments" / "results").glob(f"*/*/*/*/{name}"))
    assert len(found) > 100
    if name == "record.json":
        fields = {field for path in found for field in json.loads(path.read_text("utf-8"))}
    else:
        fields = {field for path in found for field in fields_of(path)}
    assert fields - NAMED == set()
