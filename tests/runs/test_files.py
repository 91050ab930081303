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
    text = path.read_text("utf-8")
    objects = text.splitlines() if path.suffix == ".jsonl" else [text]
    return {name for each in objects for name in json.loads(each)}


def test_the_files_of_a_run_and_their_fields_are_named(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "w")
    given = [tmp_path / f"mine.{language}" for language in ("en", "de")]
    for path in given:
        path.write_text("a dog\n", "utf-8")
    scores = score(run, "test") | score_files(run, read_given(*given))
    files = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    fields = fields_of(run / "metrics.jsonl") | fields_of(run / "training.json") | set(scores)
    assert {"metrics.jsonl", "checkpoints", "scores"} <= files and {"goodput", "bleu"} <= fields
    assert (files | fields) - NAMED == set()


@pytest.mark.parametrize("name", ["record.json", "metrics.jsonl"])
def test_the_fields_of_every_kept_file_are_named(name):
    found = sorted((REPOSITORY / "experiments" / "results").glob(f"*/*/*/*/{name}"))
    assert len(found) > 100
    assert {field for path in found for field in fields_of(path)} - NAMED == set()
