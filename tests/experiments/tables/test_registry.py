"""Every table is found, and its rows are built at every size."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from configs import base, big, multi30k, tiny
from experiments import tables
from experiments.tables import registry
from experiments.tables.ablation import check_config, num_params
from experiments.tables.registry import TABLES, find_table

CONFIGS = {module.__name__: module for module in (base, big, multi30k, tiny)}


def test_rows_are_made_without_heavy_libraries():
    """A status asks for them every two seconds, and a sweep before its runs take the devices."""
    code = (
        "import sys; from configs import tiny; from experiments.tables.registry import TABLES; "
        "base = tiny.get_config(); assert all(t.rows(base).rows for t in TABLES.values()); "
        "assert 'jax' not in sys.modules and 'flax' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


def test_a_file_with_a_table_is_a_table_of_its_name():
    files = Path(registry.__file__).parent.glob("*.py")
    assert TABLES.keys() == {path.stem for path in files if "\nTABLE = " in path.read_text()}
    assert all(table.name == name for name, table in TABLES.items())


def test_an_unknown_table_is_an_error_with_all_names():
    with pytest.raises(ValueError, match="table4.*quickstart.*, recurrent.*, table2.*, table3"):
        find_table("table4")


_MINE = """
from experiments.tables.ablation import Row, Table
TABLE = Table("mine", "Mine", lambda base: [Row("base", {})])
"""
# Text of the file, and what is said of it.
_BROKEN = {
    "def f(:": "{} cannot be read: SyntaxError: invalid syntax (mine.py, line 1)",
    "x = 1\nx.y": "{} cannot be read: AttributeError: 'int' object has no attribute 'y', line 2",
    "import absent": "{} cannot be read: ModuleNotFoundError: No module named 'absent', line 1",
    "TABLE = []": "the TABLE of {} must be a Table",
    _MINE.replace('"mine"', '"yours"'): (
        "the table of {} is called 'yours': it must have the name of its file, 'mine'"
    ),
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Makes a table file of somebody's own of a text."""

    def write(text):
        (tmp_path / "mine.py").write_text(text)
        monkeypatch.setattr(tables, "__path__", [*tables.__path__, str(tmp_path)])
        found = registry.read_tables()
        monkeypatch.setattr(registry, "TABLES", found.tables)
        monkeypatch.setattr(registry, "BROKEN", found.broken)
        return found

    yield write
    sys.modules.pop("experiments.tables.mine", None)


def test_a_table_of_ones_own_is_found(mine):
    assert mine(_MINE).tables.keys() == TABLES.keys() | {"mine"}
    assert registry.BROKEN == {} and find_table("mine").title == "Mine"


@pytest.mark.parametrize(("text", "sentence"), _BROKEN.items())
def test_a_broken_table_is_told_to_who_asks_for_it_and_stops_no_other(text, sentence, mine):
    sentence = re.escape(sentence.format("experiments/tables/mine.py"))
    assert mine(text).tables.keys() == TABLES.keys()
    assert find_table("table3").name == "table3"
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        find_table("mine")
    with pytest.raises(ValueError, match=f"{', '.join(sorted(TABLES))}; {sentence}$"):
        find_table("table4")


def test_rows_that_cannot_be_made_are_told_with_their_line(mine):
    mine(_MINE.replace("lambda base: [", "lambda base: {}[\n    base.model.positions] or ["))
    with pytest.raises(ValueError, match="^table mine: KeyError: 'sinusoidal', line [34]$"):
        find_table("mine").rows(CONFIGS["configs.tiny"].get_config())


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


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("config", [multi30k, tiny], ids=lambda module: module.__name__)
def test_every_row_of_a_small_base_has_a_model(name, config):
    settings = config.get_config()
    for row in TABLES[name].rows(settings).rows:
        assert num_params(row.config(settings)) > 100_000
