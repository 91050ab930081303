"""Scoring a finished sweep on another test set."""

import json

import pytest

from experiments.report import report
from experiments.run import record
from experiments.sweep import later_scores
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, prepared, write_row


@pytest.fixture
def files(tmp_path):
    """Source and reference of a test set of two sentences."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "t17.en").write_text("the dog sleeps\na cat sees it\n")
    (folder / "t17.de").write_text("der Hund schläft\neine Katze sieht ihn\n", encoding="utf-8")
    return folder / "t17.en", folder / "t17.de"


@pytest.fixture
def scored(monkeypatch):
    """The directories that `score_files` was asked for; its scores are pretended."""
    asked = []

    def score_files(directory, given, sections):
        asked.append(directory)
        if "no_positions" in str(directory):
            raise ValueError("it holds no checkpoint: train first")
        bleu = 80.0 + sections.seed + (directory.parent.name == "one_head")
        return {
            "name": given.name,
            "files": given.files,
            "sha256": given.sha256,
            "sentences": len(given.pairs),
            "perplexity": 2.0,
            "bleu": bleu,
            "bleu_signature": fakes.SIGNATURE,
        }

    monkeypatch.setattr("t2t_jax.runs.score.score_files", score_files)
    return asked


def test_every_finished_run_gets_its_scores_and_the_report_their_columns(
    tmp_path, files, scored, capsys
):
    workdir = tmp_path / "w"
    for row in ("base", "one_head"):
        write_row(workdir, row, [(2.0, 90.0), (2.1, 91.0)])
    prepared(workdir, "one_layer")
    assert later_scores.score(workdir, *files, None) == 0
    assert len(scored) == 4
    shown = " ".join(capsys.readouterr().out.split())
    assert "| BLEU (t17) | ΔBLEU (t17) |" in shown and "| 81.5 ± 6.4 | +1.0 |" in shown
    [header, *_] = (workdir / "report.csv").read_text().splitlines()
    assert "t17_bleu" in header
    for path in workdir.rglob("record.json"):
        scores = record.read_record(path.parent)["scores"]
        assert scores["t17"]["sentences"] == 2 and scores["test"]["bleu"] >= 90
    # A second time there is nothing to do.
    assert later_scores.score(workdir, *files, None) == 0
    assert len(scored) == 4
    # A seed that comes later has no such score; the others are compared as before.
    fakes.write_record(workdir, TABLE, CONFIG, "one_head", 2, perplexity=2.2, bleu=92.0)
    assert "+1.0 |" in " ".join(report.text(workdir, "markdown").split())


def test_a_run_of_before_a_key_was_added_is_scored(tmp_path, files, scored):
    write_row(tmp_path, "base", [(2.0, 90.0)])
    [path] = tmp_path.rglob(record.RUN_FILE)
    values = json.loads(path.read_text())
    for config in (values["config"], values["base"]):
        del config["model"]["norm_kind"]
    path.write_text(json.dumps(values))
    assert later_scores.score(tmp_path, *files, None) == 0
    assert len(scored) == 1


def test_two_test_sets_that_are_scored_at_once_are_both_kept(tmp_path, files, monkeypatch):
    [path] = [fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=90.0)]

    def score_files(directory, given, sections):
        values = record.read_record(path)  # meanwhile another command has its own
        values["scores"]["t18"] = {"name": "t18", "bleu": 70.0}
        record.write_json(path / record.RECORD_FILE, values)
        return {"name": given.name, "sha256": given.sha256, "bleu": 80.0}

    monkeypatch.setattr("t2t_jax.runs.score.score_files", score_files)
    assert later_scores.score(tmp_path, *files, None) == 0
    assert record.read_record(path)["scores"].keys() >= {"t17", "t18"}


def test_a_run_that_cannot_be_scored_is_told_and_stops_no_other(tmp_path, files, scored, capsys):
    for row in ("base", "no_positions", "one_head"):
        write_row(tmp_path / "w", row, [(2.0, 90.0)])
    assert later_scores.score(tmp_path / "w", *files, "mine") == 1
    assert "no_positions/seed-0 has no scores: it holds no checkpoint" in capsys.readouterr().err
    found = {path.parent.parent.name for path in (tmp_path / "w").rglob("record.json")
             if "mine" in json.loads(path.read_text())["scores"]}  # fmt: skip
    assert found == {"base", "one_head"}


def test_other_files_of_a_name_that_is_taken_are_refused(tmp_path, files, scored):
    write_row(tmp_path / "w", "base", [(2.0, 90.0)])
    assert later_scores.score(tmp_path / "w", *files, None) == 0
    write_row(tmp_path / "w", "one_head", [(2.0, 90.0)])  # has none yet
    files[1].write_text("der Hund schläft\neine Katze sieht es\n", encoding="utf-8")
    with pytest.raises(ValueError, match="base/seed-0 has scores of other files as 't17': give "):
        later_scores.score(tmp_path / "w", *files, None)
    assert len(scored) == 1


def test_a_sweep_without_finished_runs_is_told(tmp_path, files):
    prepared(tmp_path / "w", "base")
    with pytest.raises(ValueError, match="there are no finished runs below"):
        later_scores.score(tmp_path / "w", *files, None)


def test_other_lines_of_the_same_name_are_not_compared(tmp_path):
    for row, sha256 in (("base", "a"), ("one_head", "b")):
        directory = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=90.0)
        values = record.read_record(directory)
        values["scores"]["t17"] = {"name": "t17", "sha256": ["c" * 64, sha256], "bleu": 80.0}
        record.write_json(directory / record.RECORD_FILE, values)
    [table] = report.read(tmp_path)
    [_, one_head] = table.rows
    assert "t17_bleu" in one_head.means and "t17_bleu" not in one_head.effects
    said = "Warning: mixed texts or signatures of BLEU (t17), they are not comparable: "
    assert any(note.startswith(said) for note in table.notes)
    assert "test_bleu" in one_head.effects


def test_a_name_in_a_record_that_is_none_has_no_column(tmp_path):
    directory = fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=90.0)
    values = record.read_record(directory)
    values["scores"] |= {name: {"name": name, "bleu": 80.0} for name in ("a|b", "../x", "t")}
    record.write_json(directory / record.RECORD_FILE, values)
    [table] = report.read(tmp_path)
    assert [measure.split for measure in table.measures] == ["dev", "test", "t"]
