"""What a sweep would take on hardware that is not here: a line per row, totals per slice.

Rows of the same shape share one program, compiled once.
"""

from collections.abc import Sequence
from typing import Any

from experiments.sweep.time_left import makespan
from experiments.tables.ablation import AnyConfig, Table
from t2t_jax.plan import hardware, report
from t2t_jax.plan.plan import Plan, plan, price_of
from t2t_jax.plan.prices import Prices
from t2t_jax.plan.roofline import Range
from t2t_jax.plan.tools import tools
from t2t_jax.runs.sections import read_sections


def text(table: Table, base: AnyConfig, num_seeds: int, values: Any, log=lambda line: None) -> str:
    """The plan of a table on each of the topologies of `values.plan`.

    `values` are the flags of the command.

    Raises:
      ValueError: unknown hardware, or as in `t2t_jax.plan.plan.plan`.
    """
    if num_seeds < 1:
        raise ValueError(f"seeds={num_seeds}; at least 1 is needed")
    settings, prices, words = tools(values, log)
    rows = table.rows(base).select(values.rows).rows
    blocks = [table.title]
    for rented in hardware.topologies(values.plan):
        own = rented.one_chip if values.one_row_per_chip else rented
        plans = [(row.name, plan(read_sections(row.config(base)), own, settings)) for row in rows]
        total = total_text(rented, [each for _, each in plans], num_seeds, prices)
        blocks.append(f"{report.table(plans, prices)}\n{total}")
    blocks.append("\n".join([*words(), prices.words]))
    return "\n\n".join(blocks)


def total_text(
    rented: hardware.Topology, plans: Sequence[Plan], num_seeds: int, prices: Prices
) -> str:
    """All runs of all rows that fit, on one slice rented until the last run ends.

    They start in the order of a sweep, seeds outermost; seeds after the first compile nothing.
    """
    fitting = [each for each in plans if each.fits]
    if not fitting:
        return f"on {rented.name} no row fits"
    at_once = rented.num_chips // fitting[0].topology.num_chips
    first = [each.hours for each in fitting]
    later = [each.hours_after_compiling for each in fitting]
    runs = [*first, *later * (num_seeds - 1)]
    hours = Range(*(makespan([], ends, at_once) for ends in zip(*runs, strict=True)))
    chip_hours = hours.times(rented.num_chips)
    dollars = price_of(chip_hours.middle, prices.of(rented.chip.name))
    count = len(fitting) * num_seeds
    what = f"{count} run{'' if count == 1 else 's'}, {at_once} at a time"
    left_out = len(plans) - len(fitting)
    return (
        f"{rented.name}: {what}: {report.range_text(hours)} hours, "
        f"{report.range_text(chip_hours)} chip-hours, {report.dollars_text(dollars.on_demand)} on "
        f"demand, {report.dollars_text(dollars.spot)} spot"
        + (f"; without {left_out} that do not fit" if left_out else "")
    )
