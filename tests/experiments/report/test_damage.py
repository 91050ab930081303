"""A file that is damaged, or another run's, affects only its own run, and is named."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from experiments.report import evidence, report
from experiments.report.summary import summaries
from experiments.run import record
from experiments.sweep import dry_run, status
from experiments.tables.ablation import check_name
from experiments.tables.registry import TABLES
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE, write_sweep


@pytest.fixture
def workdir(tmp_path):
    return write_sweep(tmp_path)


def _means(workdir):
    return {
        row.name: (row.num_seeds, dict(row.means))
        for table in summaries(workdir)
        for row in table.rows
    }


def _change(path, change):
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def test_a_record_copied_from_another_row_is_refused_by_name(workdir):
    before = _means(workdir)
    there = workdir / "quickstart" / "base" / "seed-0" / "record.json"
    here = workdir / "quickstart" / "one_head" / "seed-0" / "record.json"
    shutil.copy(there, here)
    after = _means(workdir)
    assert after["one_head"][0] == 1  # the other seed
    assert {name: row for name, row in after.items() if name != "one_head"} == {
        name: row for name, row in before.items() if name != "one_head"
    }
    sentence = f"{here} is of another run, remove it: row is 'base' there, 'one_head' in run.json"
    for name in ("markdown", "html", "latex"):
        shown = report.text(workdir, name).replace("\\_", "_").replace("&#x27;", "'")
        assert f"one_head seed 0 refused: {sentence}" in shown


def test_a_record_of_the_same_config_at_another_base_is_of_this_run(workdir):
    before = _means(workdir)
    path = workdir / "quickstart" / "one_head" / "seed-0" / "record.json"
    _change(path, lambda values: values["base"]["model"].update(num_heads=1))
    assert _means(workdir) == before and not summaries(workdir)[0].damaged


def _raise_perplexity(values):
    values["scores"]["dev"]["perplexity"] = "<b>"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_text('{"scores": {'), "it is not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "it is not JSON"),
        (lambda path: path.write_text("[1]"), "holds no JSON object"),
        (lambda path: path.write_text("[" * 100_000), "it is not JSON"),
        (lambda path: path.write_text("{}"), "is not a record: lacks table, row"),
        (lambda path: _change(path, lambda values: values.update(seed=7)), "seed is 7 there, 1 in"),
        (lambda path: _change(path, _raise_perplexity), "dev.perplexity='<b>' must be a number"),
        (lambda path: _change(path, lambda v: v.update(params=10**400)), "params=1000"),
        (lambda path: _change(path, lambda v: v.update(scores=[])), "scores must be an object"),
        (lambda path: _change(path, lambda v: v.update(hardware=5)), "hardware must be text"),
        (lambda path: _change(path, lambda v: v["changes"].update(a=[1])), "changes must be"),
    ],
)
def test_a_damaged_record_spoils_its_run_alone(workdir, damage, words):
    path = workdir / "quickstart" / "base" / "seed-1" / "record.json"
    damage(path)
    after = _means(workdir)
    assert {name: seeds for name, (seeds, _) in after.items()} == {
        "base": 2,
        "one_head": 2,
        "no_positions": 1,
    }
    [table] = summaries(workdir)
    [sentence] = table.damaged
    assert sentence.startswith(str(path)) and words in sentence
    assert f"base seed 1 refused: {sentence}" in table.unfinished
    assert "one_head" in report.text(workdir / "quickstart", "markdown")
    [one] = [one for one in status.standing(workdir).runs if one.state == "damaged"]
    assert one.name == "quickstart base seed-1" and words in one.remark
    basis = dry_run.basis(CONFIG, workdir=workdir)
    assert "as long as the 5 finished runs" in basis.words and sentence in basis.words
    with pytest.raises(ValueError, match="record.json"):
        evidence.keep(workdir, workdir / "kept")


@pytest.mark.parametrize("of_run", [True, False])
def test_a_directory_that_may_not_be_read_is_named(workdir, monkeypatch, of_run):
    closed = workdir / "quickstart" / "base" / "seed-1"
    closed = closed if of_run else closed.parent
    scandir = os.scandir

    def refusing(path):  # as to anyone but root
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    sentence = f"{closed} cannot be read (Permission denied): any run in it is missing"
    [table] = summaries(workdir)
    assert table.damaged == [sentence]
    assert ("base" in [row.name for row in table.rows if row.num_seeds]) == of_run
    assert sentence in report.text(workdir, "markdown")
    shown = [run.name for run in status.standing(workdir).runs]
    assert any(name.endswith(" ".join(closed.parts[-2:])) for name in shown)
    with pytest.raises(ValueError, match="Permission denied"):
        evidence.keep(workdir, workdir.parent / "kept")


@pytest.mark.parametrize(
    "row", ["a$\\frac{$b", "<script>", "a|b", "../up", "-x", "=1+1", "", "a\nb"]
)
def test_a_row_of_a_name_that_is_none_is_refused_by_its_file(workdir, row):
    before = _means(workdir)
    directory = workdir / "quickstart" / "no_positions" / "seed-0"
    for name in ("run.json", "record.json"):
        _change(directory / name, lambda values: values.update(row=row))
    after = _means(workdir)
    assert after == {name: before[name] for name in ("base", "one_head")}
    [table] = summaries(workdir)
    [sentence] = table.damaged
    assert sentence.startswith(f"{directory / 'run.json'}: the row ")
    assert any(sentence in note for note in table.notes)
    assert report.write_report(workdir)


def test_names_of_our_tables_are_names():
    for table in TABLES.values():
        check_name(table.name, "table")
    with pytest.raises(ValueError, match="the row 'a b' must be a name"):
        check_name("a b", "row")
    with pytest.raises(ValueError, match="the row 'a b' must be a name"):
        rows = lambda base: [TABLE.make_rows(base)[0]._replace(name="a b")]  # noqa: E731
        TABLE._replace(make_rows=rows).rows(CONFIG)


def test_trials_alone_are_no_table_and_say_what_is_missing(workdir):
    for path in workdir.rglob("run.json"):
        values = json.loads(path.read_text())
        if path.parent.name == "seed-1":
            tuning = {"space": ["K=[1,2]"], "trials": 2, "trial": 0, "point": {"training.steps": 9}}
            path.write_text(json.dumps(values | {"tuning": tuning}))
        else:
            path.write_text("{")
    with pytest.raises(ValueError, match="no table can be made below .*: .*run.json is damaged"):
        summaries(workdir)


def test_nothing_that_can_be_read_is_an_error_that_names_a_file(workdir):
    for path in workdir.rglob("run.json"):
        path.write_text("{")
    with pytest.raises(ValueError, match="no run below .*: .*run.json is damaged.*and 5 more"):
        report.text(workdir, "csv")


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 1, "split": "dev"\n',
        "5\n",
        '{"step": "<b>", "split": "dev", "perplexity": 2}\n',
        '{"step": 1, "split": "dev", "perplexity": -2}\n',
        '{"step": 1, "split": "dev", "perplexity": "x"}\n',
    ],
)
def test_damaged_metrics_spoil_a_curve_alone(workdir, text):
    before = _means(workdir)
    path = workdir / "quickstart" / "one_head" / "seed-0" / "metrics.jsonl"
    path.write_text(text)
    assert _means(workdir) == before
    [table] = summaries(workdir)
    [sentence] = table.damaged
    assert sentence.startswith(f"one_head seed 0 has no curve: {path}")
    assert f"Damaged, left out: {sentence}." in table.notes
    assert [path.name for path in report.write_report(workdir)][-1] == "learning_curves.png"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"bleu_signature": "s", "source_words": [1], "statistics": [[1, 2]]}',
        '{"bleu_signature": "s", "source_words": [1], "statistics": [["x"]]}',
        '{"bleu_signature": "s", "source_words": 5, "statistics": [[1]]}',
    ],
)
def test_damaged_sentences_spoil_a_bootstrap_alone(tmp_path, text):
    for row, wrong in (("base", 9), ("one_head", 2), ("one_layer", 3)):
        directory = fakes.write_record(tmp_path, TABLE, CONFIG, row, 0, perplexity=2.0, bleu=1.0)
        fakes.write_translations(directory, wrong_every=wrong)
    path = tmp_path / "quickstart" / "one_head" / "seed-0" / "scores" / "test.sentences.json"
    path.write_text(text)
    [table] = summaries(tmp_path)
    by_row = {row.name: row for row in table.rows}
    assert by_row["one_layer"].effects["test_bleu"].test == "bootstrap"
    assert by_row["one_head"].effects["test_bleu"].test == ""
    [sentence] = table.damaged
    assert sentence.startswith(f"one_head seed 0 has no paired bootstrap: {path}")


def test_a_damaged_failure_is_said_in_its_place(workdir):
    run = record.make_run(TABLE, TABLE.rows(CONFIG).named("one_layer"), CONFIG, 0)
    record.write_run(workdir / run.directory, run)
    path = workdir / run.directory / record.FAILURE_FILE
    path.write_text("{")
    [table] = summaries(workdir)
    assert any(f"one_layer seed 0 failed: {path} is damaged, " in line for line in table.unfinished)
    assert status.status(workdir / run.directory).remark.startswith(f"{path} is damaged, ")


def test_the_command_names_on_the_terminal_what_it_left_out(workdir):
    path = workdir / "quickstart" / "base" / "seed-1" / "record.json"
    path.write_text('{"a": "\x1b[31m')
    command = [sys.executable, "-m", "experiments.report", str(workdir), "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"report: left out: {path} is damaged, " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_report_is_written_in_the_place_of_a_link_not_where_it_leads(workdir, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("report.md", "effects.png"):
        (workdir / name).symlink_to(precious)
    report.write_report(workdir)
    assert precious.read_text() == "mine"
    assert (workdir / "report.md").read_text().startswith("## ")
