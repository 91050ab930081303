"""`--equal`: rows with the same total as base."""

import json
import re

import pytest

from configs import tiny
from experiments.launchers.local import share_of_one
from experiments.report import report, summary
from experiments.run import record
from experiments.sweep import equal_rows as module
from experiments.sweep.equal_rows import equal_rows
from experiments.tables.ablation import Row, Rows, Score, Table
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.step_cost import step_cost, target_tokens
from tests.experiments import fakes

ROWS = [
    Row("base", {}),
    Row("half_batch", {"data.target_tokens_per_batch": 256, "data.source_tokens_per_batch": 256}),
    Row("one_layer", {"model.num_encoder_layers": 1, "model.num_decoder_layers": 1}),
]
SHARE = share_of_one(1)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    config = tiny.get_config()
    config.data.cache = str(tmp_path_factory.mktemp("cache"))
    config.data.train_pairs, config.data.vocabulary_size = 2_000, 300
    config.data.source_tokens_per_batch = config.data.target_tokens_per_batch = 512
    config.model.d_model, config.model.d_ff, config.model.vocabulary_rows = 32, 64, 300
    config.model.d_k = config.model.d_v = 8
    return config


def steps_of(base, equal, directory=None, share=SHARE):
    rows = equal_rows(Rows(ROWS, []), base, equal, directory, share)
    return {row.name: row.config(base).training.steps for row in rows.rows}


def test_as_many_tokens_are_more_updates_of_smaller_batches(base):
    steps = steps_of(base, "tokens")
    assert steps["base"] == steps["one_layer"] == base.training.steps
    of_update = {name: target_tokens(_batches(name, base)) for name in steps}
    tokens = {name: steps[name] * of_update[name] for name in steps}
    assert steps["half_batch"] > 1.5 * steps["base"]
    assert tokens["half_batch"] == pytest.approx(tokens["base"], rel=1e-3)


def test_as_many_operations_are_more_updates_of_a_smaller_model(base):
    steps = steps_of(base, "flops")
    operations = {}
    for name in steps:
        model = read_sections(_row(name).config(base)).model
        operations[name] = steps[name] * step_cost(_batches(name, base), model).padded_operations
    assert steps["one_layer"] > 1.2 * steps["base"]
    assert operations["one_layer"] == pytest.approx(operations["base"], rel=1e-3)


def test_seconds_are_measured_once_and_kept(base, tmp_path, monkeypatch, capsys):
    rates = {2: 1_000.0, 1: 2_000.0}  # layers -> tokens/s
    measured = []

    def tokens_per_second(config, share):
        measured.append(config.model.num_encoder_layers)
        return rates[config.model.num_encoder_layers]

    monkeypatch.setattr(module, "_tokens_per_second", tokens_per_second)
    first = steps_of(base, "seconds", tmp_path)
    assert first["one_layer"] == 2 * first["base"] and measured == [2, 2, 1]
    assert "row one_layer: measured ... " in capsys.readouterr().out
    # Another sweep, and a dry run, have the same.
    assert steps_of(base, "seconds", tmp_path, share=None) == first
    assert len(measured) == 3


def test_seconds_that_nobody_has_measured_are_refused(base, tmp_path):
    for directory in (None, tmp_path):
        with pytest.raises(ValueError, match="row base are not known; a sweep with --launcher=loc"):
            steps_of(base, "seconds", directory, share=None)


@pytest.mark.slow
def test_a_short_training_tells_how_fast_a_row_is(base, monkeypatch):
    monkeypatch.setattr(module, "_UPDATES", 2)
    fast = base.copy_and_resolve_references()
    fast.data.num_buckets = 1  # one program to compile
    assert 10 < module._tokens_per_second(fast, SHARE) < 1e6


def test_a_row_that_only_computes_otherwise_is_measured_too(base, tmp_path, monkeypatch):
    again = {"model.rematerialise": True}
    rates = {False: 1_000.0, True: 500.0}
    monkeypatch.setattr(
        module, "_tokens_per_second", lambda config, share: rates[config.model.rematerialise]
    )
    rows = equal_rows(Rows([ROWS[0], Row("again", again)], []), base, "seconds", tmp_path, SHARE)
    found = {row.name: row.config(base).training.steps for row in rows.rows}
    assert found["base"] == 2 * found["again"]
    # Of another machine's base the seconds stay.
    elsewhere = base.copy_and_resolve_references()
    elsewhere.devices.fsdp = 2
    assert equal_rows(Rows(ROWS[:1], []), elsewhere, "seconds", tmp_path).rows == ROWS[:1]


def test_windows_in_which_something_is_compiled_do_not_count():
    def window(rate, compiled, seconds):
        share = compiled / seconds
        return {"target_tokens_per_second": rate, "share_compile": share, "seconds": seconds}

    windows = [window(1.0, 5.0, 6.0), window(9.0, 5.0, 7.0), window(2.0, 8.0, 11.0)]
    assert module._rate([*windows, window(9.5, 8.0, 12.0)]) == 9.25
    assert module._rate(windows[::2]) == 1.5


def test_it_has_what_a_run_has_of_the_machine(base):
    share = SHARE._replace(environment={"JAX_PLATFORMS": "abacus"})
    with pytest.raises(ValueError, match="--equal=seconds: .*abacus"):
        module._tokens_per_second(base, share)


def test_a_training_that_fails_is_told(base):
    wrong = base.copy_and_resolve_references()
    wrong.data.source_tokens_per_batch = 1
    wrong.decoding.average_checkpoints = 5  # of which so short a training has none
    with pytest.raises(ValueError, match="--equal=seconds: .*source_tokens_per_batch=1 is too sm"):
        module._tokens_per_second(wrong, SHARE)


def test_a_row_that_changes_is_measured_anew(base, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_tokens_per_second", lambda config, share: 1_000.0)
    steps_of(base, "seconds", tmp_path)
    wider = base.copy_and_resolve_references()
    wider.model.d_ff = 128
    with pytest.raises(ValueError, match="those of row base are not known"):
        steps_of(wider, "seconds", tmp_path, share=None)


def _batches(name, base):
    return module._batches(_row(name).config(base), {})


def _row(name):
    return next(row for row in ROWS if row.name == name)


def _write(workdir, base, equal):
    """A finished sweep of two rows, one of which the paper has."""
    table = Table("small", "A table", lambda _: ROWS)
    rows = equal_rows(Rows(ROWS[::2], []), base, equal, None)
    for row in rows.rows:
        run = record.make_run(table, row, base, 0, equal)
        directory = fakes.write_record(
            workdir,
            Table(
                "small", "A table", lambda _, row=row: [Row("base", {}), row][row.name == "base" :]
            ),
            base,
            row.name,
            0,
            perplexity=2.0,
            bleu=50.0,
            equal=equal,
            operations={"without_padding": 3e12, "with_padding": 4.5e12},
        )
        record.write_json(directory / record.RUN_FILE, {"format": 1, **run._asdict()})
    return rows


def test_the_report_says_what_was_equal_and_has_the_rest_as_columns(base, tmp_path, monkeypatch):
    rows = _write(tmp_path, base, "flops")
    known = [row._replace(note="a note", paper=Score(4.9, 25.8)) for row in ROWS]
    table = Table("small", "A table", lambda _: known)
    monkeypatch.setattr(summary, "find_table", lambda name: table)
    text = re.sub(" +", " ", report.text(tmp_path, "markdown"))
    assert "Equal: operations. Each row has as many updates as come to base's operations" in text
    assert "| TFLOP | with padding |" in text and "| 3.00 | 4.50 |" in text
    steps = rows.rows[1].changes["training.steps"]
    assert f"steps={steps}" in text
    assert "Row one_layer: a note." in text  # the row is the table's, stretched
    assert "--equal=flops" in text


def test_a_run_of_before_had_as_many_updates(base, tmp_path):
    directory = fakes.write_record(
        tmp_path, Table("t", "T", lambda _: ROWS), base, "base", 0, perplexity=2.0, bleu=50.0
    )
    path = directory / record.RUN_FILE
    values = json.loads(path.read_text())
    del values["equal"]
    path.write_text(json.dumps(values))
    assert record.read_run(directory).equal == "steps"
    path.write_text(json.dumps(values | {"equal": "luck"}))
    with pytest.raises(ValueError, match="equal='luck' must be one of steps, tokens, flops, sec"):
        record.read_run(directory)
