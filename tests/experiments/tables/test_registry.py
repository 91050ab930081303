"""Every table there is: found, and its rows built at every size."""

from pathlib import Path

import pytest

from configs import base, big, multi30k, tiny
from experiments.tables import registry
from experiments.tables.ablation import check_config, num_params
from experiments.tables.registry import TABLES, find_table

CONFIGS = {module.__name__: module for module in (base, big, multi30k, tiny)}


def test_a_file_with_a_table_is_a_table_of_its_name():
    files = {path.stem for path in Path(registry.__file__).parent.glob("*.py")}
    others = {"__init__", "ablation", "equal_parameters", "paper_base", "registry"}
    assert TABLES.keys() == files - others
    assert all(table.name == name for name, table in TABLES.items())


def test_an_unknown_table_is_an_error_with_all_names():
    with pytest.raises(ValueError, match="table4.*quickstart, recurrent, table2, table3"):
        find_table("table4")


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_row_of_every_table_builds_at_every_config(table, config):
    settings = CONFIGS[config].get_config()
    if settings.data.source == "text":
        settings.data.directory = "."
    rows = table.rows(settings).rows
    names = [row.name for row in rows]
    assert names[0] == "base" and len(set(names)) == len(names)
    assert len(names) > 1 or config != "configs.base"  # a small base may have room for no other
    for row in rows:
        check_config(row.config(settings), row.name)
        assert "/" not in row.name and not row.name.startswith(".")  # it names a directory


# The rows of the others are built in tests of their own.
@pytest.mark.parametrize("name", ["table2", "table3", "positions", "heads", "quickstart"])
@pytest.mark.parametrize("config", [multi30k, tiny], ids=lambda module: module.__name__)
def test_every_row_of_a_small_base_has_a_model(name, config):
    settings = config.get_config()
    for row in TABLES[name].rows(settings).rows:
        assert num_params(row.config(settings)) > 100_000
