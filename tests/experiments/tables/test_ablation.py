"""Rows, their configs, and the error for a mistyped one."""

import pytest

from configs import base, tiny
from experiments.tables.ablation import (
    LeftOut,
    Row,
    Table,
    as_dict,
    changes_text,
    check_config,
    check_row,
    flat,
)
from experiments.tables.registry import TABLES, find_table

CONFIG = tiny.get_config()


def test_a_row_changes_what_it_names_and_nothing_else():
    changed = Row("row", {"model.num_heads": 2, "training.steps": 7}).config(CONFIG)
    assert flat(changed) == flat(CONFIG) | {"model.num_heads": 2, "training.steps": 7}
    assert changed.is_locked
    assert CONFIG.training.steps != 7


def test_a_misspelt_key_is_named_with_its_row_and_the_nearest_key():
    with pytest.raises(KeyError, match=r"row A\.h=2 changes model\.nheads.*model\.num_heads"):
        Row("A.h=2", {"model.nheads": 2}).config(CONFIG)


@pytest.mark.parametrize("value", ["8", 8.0, True, None])
def test_a_wrong_type_is_named_with_its_row_and_key(value):
    with pytest.raises(TypeError, match=r"row A sets model\.num_heads=.*\(int\)"):
        Row("A", {"model.num_heads": value}).config(CONFIG)


def test_an_int_for_a_float_becomes_a_float():
    rate = Row("D", {"model.dropout_rate": 0}).config(CONFIG).model.dropout_rate
    assert rate == 0.0 and isinstance(rate, float)


def _table(*entries: Row | LeftOut) -> Table:
    return Table("t", "T", lambda base: entries)


def test_a_row_that_repeats_another_is_left_out_and_says_which():
    steps = CONFIG.training.steps
    rows = _table(
        Row("base", {}),
        Row("same", {"training.steps": steps}),
        Row("other", {"training.steps": 5}),
        Row("again", {"training.steps": 5}),
        LeftOut("odd", "no room"),
    ).rows(CONFIG)
    assert [row.name for row in rows.rows] == ["base", "other"]
    assert dict(rows.left_out).keys() == {"same", "again", "odd"}
    assert "same as base" in dict(rows.left_out)["same"]
    assert "same as other" in dict(rows.left_out)["again"]


def test_two_rows_of_one_name_are_refused():
    rows = [Row("a", {"model.d_ff": 64}), Row("a", {"model.d_ff": 128})]
    with pytest.raises(ValueError, match="table t has two rows that are called a"):
        Table("t", "", lambda base: rows).rows(tiny.get_config())


def test_a_table_without_a_base_is_refused():
    said = "table t has no row that is called base: all others are compared with it"
    with pytest.raises(ValueError, match=said):
        _table(Row("a", {"model.d_ff": 64})).rows(CONFIG)
    with pytest.raises(ValueError, match="no row that is called base: too few steps"):
        _table(LeftOut("base", "too few steps"), Row("a", {"model.d_ff": 64})).rows(CONFIG)


def test_patterns_choose_rows_in_the_tables_order():
    names = ["base", "A.h=1", "A.h=16", "B.d_k=16", "E.learned"]
    rows = _table(*(Row(name, {"seed": 100 + i}) for i, name in enumerate(names))).rows(CONFIG)
    assert [row.name for row in rows.select("E.*,A.*").rows] == ["A.h=1", "A.h=16", "E.learned"]
    assert [row.name for row in rows.select("base").rows] == ["base"]
    assert [row.name for row in rows.select("*").rows] == names


def test_a_pattern_without_a_match_is_an_error_with_all_names():
    rows = _table(Row("base", {}), LeftOut("A.h=1.5", "not whole")).rows(CONFIG)
    with pytest.raises(ValueError, match=r"'X\.\*'.*base"):
        rows.select("base,X.*")
    with pytest.raises(ValueError, match=r"A\.h=1\.5 is left out.*not whole"):
        rows.select("A.*")
    with pytest.raises(ValueError, match="empty"):
        rows.select(" ,")


def test_the_papers_column_needs_the_papers_base():
    table = Table("t", "T", lambda base: [], {"model.d_model": 512, "model.num_heads": 8})
    assert table.has_paper_base(base.get_config())
    assert not table.has_paper_base(CONFIG)
    assert not Table("t", "T", lambda base: []).has_paper_base(base.get_config())


def test_a_config_becomes_plain_dicts():
    values = as_dict(CONFIG)
    assert values == CONFIG.to_dict()
    assert type(values["model"]) is dict
    assert flat(CONFIG)["model.d_k"] == values["model"]["d_k"]


def test_changes_read_without_section_names():
    assert changes_text({"model.d_k": 16, "training.steps": 3}) == "d_k=16 steps=3"


def test_a_value_no_section_allows_is_refused_with_its_row():
    config = Row("odd", {"model.d_model": 0}).config(CONFIG)
    with pytest.raises(ValueError, match=r"row odd: .*d_model=0"):
        check_config(config, "row odd")


def test_a_row_that_changes_what_nothing_reads_is_refused_in_words():
    row = Row("buckets", {"model.relative_buckets": 8})
    with pytest.raises(ValueError, match="row buckets: model.relative_buckets has no effect where"):
        check_row(row, tiny.get_config())
    check_row(Row("buckets", {**row.changes, "model.positions": "relative"}), tiny.get_config())


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("config", [tiny, base])
def test_all_that_the_rows_of_our_tables_change_is_read(table, config):
    for row in find_table(table).rows(config.get_config()).rows:
        check_row(row, config.get_config())
