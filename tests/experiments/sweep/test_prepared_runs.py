"""Preparing and executing runs, with a stand-in for the training."""

import functools
import json
import re

import pytest

from configs import tiny
from experiments.launchers import local
from experiments.launchers.event import Event
from experiments.run import record
from experiments.sweep import prepared_runs
from tests.experiments import fakes, pretended_run
from tests.experiments.sweeps import CONFIG, TABLE, prepared

ROWS = TABLE.rows(CONFIG)


@pytest.fixture
def launch():
    return functools.partial(local.launch, parallel=1, command=pretended_run.COMMAND)


def test_every_row_and_seed_gets_its_directory(tmp_path):
    directories = prepared(tmp_path, "base,one_head", num_seeds=2)
    names = [str(path.relative_to(tmp_path)) for path in directories]
    assert names == [
        "quickstart/base/seed-0",
        "quickstart/one_head/seed-0",
        "quickstart/base/seed-1",
        "quickstart/one_head/seed-1",
    ]
    values = json.loads((directories[3] / "run.json").read_text())
    assert (values["table"], values["row"], values["seed"]) == ("quickstart", "one_head", 1)
    assert values["config"]["seed"] == values["base"]["seed"] == 1
    assert values["config"]["model"]["num_heads"] == values["changes"]["model.num_heads"] == 1
    assert values["base"]["model"]["num_heads"] == CONFIG.model.num_heads


def test_a_finished_run_is_not_run_again(tmp_path, launch, capsys):
    directories = prepared(tmp_path, "base,learned_positions")
    assert prepared_runs.do_unfinished(directories, launch) == 0
    capsys.readouterr()
    assert prepared_runs.do_unfinished(prepared(tmp_path, "base,learned_positions"), launch) == 0
    assert capsys.readouterr().out == "2 runs, 2 of them finished before\n"
    assert [(path / "times_run").read_text() for path in directories] == ["x", "x"]


def test_a_later_sweep_with_more_seeds_runs_only_those(tmp_path, launch):
    prepared_runs.do_unfinished(prepared(tmp_path, "base"), launch)
    directories = prepared(tmp_path, "base", num_seeds=2)
    prepared_runs.do_unfinished(directories, launch)
    assert [(path / "times_run").read_text() for path in directories] == ["x", "x"]


def test_a_failing_row_does_not_stop_the_others_and_is_counted(tmp_path, launch, capsys):
    directories = prepared(tmp_path, "base,one_head,one_layer,learned_positions")
    two_at_a_time = functools.partial(launch, parallel=2)
    assert prepared_runs.do_unfinished(directories, two_at_a_time) == 2
    assert [(path / "record.json").exists() for path in directories] == [True, False, False, True]
    said = capsys.readouterr().out
    assert "one_head seed-0 FAILED: ValueError: no such thing; log: " in said
    assert "one_layer seed-0 FAILED: killed by signal 9; log: " in said
    assert re.search(r"base seed-0 finished in \d+ s: PPL 1\.23  BLEU 91\.3", said)
    assert "killed by signal 9" in (directories[2] / "failure.json").read_text()


def test_the_reason_of_an_early_exit_is_the_last_line_of_its_log(tmp_path, launch, capsys):
    [directory] = prepared(tmp_path / "fussy", "learned_positions")
    assert prepared_runs.do_unfinished([directory], launch) == 1
    assert "FAILED: exit code 1: the disk is full; log: " in capsys.readouterr().out


def test_a_failed_run_is_tried_again(tmp_path, launch):
    directories = prepared(tmp_path, "one_head")
    for _ in range(2):
        assert prepared_runs.do_unfinished(directories, launch) == 1
    assert (directories[0] / "times_run").read_text() == "xx"


def test_a_changed_config_is_refused_and_says_what_differs(tmp_path):
    directories = prepared(tmp_path, "base")
    changed = tiny.get_config()
    changed.training.steps = 777
    with pytest.raises(ValueError, match=r"base/seed-0.*training\.steps is \d+ there, 777 now"):
        prepared(tmp_path, "*", config=changed)
    kept = json.loads((directories[0] / "run.json").read_text())["config"]["training"]["steps"]
    assert kept == CONFIG.training.steps
    assert not (tmp_path / "quickstart/one_head").exists()
    # A record alone tells too.
    (directories[0] / "run.json").rename(directories[0] / "record.json")
    with pytest.raises(ValueError, match="777 now"):
        prepared(tmp_path, "*", config=changed)


def test_rows_of_one_table_are_given_equal_shares_of_the_same(tmp_path):
    prepared(tmp_path, "base,one_head")
    rows = TABLE.rows(CONFIG).select("base,no_positions")
    with pytest.raises(
        ValueError, match="one_head/seed-0 is of --equal=steps, this is --equal=tok"
    ):
        prepared_runs.prepare(TABLE, rows, CONFIG, 1, tmp_path, equal="tokens")
    assert not (tmp_path / "quickstart/no_positions").exists()


def test_what_is_not_finished_may_go_on_in_other_pieces(tmp_path, launch, capsys):
    prepared_runs.do_unfinished(prepared(tmp_path, "base"), launch)
    prepared(tmp_path, "learned_positions")
    changed = tiny.get_config()
    changed.training.microbatches = 2
    changed.devices.tensor = 2
    directories = prepared(tmp_path, "base,learned_positions", config=changed)
    assert prepared_runs.do_unfinished(directories, launch) == 0
    assert "2 runs, 1 of them finished before\n" in capsys.readouterr().out
    configs = [json.loads((path / "run.json").read_text())["config"] for path in directories]
    assert [config["training"]["microbatches"] for config in configs] == [1, 2]
    bases = [record.settings(record.read_run(path).base) for path in directories]
    assert bases[0] == bases[1]  # and so they are rows of one table


def test_a_value_no_section_allows_fails_before_anything_is_written(tmp_path):
    changed = tiny.get_config()
    changed.training.steps = 0
    with pytest.raises(ValueError, match="row base: .*steps=0"):
        prepared(tmp_path, "*", config=changed)
    assert not list(tmp_path.iterdir())


def test_what_failed_is_tried_again_when_the_others_are_done(tmp_path, launch, capsys):
    directories = prepared(tmp_path, "one_head,learned_positions")
    assert prepared_runs.do_unfinished(directories, launch, num_retries=2) == 1
    assert [(path / "times_run").read_text() for path in directories] == ["xxx", "x"]
    assert "1 failed; retry 2 of 2" in capsys.readouterr().out


def test_what_has_diverged_is_not_tried_until_it_does_not(tmp_path, launch, capsys):
    directories = prepared(tmp_path, "base,learned_positions")
    why = "diverged at step 7: the loss is nan"
    tried = []

    def diverging(asked):
        for directory in asked:
            tried.append(directory)
            record.write_json(directory / record.FAILURE_FILE, {"error": why})
            yield Event(directory, "failed", 1.0, why)

    assert prepared_runs.do_unfinished(directories[:1], diverging, num_retries=2) == 1
    assert tried == directories[:1]
    assert prepared_runs.do_unfinished(directories, launch, num_retries=2) == 1
    assert [path.exists() for path in (each / "times_run" for each in directories)] == [False, True]
    said = f"base seed-0 {why}; remove failure.json there to try again from its last checkpoint\n"
    assert said in capsys.readouterr().out
    (directories[0] / record.FAILURE_FILE).unlink()
    assert prepared_runs.do_unfinished(directories, launch) == 0


def test_seeds_count_up_from_that_of_the_base(tmp_path):
    config = tiny.get_config()
    config.seed = 4
    directories = prepared(tmp_path, "base", num_seeds=2, config=config)
    assert [path.name for path in directories] == ["seed-4", "seed-5"]
    assert record.read_run(directories[1]).config["seed"] == 5


def test_a_row_with_data_of_its_own_may_be_finished(tmp_path):
    run_ = fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=1.0, bleu=1.0)
    other = tiny.get_config()
    other.data.vocabulary_size = 1_000
    prepared_runs.check_same_data([run_], other, "d1")


def test_another_beam_is_another_run(tmp_path):
    prepared(tmp_path, "base")
    config = tiny.get_config()
    config.decoding.beam_size = 1
    with pytest.raises(ValueError, match="decoding.beam_size is 4 there, 1 now"):
        prepared(tmp_path, "base", config=config)
