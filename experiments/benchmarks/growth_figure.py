"""Draws how cost grows, from the records: growth.png and growth.svg beside them.

    python -m experiments.benchmarks.growth_figure
    python -m experiments.benchmarks.growth_figure --records=runs/benchmarks

One log-log panel per axis. Each cost is divided by that of the first point, to compare slopes. Each
point is its newest record on the machine of the last record.
"""

import functools
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import app, flags

from experiments.benchmarks.growth import AXES, PART
from experiments.benchmarks.growth_lines import Line, lines_of
from experiments.benchmarks.measured import RECORDS
from experiments.benchmarks.records import Record, read_records
from t2t_jax.cli.command import parse_flags
from t2t_jax.json_files import write_bytes

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from matplotlib.figure import Figure

_PANEL_INCHES = 3.0
_IN_PROPORTION = "in proportion"


def read_lines(records: Sequence[Record]) -> tuple[list[Line], str]:
    """The lines of the machine of the last record with any, and a description of that machine.

    Raises:
      ValueError: no record has any.
    """
    records = [record for record in records if any(one.part == PART for one in record.results)]
    if not records:
        raise ValueError(
            f"no record says how cost grows: python -m experiments.benchmarks --parts={PART}"
        )
    machine = _hardware(records[-1])
    of_machine = [record for record in records if _hardware(record) == machine]
    commits = dict.fromkeys(record.short_commit for record in of_machine)
    lines = lines_of(one for record in of_machine for one in record.results)
    return lines, f"{machine}; commit {', '.join(commits)}"


def draw(lines: Sequence[Line], where: str) -> "Figure":
    """The panels below one another, each with the slopes of its lines in its legend."""
    from experiments.report.figures import style

    panels = {name: [line for line in lines if line.axis == name] for name in AXES}
    panels = {name: of_axis for name, of_axis in panels.items() if of_axis}
    legends = [
        style.legend_inches([_IN_PROPORTION, *(line.words for line in each)], None)
        for each in panels.values()
    ]
    with style.fonts():
        figure, axes = style.stacked([_PANEL_INCHES + legend for legend in legends])
        for (name, of_axis), [axis] in zip(panels.items(), axes, strict=True):
            is_first = name == next(iter(panels))
            style.title(axis, f"Cost against {name}", f"on {where}" if is_first else "")
            axis.set_xlabel(AXES[name].name)
            _draw(of_axis, axis)
    return figure


def _draw(lines: Sequence[Line], axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    from experiments.report.figures import style

    values = sorted({value for line in lines for value in line.values})
    highest = 2.0
    for index, line in enumerate(lines):
        ratios = [cost / line.costs[0] for cost in line.costs]
        highest = max(highest, *ratios)
        axis.plot(line.values, ratios, label=line.words, **style.line_style(line.what, index))
    if len(values) > 1:
        ends = [values[0], values[-1]]
        ratios = [1, ends[1] / ends[0]]
        look = {"color": style.GREY, "linestyle": ":", "linewidth": 1, "zorder": 1}
        axis.plot(ends, ratios, label=_IN_PROPORTION, **look)
        highest = max(highest, ratios[1])
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(0.6, 1.5 * highest)
    axis.set_xlim(values[0] / 1.3, values[-1] * 1.3)
    axis.set_xticks(values, [f"{value:,}" for value in values])
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 60 else (1,), numticks=20))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.minorticks_off()
    axis.set_ylabel("times the first")
    style.tidy(axis)
    style.legend_below(axis, None)


def write(figure: "Figure", directory: Path) -> list[Path]:
    """Writes growth.png and growth.svg there; returns the files written."""
    from experiments.report.figures import style

    paths = []
    for kind in ("png", "svg"):
        metadata = {"Date": None} if kind == "svg" else None
        stream = io.BytesIO()
        with style.fonts():
            figure.savefig(stream, format=kind, dpi=160, metadata=metadata)
        paths.append(directory / f"{PART}.{kind}")
        write_bytes(paths[-1], stream.getvalue())
    return paths


def _hardware(record: Record) -> str:
    others = [record.machine[name] for name in ("gpus", "JAX_PLATFORMS") if name in record.machine]
    return ", ".join(["{cpu}, {cores} cores, {memory_gib} GiB".format(**record.machine), *others])


def main(_: list[str]) -> None:
    """Draws."""
    directory = Path(flags.FLAGS.records)
    try:
        lines, where = read_lines(read_records(directory))
    except ValueError as error:
        sys.exit(f"growth_figure: {error}")
    for path in write(draw(lines, where), directory):
        print(f"written: {path}")


if __name__ == "__main__":
    flags.DEFINE_string("records", str(RECORDS), "directory of the records and the figure")
    app.run(main, flags_parser=functools.partial(parse_flags, "growth_figure"))
