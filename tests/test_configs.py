"""Every config is complete, locked, commented and allowed, and is what configs.tsv says.

python -m tests.test_configs writes configs.tsv: every key of every config, a line each
"""

import re
from importlib import import_module
from pathlib import Path

import pytest

import configs
from configs import base, multi30k
from experiments.tables.ablation import check_config, flat

ALL_VALUES = Path(__file__).with_name("configs.tsv")
OTHERS = sorted({file.stem for file in Path(configs.__file__).parent.glob("[!_]*.py")} - {"base"})
MODULES = [import_module(f"configs.{name}") for name in ("base", *OTHERS)]
by_name = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


def all_values() -> str:
    """Every key of every config, a line each, a column for each config."""
    columns = [flat(module.get_config()) for module in MODULES]
    rows = [["key", "base", *OTHERS]]
    rows += [[key, *(repr(column[key]) for column in columns)] for key in columns[0]]
    return "".join("\t".join(row) + "\n" for row in rows)


def test_the_configs_are_what_the_table_of_all_values_says():
    kept = ALL_VALUES.read_text(encoding="utf-8")
    assert all_values() == kept, "python -m tests.test_configs writes it anew: look at its diff"


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
def test_the_header_has_a_command(module):
    assert "--config=configs/" in module.__doc__
    assert "Measured figures: see README" in module.__doc__


def test_every_key_of_base_has_a_comment():
    source = Path(base.__file__).read_text(encoding="utf-8")
    keys = re.findall(r"^    [a-z]+\.(\w+) = (?!ConfigDict).*  # \S", source, re.MULTILINE)
    assert sorted(keys) == sorted(key.split(".")[-1] for key in flat(base.get_config()))


@pytest.mark.parametrize("module", MODULES[1:], ids=OTHERS)
def test_a_config_states_what_differs_and_nothing_else(module):
    before, after = (flat(each.get_config()) for each in (_made_from(module), module))
    source = Path(module.__file__).read_text(encoding="utf-8")
    stated = re.findall(r"^    config\.([a-z_.0-9]+) = ", source, re.MULTILINE)
    assert sorted(stated) == sorted(key for key in after if after[key] != before[key])


def _made_from(module):
    [before] = (other for other in MODULES if getattr(module, other.__name__[8:], None) is other)
    return before


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


if __name__ == "__main__":
    ALL_VALUES.write_text(all_values(), encoding="utf-8")
