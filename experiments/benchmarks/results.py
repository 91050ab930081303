"""Measured values, from rounds in which the compared programs take turns, and their table."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")


class Result(NamedTuple):
    """A median and the range over rounds, with the command that measures it alone."""

    part: str
    size: str
    what: str
    value: float
    unit: str
    lowest: float
    highest: float
    rounds: int
    command: str


class Measured(NamedTuple):
    """A value per round."""

    what: str
    unit: str
    values: Sequence[float]

    def result(self, part: str, size: str, command: str) -> Result:
        """The median, as a result of this part."""
        values = self.values
        spread = min(values), max(values), len(values)
        return Result(part, size, self.what, statistics.median(values), self.unit, *spread, command)


def over(what: str, ours: Sequence[float], theirs: Sequence[float]) -> Measured:
    """The ratio, round by round."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Measured(what, "ratio", ratios)


def in_turns(run: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """The values of each, from rounds in which they take turns; the first round compiles."""
    found = [{name: each() for name, each in run.items()} for _ in range(rounds)]
    return {name: [values[name] for values in found] for name in run}


_HEAD = ("part", "size", "what", "median", "lowest to highest", "made alone by")


def table(results: Iterable[Result]) -> str:
    """The results as aligned Markdown; a command is shown only in the first of its rows."""
    rows: list[Sequence[str]] = [_HEAD]
    told = None
    for one in results:
        median = number_text(one.value) + ("" if one.unit == "ratio" else f" {one.unit}")
        spread = (
            f"{number_text(one.lowest)} to {number_text(one.highest)}" if one.rounds > 1 else ""
        )
        command = "" if one.command == told else f"`{one.command}`"
        rows.append((one.part, one.size, one.what, median, spread, command))
        told = one.command
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [_line(row, widths) for row in rows]
    return "\n".join([lines[0], "|" + "--|" * len(_HEAD), *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return f"| {' | '.join([*padded, row[-1]])} |"


def number_text(value: float) -> str:
    """The number with three digits, or with all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
