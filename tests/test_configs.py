"""Every config is complete, locked, commented and allowed, and is what configs.tsv says.

python -m tests.test_configs writes configs.tsv: every key of every config, a line each
"""

import dataclasses
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import configs
from configs import base
from experiments.tables.ablation import check_config, flat
from t2t_jax.runs.sections import read_sections
from tests.model.test_every_key import READ_WITH

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
def test_every_section_allows_the_configs_values(module):
    config = module.get_config()
    if config.data.source == "text":
        config.data.directory = "."
    check_config(config, module.__name__)
    assert config.model.vocabulary_rows >= config.data.vocabulary_size


@by_name
def test_the_header_has_a_command(module):
    assert "--config=configs/" in module.__doc__
    assert "Measured figures: docs/MEASURED.md" in module.__doc__


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
def test_two_calls_give_two_configs_that_are_locked(module):
    first = module.get_config()
    assert first.is_locked
    first.seed = 99
    assert module.get_config().seed == 0


@pytest.mark.parametrize("name", ["data", "model", "training", "decoding", "evaluation", "devices"])
def test_every_number_has_bounds(name):
    section = getattr(read_sections(base.get_config()), name)
    read_with = READ_WITH if name == "model" else {}
    for field in dataclasses.fields(section):
        if field.type in (int, float):
            changes = {field.name: field.type(-1e9)} | read_with.get(field.name, {})
            with pytest.raises(ValueError, match=rf"{name}\.{field.name}="):
                dataclasses.replace(section, **changes)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"test_configs: it takes no arguments; without any it writes {ALL_VALUES}")
    ALL_VALUES.write_text(all_values(), encoding="utf-8")
