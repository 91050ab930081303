"""The command that makes a table anew makes the very runs it was read from."""

import re
import shlex

from configs import multi30k, tiny
from experiments.report.summary import summaries
from experiments.report.sweep_command import sweep_command
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
    assert table.command == expected


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
