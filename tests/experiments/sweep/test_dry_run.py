"""What a sweep would do, before anything is done."""

import math

import pytest

from configs import base, classifier, tiny
from experiments.sweep import dry_run
from experiments.tables import ablation, table3
from tests.experiments import fakes

CONFIG = tiny.get_config()
PAPER = base.get_config()


def test_it_tells_rows_parameters_and_reasons():
    rows = table3.TABLE.rows(CONFIG).select("base,C.N=*")
    text = dry_run.text(table3.TABLE, rows, CONFIG)
    assert "C.N=1" in text and "num_encoder_layers=1 num_decoder_layers=1" in text
    assert "paper" not in text.splitlines()[2]
    every_reason = table3.TABLE.rows(CONFIG)._replace(rows=rows.rows)
    left_out = dry_run.text(table3.TABLE, every_reason, CONFIG)
    assert ("Left out at this base:" in left_out) == bool(every_reason.left_out)


def test_at_the_papers_base_its_parameters_stand_beside_ours():
    rows = table3.TABLE.rows(PAPER).select("base,B.d_k=16")
    lines = dry_run.text(table3.TABLE, rows, PAPER).splitlines()
    assert lines[2].split() == [
        "row", "runs", "params", "10^6", "paper", "tokens", "10^6", "changes",
    ]  # fmt: skip
    assert lines[3].split() == ["base", "1", "65.11", "65", "2,500"]
    assert lines[4].split() == ["B.d_k=16", "1", "58.02", "58", "2,500", "d_k=16"]


def test_tokens_and_hours_are_those_of_all_seeds_and_add_up():
    rows = table3.TABLE.rows(PAPER).select("base,big")
    basis = dry_run.basis(PAPER, tokens_per_second=25_000)
    lines = dry_run.text(table3.TABLE, rows, PAPER, 3, basis).splitlines()
    # 100,000 steps of 25,000 tokens; the big row takes three times the steps.
    assert lines[3].split()[:6] == ["base", "3", "65.11", "65", "7,500", "83.3"]
    big = 3 * 27.78 * 3 * (218.30 / 65.11)
    assert lines[4].split()[:5] == ["big", "3", "218.30", "213", "22,500"]
    assert float(lines[4].split()[5]) == pytest.approx(big, rel=0.01)
    assert lines[5].split()[:3] == ["all", "6", "30,000"]
    assert float(lines[5].split()[3]) == pytest.approx(big + 83.3, rel=0.01)
    assert "at 25,000 target tokens/s of the base row" in "\n".join(lines)


def test_flops_are_six_for_a_parameter_and_a_token():
    basis = dry_run.basis(PAPER, tflops=40)
    assert basis.seconds * 65.11e6 * 2.5e9 == pytest.approx(6 * 65.11e6 * 2.5e9 / 40e12)
    assert "at --tflops=40 sustained" in basis.words


def test_finished_runs_say_how_fast_this_machine_is(tmp_path):
    for seed, seconds in enumerate([50.0, 60.0, 900.0]):
        fakes.write_record(
            tmp_path, table3.TABLE, CONFIG, "base", seed,
            perplexity=2.0, bleu=50.0, seconds={"train": seconds, "score": 1.0},
        )  # fmt: skip
    basis = dry_run.basis(CONFIG, workdir=tmp_path)
    tokens = 300 * CONFIG.data.target_tokens_per_batch
    assert basis.seconds == pytest.approx(60.0 / tokens / 1_250_000)
    assert basis.words.startswith(
        f"as long as the 3 finished runs below {tmp_path} took, on a test, "
    )


def test_without_a_basis_there_are_no_hours_but_a_word_how_to_get_them(tmp_path):
    rows = table3.TABLE.rows(CONFIG).select("base")
    assert dry_run.basis(CONFIG, workdir=tmp_path) is None
    text = dry_run.text(table3.TABLE, rows, CONFIG)
    assert "hours" not in text.splitlines()[2]
    assert "Hours: give --tokens_per_second=N" in text


@pytest.mark.parametrize("config", [CONFIG, PAPER])
def test_the_whole_table_is_readable_in_120_columns(config, monkeypatch):
    monkeypatch.setattr(dry_run, "num_params", lambda config: 218_300_000)  # to count takes long
    basis = dry_run.basis(config, tflops=40)
    text = dry_run.text(table3.TABLE, table3.TABLE.rows(config), config, 3, basis)
    assert max(map(len, text.splitlines())) <= 120
    assert sum(line.startswith(("A.", "B.", "C.", "D.", "E.")) for line in text.splitlines()) > 9


def test_the_tokens_of_a_classifier_are_said_to_be_more_than_it_predicts():
    more = "with data.task='classification' far fewer are predicted."
    table = ablation.Table("one", "One", lambda base: [ablation.Row("base", {})])
    for config, is_said in ((classifier.get_config(), True), (CONFIG, False)):
        text = dry_run.text(table, table.rows(config), config)
        assert (more in text.replace("\n", " ")) is is_said
        assert max(map(len, text.splitlines())) <= 120


def test_a_basis_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="two answers to one question"):
        dry_run.basis(CONFIG, tflops=1.0, tokens_per_second=2.0)
    with pytest.raises(ValueError, match="with data.task='classification' most of a batch are"):
        dry_run.basis(classifier.get_config(), tokens_per_second=2.0)
    with pytest.raises(ValueError, match="--tflops=nan; it must be positive and finite"):
        dry_run.basis(CONFIG, tflops=math.nan)
    with pytest.raises(ValueError, match="--tflops=-3; it must be positive"):
        dry_run.basis(CONFIG, tflops=-3.0)
    with pytest.raises(ValueError, match="seeds=0"):
        dry_run.text(table3.TABLE, table3.TABLE.rows(CONFIG), CONFIG, 0)
