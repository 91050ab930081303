"""What the report says was done, in every human-readable format."""

import json

import pytest

from configs import multi30k, tiny
from experiments.report import report
from experiments.report.summary import summaries
from experiments.tables import positions
from tests.experiments import fakes
from tests.experiments.sweeps import CONFIG, TABLE

EXAMPLES = {"train": 19_993, "dev": 1_000, "test": 998}


def _method(workdir):
    [table] = summaries(workdir)
    return table.method


def test_the_corpus_its_size_the_model_the_training_and_the_search_are_told(tmp_path):
    facts = {"examples": EXAMPLES, "hardware": "8 x an accelerator"}
    fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=50.0, **facts)
    assert _method(tmp_path) == [
        "Corpus: sentences of the embedded grammar, pairs: 19,993 to train, 1,000 to validate, "
        "998 to test, a bpe vocabulary of 2,000 pieces.",
        "Model of the base row: 2 layers of encoder and 2 of decoder, d_model 128, d_ff 256, "
        "4 heads with d_k 32 and d_v 32, sinusoidal positions, post-norm, dropout 0.0.",
        "Training: 1,100 steps, batches of at most 1,024 source and 1,024 target tokens with "
        "padding, adam, rate up to 0.003 by schedule linear, 100 steps of warm-up, label "
        "smoothing 0.1, float32.",
        "Search: beam of 4, length penalty 0.6 (gnmt), the last checkpoint.",
        "Hardware: 8 x an accelerator.",
    ]


def test_one_of_a_thing_is_no_plural(tmp_path):
    config = CONFIG.copy_and_resolve_references()
    config.model.update(num_encoder_layers=1, num_decoder_layers=1, num_heads=1)
    config.training.update(warmup_steps=1, patience=1)
    fakes.write_record(tmp_path, TABLE, config, "base", 0, perplexity=2.0, bleu=50.0)
    told = " ".join(_method(tmp_path))
    assert "1 layer of encoder and 1 of decoder" in told and ", 1 head with d_k 32" in told
    assert "fewer after 1 evaluation without" in told and ", 1 step of warm-up" in told
    assert "1,100 steps" in told


def test_products_that_are_rounded_are_told(tmp_path):
    config = CONFIG.copy_and_resolve_references()
    config.devices.matmul_precision = "default"
    config.decoding.weights_dtype = "bfloat16"
    fakes.write_record(tmp_path, TABLE, config, "base", 0, perplexity=2.0, bleu=50.0)
    told = " ".join(_method(tmp_path))
    assert "float32, products at default precision." in told
    assert "length penalty 0.6 (gnmt), weights in bfloat16, the last checkpoint." in told


def test_files_patience_the_papers_rate_and_averaging_are_told(tmp_path):
    config = multi30k.get_config()
    config.data.directory = "somewhere"
    config.data.mixture = "A=3,B=1"
    config.training.update(schedule="paper", learning_rate_scale=2.0, patience=5)
    config.decoding.average_checkpoints = 4
    fakes.write_record(tmp_path, TABLE, config, "base", 0, perplexity=2.0, bleu=50.0)
    text = " ".join(_method(tmp_path))
    for words in (
        "text files train, val, test2016; a mixture of A=3,B=1, a bpe",
        "fewer after 5 evaluations without a better dev perplexity",
        "the paper's rate times 2.0",
        "the mean of the last 4 checkpoints",
    ):
        assert words in text
    assert "somewhere" not in text


@pytest.mark.parametrize("format_name", ["markdown", "latex", "html"])
def test_every_format_says_it_with_the_note_of_each_row(tmp_path, format_name):
    for row in ("base", "rotary"):
        fakes.write_record(
            tmp_path, positions.TABLE, tiny.get_config(), row, 0, perplexity=2.0, bleu=50.0
        )
    text = report.text(tmp_path, format_name)
    for words in ("Training: 1,100 steps", "Search: beam of 4", "Row rotary: Su et al. 2021."):
        assert words in text
    assert "Row alibi" not in text


def test_what_a_config_of_another_version_lacks_is_not_told(tmp_path):
    run = fakes.write_record(tmp_path, TABLE, CONFIG, "base", 0, perplexity=2.0, bleu=50.0)
    for name in ("run.json", "record.json"):
        values = json.loads((run / name).read_text())
        strange = {"data": {"task": "translation", "source": "a stranger's"}, "seed": 0}
        values["base"] = values["config"] = strange
        (run / name).write_text(json.dumps(values))
    text = report.text(tmp_path, "markdown")
    assert "- Corpus: a stranger's.\n" in text and "None" not in text
    assert "Training: adam.\n" in text
