"""The whole report of a sweep, whatever state it is in."""

import re
import subprocess
import sys

import pytest

from experiments.report import report
from experiments.report.samples import WHY_NONE
from experiments.run import record
from tests.cli.command import module
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, write_sweep

TEXTS = ["report.md", "report.csv", "report.tex", "report.html"]


def test_every_format_and_figure_is_written(tmp_path):
    write_sweep(tmp_path)
    for path in tmp_path.glob("*/*/*/record.json"):
        fakes.write_translations(path.parent, wrong_every=5)
    paths = report.write_report(tmp_path)
    assert [path.name for path in paths] == [
        *TEXTS,
        "effects.png",
        "bleu_by_length.png",
        "learning_curves.png",
    ]
    for path, format_name in zip(paths, report.FORMATS, strict=False):
        written = path.read_text(encoding="utf-8")
        assert written.startswith(report.text(tmp_path, format_name))
        assert (format_name == "markdown") == ("![" in written)
    written = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[(.*)\]\((.*)\)", written) == [
        ("Difference to the base row", "effects.png"),
        ("BLEU by length of the source", "bleu_by_length.png"),
        ("Dev perplexity while training", "learning_curves.png"),
    ]


def test_of_a_directory_that_cannot_be_written_to_the_report_is_printed(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied", "/theirs/report.md")

    write_sweep(tmp_path)
    monkeypatch.setattr(report, "write", refused)
    done = module("experiments.report", str(tmp_path))
    assert done.returncode == 0 and "| base " in done.stdout
    assert done.stderr == "report: only printed: /theirs/report.md: Permission denied\n"


def test_a_sweep_with_failed_and_missing_runs_is_still_a_table(tmp_path):
    write_sweep(tmp_path)
    rows = TABLE.rows(CONFIG)
    for row, failure in (("one_layer", "ValueError: boom"), ("learned_positions", None)):
        run = record.make_run(TABLE, rows.named(row), CONFIG, 0)
        record.write_run(tmp_path / run.directory, run)
        if failure:
            record.write_json(tmp_path / run.directory / "failure.json", {"error": failure})
    for format_name in ("markdown", "html"):
        text = report.text(tmp_path, format_name)
        assert "one_layer seed 0 failed: ValueError: boom" in text
        assert "learned_positions seed 0 not finished" in text
    assert report.write_report(tmp_path)


def test_a_sweep_with_nothing_finished_still_reports(tmp_path):
    run = record.make_run(TABLE, TABLE.rows(CONFIG).named("base"), CONFIG, 0)
    record.write_run(tmp_path / run.directory, run)
    for format_name in report.FORMATS:
        assert "base" in report.text(tmp_path, format_name)
    assert [path.name for path in report.write_report(tmp_path)] == TEXTS


def test_no_runs_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="no runs below"):
        report.text(tmp_path / "absent", "csv")


def _command(*arguments):
    command = [sys.executable, "-m", "experiments.report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_command_prints_a_format_and_says_elsewhere_what_it_wrote(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    done = _command(str(tmp_path), "--format=csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == (tmp_path / "report.csv").read_text().rstrip("\n")
    assert done.stderr.startswith("written: ") and "report.html" in done.stderr


def test_sentences_that_were_asked_for_and_are_not_there_are_told(tmp_path):
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    sentence = f"report: {TABLE.name} shows no sentences: {WHY_NONE}\n"
    assert sentence in _command(str(tmp_path), "--samples=3").stderr
    assert sentence not in _command(str(tmp_path), "--samples=0").stderr


def test_a_directory_without_runs_ends_the_command_in_a_sentence(tmp_path):
    done = _command(str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("report: there are no runs below ")
