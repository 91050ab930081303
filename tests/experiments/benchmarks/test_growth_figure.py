"""Slopes of known costs, their figure and table."""

import re

import pytest

from experiments.benchmarks import growth_figure
from experiments.benchmarks.growth import AXES, POINTS
from experiments.benchmarks.growth_lines import growth_table, lines_of
from experiments.benchmarks.measured import document
from experiments.benchmarks.records import Record
from experiments.benchmarks.results import Measured, table

_MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gib": 24, "python": "3.11.7"}
_EMPTY = "<!-- made by `python -m experiments.benchmarks.measured` -->\n<!-- end -->\n"


def cost(point, what="step", unit="ms", value=1.0):
    return Measured(what, unit, [value]).result("growth", point, "make")


def record(month, results, **machine):
    return Record(f"2026-0{month}-03T00:00:00Z", f"{month}" * 8, _MACHINE | machine, results)


def many():
    """All points: a step as 3 x^1.5, memory that stays the same, and for sentences others."""
    found = []
    for point in POINTS:
        axis, _, value = point.partition("=")
        grows = 3 * (int(value) / AXES[axis].values[0]) ** 1.5
        of = ("whole command", "s") if axis == "sentences" else ("step", "ms")
        found += [cost(point, *of, grows), cost(point, "rate", "tokens/s", 7.0)]
        found += [cost(point, "peak memory", "MiB", 300.0)]
    return found


def test_a_slope_is_the_power_with_which_a_cost_grows():
    values = {64: 10.0, 128: 20.0, 256: 80.0}  # to the power of 1, then of 2
    line, memory = lines_of(
        [
            *(cost(f"length={value}", value=values[value]) for value in (256, 64, 128)),
            *(cost(f"length={value}", "peak memory", "MiB", 300.0) for value in values),
            cost("length=64", "rate", "tokens/s"),
            cost("length=64")._replace(part="step"),
        ]
    )
    assert (line.values, line.costs) == ([64, 128, 256], [10.0, 20.0, 80.0])
    assert line.slope == pytest.approx(1.5) and line.last_slope == pytest.approx(2.0)
    assert line.words == "step, 10 to 80 ms: ~ length^1.50, last two ^2.00"
    assert memory.slope == memory.last_slope == pytest.approx(0)
    assert growth_table([line, memory]).splitlines()[2:] == [
        "| length, 64 to 256 | step | 10 ms | 80 ms | 1.50 | 2.00 |",
        "| length, 64 to 256 | peak memory | 300 MiB | 300 MiB | 0.00 | 0.00 |",
    ]


def test_one_point_has_no_slope():
    [line] = lines_of([cost("depth=6", value=4.0)])
    assert line.slope is line.last_slope is None and line.words == "step: 4 ms"
    assert growth_table([line]).endswith("| depth, 6 to 6 | step | 4 ms | 4 ms |  |  |")
    assert growth_table([]) == ""


@pytest.mark.parametrize("results", [[cost("depth=6")], many()], ids=["one", "many"])
def test_the_figure_says_the_slopes(tmp_path, results):
    record(1, results).write(tmp_path)
    records = growth_figure.read_records(tmp_path)
    lines, where = growth_figure.read_lines(records)
    assert where == "Some CPU, 2 cores, 24 GiB; commit 1111111"
    figure = growth_figure.draw(lines, where)
    png, svg = growth_figure.write(figure, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG") and svg.read_text().startswith("<?xml")
    axes = {line.axis for line in lines}
    assert len(figure.axes) == len(axes) == (1 if len(results) == 1 else len(AXES))
    said = " ".join(re.findall(r"<!-- (.*?) -->", svg.read_text()))
    assert all(line.words in said for line in lines)
    if len(results) > 1:
        assert "step, 3 to 543 ms: ~ length^1.50, last two ^1.50" in said


def test_of_a_point_the_newest_on_the_last_machine_is_drawn():
    old = record(1, [cost("depth=6", value=1.0), cost("depth=12", value=5.0)])
    other = record(2, [cost("depth=24", value=9.0)], cores=64)
    new = record(3, [cost("depth=6", value=2.0)])
    lines, where = growth_figure.read_lines([old, other, new, record(4, [])])
    assert [(line.values, line.costs) for line in lines] == [([6, 12], [2.0, 5.0])]
    assert where.endswith("commit 1111111, 3333333")
    with pytest.raises(ValueError, match="no record says how cost grows: python -m experiments"):
        growth_figure.read_lines([record(4, [])])


def test_the_document_has_slopes_in_the_place_of_points():
    others = [cost("tiny")._replace(part="step")]
    found = document(_EMPTY, [record(1, many() + others)])
    assert growth_table(lines_of(many())) in found and table(others) in found
    assert "length=64" not in found
    only = document(_EMPTY, [record(1, many())])
    assert growth_table(lines_of(many())) in only and only.count("|--|--|--|--|--|--|\n") == 1
