"""The tables of RESULTS.md are those of the reports that are kept."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
Row = dict[str, str]  # column -> cell
# How RESULTS.md heads a column -> how a report does.
_TUNED = re.compile(r"(.*), tuned")
_PERCENT = re.compile(r"(.*), %")
_CELL = re.compile(r"([-+]?[\d.]+)(?: ± ([\d.]+))?( [*†])?")


def _tables(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Each table of a document, with the text before it."""
    before: list[str] = []
    table: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            header, _, *rows = (
                [cell.strip() for cell in each.strip("|").split("|")] for each in table
            )
            yield "\n".join(before), [dict(zip(header, row, strict=True)) for row in rows]
            table = []
        before.append(line)


def _as_in_a_report(column: str) -> str:
    return _PERCENT.sub(r"\1 (%)", _TUNED.sub(r"tuned \1", column))


def _says_the_same(cell: str, kept: str) -> bool:
    """Whether a cell is the kept one, which may have more digits."""
    ours, theirs = _CELL.fullmatch(cell), _CELL.fullmatch(kept)
    if not ours or not theirs:
        return cell == kept
    *numbers, mark = zip(ours.groups(), theirs.groups(), strict=True)
    return mark[0] == mark[1] and all(
        a == b or (a is not None and b is not None and _is_rounded(a, b)) for a, b in numbers
    )


def _is_rounded(number: str, kept: str) -> bool:
    """Whether it is the kept one with fewer digits, which has been rounded before."""
    digits, of_kept = (len(each.partition(".")[2]) for each in (number, kept))
    difference = abs(float(number) - float(kept))
    return digits < of_kept and difference <= 0.501 * (10.0**-digits + 10.0**-of_kept)


def _told() -> Iterator:
    for before, rows in _tables(REPOSITORY / "docs" / "RESULTS.md"):
        name = re.findall(r"experiments/results/(\w+)", before)[-1]
        yield pytest.param(name, rows, id=f"{name}, {', '.join(rows[0])}")


@pytest.mark.parametrize(("name", "rows"), [*_told()])
def test_every_cell_that_a_kept_report_has_is_as_there(name, rows):
    report = REPOSITORY / "experiments" / "results" / name / "report.md"
    kept = {row["row"]: row for row in next(_tables(report))[1]}
    columns = {name: _as_in_a_report(name) for name in list(rows[0])[1:]}
    columns = {ours: theirs for ours, theirs in columns.items() if theirs in kept["base"]}
    assert len(columns) >= 3
    found = []
    for row in rows:
        told, *_ = row.values()
        begins = re.split("[ ,;]", told)[0]
        found += [
            other
            for other in ([begins] if begins in kept else kept)
            if all(_says_the_same(row[a], kept[other][b]) for a, b in columns.items())
        ][:1] or [f"none is as {told}"]
    assert set(found) <= set(kept)
    assert set(kept) - set(found) <= {"base"}  # which a table of differences leaves out


@pytest.mark.parametrize(
    ("cell", "kept", "is_same"),
    [
        ("1.24", "1.242", True),
        ("0.00", "+0.002", True),
        ("1.25", "1.242", False),
        ("+0.010 *", "+0.010 *", True),
        ("+0.010", "+0.010 *", False),
        ("93.9 ± 0.7", "93.9 ± 0.7", True),
        ("93.9 ± 0.7", "93.9 ± 0.8", False),
        ("93.9 ± 0.7", "93.9", False),
        ("", "", True),
        ("", "0.0", False),
        ("robust", "appears", False),
    ],
)
def test_a_cell_may_have_fewer_digits_and_nothing_else(cell, kept, is_same):
    assert _says_the_same(cell, kept) == is_same
