"""The whole report of a sweep, whatever state it is in."""

import pytest

from experiments import record, report
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
        assert path.read_text(encoding="utf-8") == report.text(tmp_path, format_name)


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
