"""A sweep in advance: runs, parameters, tokens and hours of every row.

The hours are for training alone, and proportional to tokens times parameters, at the speed of
finished runs or one that the user gives. Nothing is assumed about any hardware.
"""

import contextlib
import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.run.outcomes import read_outcomes, records_of
from experiments.run.plain_text import counted
from experiments.tables.ablation import (
    AnyConfig,
    Row,
    Rows,
    Table,
    as_dict,
    changes_text,
    check_row,
    num_params,
)
from experiments.tables.tuning import Space, check, runs_of_a_row

WIDTH = 120
# Forward and backward, a multiplication and an addition each: the usual estimate. In an
# encoder-decoder, each side's parameters see that side's tokens, equally many on both.
_OPERATIONS = 6

_PREDICT_FEW = ("classification", "masked_language_modelling")

_IN_PROPORTION = "; in proportion to tokens and parameters"
_NO_BASIS = (
    "Hours: give --tokens_per_second=N (target tokens, of the base row) or --tflops=N (sustained), "
    "or a --workdir in which runs are finished."
)


class Basis(NamedTuple):
    """What an estimate of hours is based on."""

    seconds: float  # of training, per target token and parameter
    words: str


class _Line(NamedTuple):
    row: Row
    params: int
    target_tokens: int  # padding included, of all runs
    hours: float | None


def basis(
    base: ConfigDict,
    *,
    tokens_per_second: float | None = None,
    tflops: float | None = None,
    workdir: Path | None = None,
) -> Basis | None:
    """The basis of the hours: what the user gives, else the finished runs below `workdir`.

    Args:
      tokens_per_second: target tokens, padding included, of the base row.
      tflops: 10^12 operations a second, sustained.

    Raises:
      ValueError: both are given, or one is not positive, or tokens/s are no measure of the task.
    """
    if tokens_per_second is not None and tflops is not None:
        raise ValueError("--tokens_per_second and --tflops are two answers to one question")
    task = as_dict(base)["data"]["task"]
    if tokens_per_second is not None and task in _PREDICT_FEW:
        raise ValueError(
            f"--tokens_per_second counts predicted tokens; with data.task={task!r} most "
            "of a batch are not: give --tflops, or a --workdir in which runs are finished"
        )
    for name, value in (("tokens_per_second", tokens_per_second), ("tflops", tflops)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"--{name}={value:g}; it must be positive and finite")
    if tokens_per_second is not None:
        seconds = 1 / tokens_per_second / num_params(base)
        return Basis(
            seconds, f"at {tokens_per_second:,.0f} target tokens/s of the base row{_IN_PROPORTION}"
        )
    if tflops is not None:
        words = f"at --tflops={tflops:g} sustained, 6 operations per parameter and target token"
        return Basis(_OPERATIONS / (tflops * 1e12), words)
    return _measured(workdir) if workdir is not None and workdir.is_dir() else None


def text(
    table: Table,
    rows: Rows,
    base: ConfigDict,
    num_seeds: int = 1,
    basis: Basis | None = None,
    space: Space | None = None,
) -> str:
    """The rows, what each changes and costs, and the rows left out, with reasons.

    Raises:
      ValueError: a row has an invalid value, or there are no seeds.
    """
    if num_seeds < 1:
        raise ValueError(f"seeds={num_seeds}; at least 1 is needed")
    for row in rows.rows:
        check_row(row, _with_some_directory(base))
    if space is not None:
        check(space, rows.rows, _with_some_directory(base))
    num_runs = runs_of_a_row(num_seeds, space)
    lines = [_line(row, base, num_runs, basis) for row in rows.rows]
    has_paper_base = table.has_paper_base(base)
    blocks = [
        table.title,
        "\n".join(_table(lines, num_runs, has_paper_base)),
        "\n".join([*_notes(lines, basis, base), *_of_tuning(space, num_seeds)]),
    ]
    if rows.left_out:
        left_out = (f"  {name}: {reason}" for name, reason in rows.left_out)
        blocks.append("\n".join(["Left out at this base:", *left_out]))
    return "\n\n".join(blocks)


def _of_tuning(space: Space | None, num_seeds: int) -> list[str]:
    if space is None:
        return []
    own = counted(num_seeds, "run")
    points = "; ".join(changes_text(point) for point in space.points)
    words = (
        f"Runs of a row: {own} at its own values, {len(space.points)} trials of one seed, at "
        f"{points}, and {own} at the best of these, unless that is what it has."
    )
    return textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False)


def _line(row: Row, base: ConfigDict, num_runs: int, basis: Basis | None) -> _Line:
    config = row.config(base)
    params = num_params(config)
    tokens = num_runs * _target_tokens(as_dict(config))
    hours = None if basis is None else basis.seconds * params * tokens / 3600
    return _Line(row, params, tokens, hours)


def _target_tokens(config: dict[str, Any], steps: int | None = None) -> int:
    steps = config["training"]["steps"] if steps is None else steps
    return steps * config["data"]["target_tokens_per_batch"]


def _measured(workdir: Path) -> Basis | None:
    """The median over the finished runs below `workdir`."""
    rates = []
    hardware = set()
    found = read_outcomes(workdir)
    for values in records_of(found.runs):
        with contextlib.suppress(KeyError, TypeError, ZeroDivisionError):  # it lacks a fact
            tokens = _target_tokens(values["config"], values["steps"])
            rates.append(values["seconds"]["train"] / tokens / values["params"])
            hardware.add(values["hardware"])
    if not rates:
        return None
    where = " and ".join(sorted(hardware))
    took = f"as long as the {counted(len(rates), 'finished run')} below {workdir} took"
    words = f"{took}, on {where}, compilation included{_IN_PROPORTION}"
    words += "".join(f"; left out: {sentence}" for sentence in found.refused)
    return Basis(statistics.median(rates), words)


def _table(lines: Sequence[_Line], num_runs: int, has_paper_base: bool) -> Iterable[str]:
    has_hours = lines[0].hours is not None
    paper = [_paper_params(line.row) for line in lines] + [""]
    hours = [_hours_text(line.hours) for line in lines]
    all_hours = _hours_text(sum(line.hours or 0.0 for line in lines))
    columns = [
        ["row", *(line.row.name for line in lines), "all"],
        ["runs", *[str(num_runs)] * len(lines), str(num_runs * len(lines))],
        ["params 10^6", *(f"{line.params / 1e6:,.2f}" for line in lines), ""],
        *([["paper", *paper]] if has_paper_base else []),
        [
            "tokens 10^6",
            *(_millions(line.target_tokens) for line in lines),
            _millions(sum(line.target_tokens for line in lines)),
        ],
        *([["hours", *hours, all_hours]] if has_hours else []),
    ]
    changes = ["changes", *(_changes(line.row) for line in lines), ""]
    widths = [max(map(len, column)) for column in columns]
    indent = sum(widths) + 2 * len(widths)
    for number, change in enumerate(changes):
        cells = [
            column[number].rjust(width) if place else column[number].ljust(width)
            for place, (column, width) in enumerate(zip(columns, widths, strict=True))
        ]
        # Names and numbers are never cut, even if they leave no room for the changes.
        room = max(30, WIDTH - indent)
        first, *others = textwrap.wrap(change, room, break_long_words=False) or [""]
        yield "  ".join([*cells, first]).rstrip()
        yield from (" " * indent + other for other in others)


def _notes(lines: Sequence[_Line], basis: Basis | None, base: ConfigDict) -> list[str]:
    task = as_dict(base)["data"]["task"]
    fewer = f"; with data.task={task!r} far fewer are predicted" if task in _PREDICT_FEW else ""
    tokens = f"Tokens: of the target side, steps x tokens per batch, padding included{fewer}."
    notes = textwrap.wrap(tokens, WIDTH)
    if basis is None:
        return [*notes, *textwrap.wrap(_NO_BASIS, WIDTH)]
    hours = f"Hours: {basis.words}; training alone, one run after the other."
    return [*notes, *textwrap.wrap(hours, WIDTH)]


def _changes(row: Row) -> str:
    note = f"  ({row.note})" if row.note else ""
    return changes_text(row.changes) + note


def _paper_params(row: Row) -> str:
    stated = row.paper and row.paper.params
    return f"{stated}" if stated else ""


def _millions(number: int) -> str:
    millions = number / 1e6
    return f"{millions:,.0f}" if millions >= 100 else f"{millions:.2f}"


def _hours_text(hours: float | None) -> str:
    if hours is None:
        return ""
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}" if hours >= 0.01 else "<0.01"


def _with_some_directory(base: ConfigDict) -> ConfigDict:
    """The base with a placeholder data directory: a dry run needs no data."""
    filled: AnyConfig = base.copy_and_resolve_references()
    filled.data.directory = filled.data.directory or "."
    return filled
