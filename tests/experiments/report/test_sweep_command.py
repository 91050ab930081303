"""The command that reproduces a table makes the very runs it came from."""

import re
import shlex
from html import unescape

from configs import multi30k, tiny
from experiments.report.figures import forest_plot
from experiments.report.rendering.comma_separated import csv_text
from experiments.report.rendering.markdown import markdown
from experiments.report.rendering.page import html
from experiments.report.summary import summaries
from experiments.report.sweep_command import sweep_command
from experiments.run import record
from experiments.run.outcomes import read_outcomes
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE

ROWS = [row.name for row in TABLE.rows(CONFIG).rows]


def _command(workdir, config=CONFIG, rows=("base",), seeds=(0,), known_rows=("base",)):
    for row in rows:
        for seed in seeds:
            fakes.write_record(workdir, TABLE, config, row, seed, perplexity=1.0, bleu=1.0)
    return sweep_command(TABLE.name, read_outcomes(workdir).runs, known_rows)


def test_a_config_as_it_is_needs_no_override(tmp_path):
    expected = "python -m experiments.sweep quickstart --base=configs/tiny.py --seeds=3 --workdir=W"
    assert _command(tmp_path, rows=ROWS, seeds=(0, 1, 2), known_rows=ROWS) == expected
    [table] = summaries(tmp_path)
    assert table.commands == [expected]


def test_a_later_test_set_has_its_command_and_every_column_its_name(tmp_path):
    config = multi30k.get_config()
    config.data.directory, config.data.test = "/home/me/data", "test1"
    for row, bleu in (("base", 30.0), ("one_head", 29.0)):
        directory = fakes.write_record(tmp_path, TABLE, config, row, 0, perplexity=2.0, bleu=bleu)
        values = record.read_record(directory)
        for name, files in (
            ("t 17", ["/home/me/t17.en", "/home/me/t17.de"]),
            ("t18", ["/home/me/it's t18.en.gz", "/home/me/t18.de"]),
            ("t19", "/home/me/t19.en"),
        ):
            scores = {"name": name, "files": files, "bleu": bleu, "bleu_signature": "s"}
            values["scores"][name] = scores
        record.write_json(directory / record.RECORD_FILE, values)
    [table] = summaries(tmp_path)
    sweep, *scores = table.commands
    assert sweep.startswith("python -m experiments.sweep quickstart --base=configs/multi30k.py ")
    quoted = shlex.quote("DIR/it's t18.en.gz")
    assert scores == [
        f"python -m experiments.sweep score W --source={quoted} --reference=DIR/t18.de --name=t18"
    ]
    for text in (markdown([table]), html([table])):
        assert scores[0] in unescape(re.sub("</?span>", "", text))
        assert "ΔBLEU (test1)" in text and "ΔBLEU (t18)" in text and "BLEU (test)" not in text
    [panel] = forest_plot.panels([table])
    assert forest_plot._label(panel.forests[0].measure).startswith("Δ BLEU (test1),")
    # One column of it, also beside a table of which there is one test set.
    fakes.write_record(tmp_path / "b", TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=90.0)
    header = csv_text(summaries(tmp_path)).splitlines()[0].split(",")
    assert header.count("test_bleu_mean") == 1


def test_rows_are_named_in_the_tables_order_where_they_are_not_all(tmp_path):
    found = _command(tmp_path, rows=["one_layer", "base"], known_rows=ROWS)
    assert "--rows=base,one_layer " in found and "--seeds" not in found


def test_other_values_are_overrides_that_give_the_config_back(tmp_path):
    config = tiny.get_config()
    config.training.steps = 7
    config.data.source, config.data.name = "tfds", "a dataset"
    found = _command(tmp_path, config, seeds=(4, 5))
    assert "--base=configs/tiny.py" in found and "--seeds=2 " in found
    overrides = re.findall(r"--base\.([\w.]+)=(.*)", "\n".join(shlex.split(found)))
    assert dict(overrides) == {
        **{"training.steps": "7", "data.source": "tfds", "data.name": "a dataset"},
        "seed": "4",
    }


def test_what_no_run_reads_is_not_told(tmp_path):
    config = tiny.get_config()
    config.data.name, config.data.mask_rate = "a dataset", 0.5
    assert "--base.data" not in _command(tmp_path, config)


def test_where_the_data_lies_is_not_told(tmp_path):
    config = multi30k.get_config()
    config.data.directory, config.data.cache = "/home/me/data", "/home/me/cache"
    found = _command(tmp_path, config)
    assert "--base=configs/multi30k.py --base.data.directory=DIR" in found
    assert "/home/me" not in found


def test_a_base_with_other_keys_has_no_command(tmp_path):
    _command(tmp_path)
    outcomes = read_outcomes(tmp_path).runs
    del outcomes[0].run.base["model"]["d_ff"]
    assert sweep_command(TABLE.name, outcomes, ["base"]) is None


def test_what_is_equal_is_told_where_base_was_finished_before(tmp_path):
    _command(tmp_path)
    directory = fakes.write_record(
        tmp_path, TABLE, CONFIG, "one_head", 0, perplexity=1.0, bleu=1.0, equal="tokens"
    )
    values = record.read_json(directory / record.RUN_FILE)
    record.write_json(directory / record.RUN_FILE, values | {"equal": "tokens"})
    found = sweep_command(TABLE.name, read_outcomes(tmp_path).runs, ("base", "one_head"))
    assert found is not None and "--equal=tokens " in found
