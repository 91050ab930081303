"""Every config is complete, locked, commented and allowed."""

import re
from pathlib import Path

import pytest

from configs import base, big, classifier, language_model, masked_language_model, multi30k, tiny
from experiments.tables.ablation import check_config, flat

# Of another config with changes; the comments are there.
CHANGED = [big, classifier, language_model, masked_language_model]
MODULES = [base, multi30k, tiny, *CHANGED]
by_name = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


@by_name
def test_a_config_is_locked_and_has_every_key(module):
    config = module.get_config()
    assert config.is_locked
    assert flat(config).keys() == flat(base.get_config()).keys()
    types = {key: type(value) for key, value in flat(config).items()}
    assert types == {key: type(value) for key, value in flat(base.get_config()).items()}


@by_name
def test_every_section_allows_the_configs_values(module):
    config = module.get_config()
    if config.data.source == "text":
        config.data.directory = "."
    check_config(config, module.__name__)


@by_name
def test_every_key_has_a_comment_and_the_header_a_command(module):
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert "--config=configs/" in module.__doc__
    assert "Measured figures: see README" in module.__doc__
    if module in CHANGED:
        return
    assignments = re.findall(
        r"^    [a-z]+\.([a-z_0-9]+) = (?!.*ConfigDict).*$", source, re.MULTILINE
    )
    assert sorted(assignments) == sorted(key.split(".")[-1] for key in flat(module.get_config()))
    uncommented = re.findall(r"^    [a-z]+\.\w+ = (?!.*ConfigDict)[^#]*?$", source, re.MULTILINE)
    assert uncommented == []


@by_name
def test_two_calls_give_two_configs(module):
    first = module.get_config()
    first.seed = 99
    assert module.get_config().seed == 0


def test_base_is_the_papers_recipe():
    config = base.get_config()
    assert (config.data.vocabulary_size, config.model.vocabulary_rows) == (37_000, 40_960)
    assert config.data.source_tokens_per_batch == config.data.target_tokens_per_batch == 25_000
    training, decoding = config.training, config.decoding
    assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup_steps) == ("paper", 4000)
    assert (decoding.beam_size, decoding.length_penalty) == (4, 0.6)
    assert (decoding.max_extra_tokens, decoding.average_checkpoints) == (50, 1)
    assert config.model.attention_dropout_rate == config.model.feed_forward_dropout_rate == 0.0


def test_multi30k_is_the_published_tiny_transformer():
    config = multi30k.get_config()
    model = config.model
    assert (model.num_encoder_layers, model.num_decoder_layers) == (4, 4)
    assert (model.d_model, model.d_ff, model.num_heads, model.dropout_rate) == (128, 256, 4, 0.3)
    assert (config.data.train, config.data.dev, config.data.test) == ("train", "val", "test2016")
    assert (config.training.peak_learning_rate, config.training.warmup_steps) == (0.005, 2000)
    assert (config.decoding.beam_size, config.decoding.average_checkpoints) == (5, 10)


@by_name
def test_as_many_checkpoints_are_kept_as_are_averaged(module):
    config = module.get_config()
    assert config.training.keep_checkpoints >= config.decoding.average_checkpoints
    assert config.model.vocabulary_rows >= config.data.vocabulary_size
