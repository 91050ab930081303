"""Plans as text and as JSON, and their scaling as a figure."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_jax.json_files import finite, write_json
from t2t_jax.plan.choices import Growth
from t2t_jax.plan.plan import Plan
from t2t_jax.plan.prices import Price, Prices
from t2t_jax.plan.roofline import Range

_GIB = 2**30
_HEAD = (
    *("on", "data x fsdp x tensor", "micro", "GiB a chip", "step, ms", "hours", "chip-hours"),
    *("on demand", "spot"),
)


def table(named: Sequence[tuple[str, Plan]], prices: Prices) -> str:
    """A line for each plan, after its name, and below them advice and notes."""
    has_names = any(name for name, _ in named)
    lines = [["run", *_HEAD] if has_names else list(_HEAD)]
    below: dict[str, None] = {}
    for name, each in named:
        lines.append(([name] if has_names else []) + cells(each, prices))
        if not each.fits:
            below[f"{name + ' on ' if name else ''}{each.topology.name}: {each.advice}"] = None
        below |= dict.fromkeys(each.notes)
    return "\n".join([*aligned(lines), *(f"  {line}" for line in below)])


def cells(each: Plan, prices: Prices) -> list[str]:
    """The cells of one line."""
    remat = " + again" if each.rematerialise else ""
    dollars = each.dollars(prices)
    return [
        each.topology.name,
        each.layout,
        f"{each.microbatches}{remat}",
        memory_text(each),
        range_text(each.step_seconds.times(1e3)),
        range_text(each.hours),
        range_text(each.chip_hours),
        dollars_text(dollars.on_demand),
        dollars_text(dollars.spot),
    ]


def memory_text(each: Plan) -> str:
    """The memory in use and that of a chip, and the parts of the former."""
    parts = " + ".join(f"{size / _GIB:.2f} {name}" for name, size in each.memory.items())
    of = f"{each.peak_bytes / _GIB:.1f} of {each.limit_bytes / _GIB:.1f}"
    return f"{of} ({parts})" if each.fits else f"{of}: does not fit"


def range_text(values: Range) -> str:
    """Both ends, or one number if they are equal."""
    if math.isnan(values.low):
        return "-"
    low, high = (f"{end:,.0f}" if end >= 1_000 else f"{end:.3g}" for end in values)
    return low if low == high else f"{low}-{high}"


def dollars_text(dollars: float | None) -> str:
    """A price, or a question mark if it is not known."""
    if dollars is None:
        return "?"
    return "-" if math.isnan(dollars) else f"${dollars:,.2f}"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells, aligned in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def growth_table(grown: Sequence[Sequence[Growth]], prices: Prices) -> str:
    """How step time, efficiency and price grow with the chips."""
    lines = [["on", "chips", "step, ms", "efficiency", "hours", "on demand", "spot"]]
    for each in itertools.chain.from_iterable(grown):
        dollars = each.plan.dollars(prices)
        lines.append(
            [
                each.plan.topology.name,
                str(each.plan.topology.num_chips),
                range_text(each.plan.step_seconds.times(1e3)),
                f"{each.efficiency:.0%}",
                range_text(each.plan.hours),
                dollars_text(dollars.on_demand),
                dollars_text(dollars.spot),
            ]
        )
    return "\n".join(aligned(lines))


def as_json(each: Plan, prices: Prices) -> dict[str, Any]:
    """A plan for JSON; NaN becomes null."""
    dollars: Price = each.dollars(prices)
    return finite(
        {
            "on": each.topology.name,
            "chips": each.topology.num_chips,
            "layout": each.layout,
            "fits": each.fits,
            "advice": each.advice,
            "microbatches": each.microbatches,
            "rematerialise": each.rematerialise,
            "memory_bytes": each.memory,
            "limit_bytes": each.limit_bytes,
            "params": each.num_params,
            "operations_of_a_step": each.operations,
            "step_seconds": list(each.step_seconds),
            "seconds_at_peak": each.step_parts,
            "hours": list(each.hours),
            "hours_of": {name: list(part) for name, part in each.hours_parts.items()},
            "chip_hours": list(each.chip_hours),
            "dollars": dollars._asdict(),
            "notes": list(each.notes),
        }
    )


def write(plans: Sequence[Plan], prices: Prices, path: Path) -> None:
    """Writes the plans as JSON."""
    write_json(path, {"prices": prices.words, "plans": [as_json(each, prices) for each in plans]})


def write_figure(grown: Sequence[Sequence[Growth]], prices: Prices, path: Path) -> None:
    """Step time and price over the number of chips, a line for each kind.

    Raises:
      ValueError: the file ending is of no format for figures.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for number, of_kind in enumerate(grown):
        name, color = of_kind[0].plan.topology.chip.name, f"C{number}"
        chips = [each.plan.topology.num_chips for each in of_kind]
        steps = [each.plan.step_seconds.times(1e3) for each in of_kind]
        middles = [step.middle for step in steps]
        left.fill_between(chips, *zip(*steps, strict=True), alpha=0.2, color=color)
        left.plot(chips, middles, marker="o", color=color, label=f"{name}, predicted")
        ideal = [middles[0] * chips[0] / more for more in chips]
        left.plot(chips, ideal, linestyle=":", color=color, label=f"{name}, nothing lost")
        for kind, label, style in (("on_demand", "on demand", "-"), ("spot", "spot", "--")):
            dollars = [getattr(each.plan.dollars(prices), kind) for each in of_kind]
            if None not in dollars:
                right.plot(
                    *(chips, dollars, style), marker="o", color=color, label=f"{name}, {label}"
                )
                right.legend()
    left.legend()
    left.set(xscale="log", xlabel="chips", ylabel="milliseconds a step", ylim=(0, None))
    right.set(xscale="log", xlabel="chips", ylabel="dollars for the run", ylim=(0, None))
    all_chips = sorted({each.plan.topology.num_chips for of_kind in grown for each in of_kind})
    for axes in (left, right):
        axes.set_xticks(all_chips, [str(number) for number in all_chips])
        axes.minorticks_off()
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise ValueError(f"--output={path}: {error}") from error
    finally:
        pyplot.close(figure)
