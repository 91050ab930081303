"""Compares plans: layouts on one topology, topologies for one run."""

from collections.abc import Sequence
from typing import NamedTuple

from t2t_jax.model.fused_attention import asks_for_a_kernel
from t2t_jax.plan.hardware import Topology
from t2t_jax.plan.plan import Plan, Settings, plan, with_layout
from t2t_jax.runs.sections import Sections

_TENSOR = 2
_FEW = 4  # chips that fsdp shards over, besides all of them
_LEAST_EFFICIENCY = 0.5


class Growth(NamedTuple):
    """The plan for one of several topologies."""

    plan: Plan
    efficiency: float  # chip-seconds of a step at the smallest of this kind of chip / here


def layouts(topology: Topology) -> list[dict[str, int]]:
    """Ways to divide a run over the chips: data parallelism alone comes first."""
    chips = topology.num_chips
    found = [{"data": chips, "fsdp": 1, "tensor": 1}]
    if chips > 1:
        found.append({"data": 1, "fsdp": chips, "tensor": 1})
        found.append({"data": chips // _TENSOR, "fsdp": 1, "tensor": _TENSOR})
    if chips > _FEW:
        found.append({"data": chips // _FEW, "fsdp": _FEW, "tensor": 1})
    return found


def best_layout(sections: Sections, topology: Topology, settings: Settings) -> list[Plan]:
    """The plans of all layouts, the fastest first; those that do not fit come last."""
    ways, note = layouts(topology), []
    if asks_for_a_kernel(sections.model) and len(ways) > 1:
        ways = [layout for layout in ways if layout["tensor"] == 1]
        note = ["devices.tensor=2 was not tried: model.attention_kernel='fused' refuses it"]
    plans = [plan(with_layout(sections, **layout), topology, settings) for layout in ways]
    plans = [each._replace(notes=(*each.notes, *note)) for each in plans]
    return sorted(plans, key=lambda each: each.step_seconds.middle if each.fits else float("inf"))


def growth(plans: Sequence[Plan]) -> list[list[Growth]]:
    """The plans of one run that fit, for each kind of chip by their number, with efficiency."""
    by_kind: dict[str, list[Plan]] = {}
    for each in plans:
        if each.fits:
            by_kind.setdefault(each.topology.chip.name, []).append(each)
    return [_growth(of_kind) for of_kind in by_kind.values()]


def _growth(plans: Sequence[Plan]) -> list[Growth]:
    few_first = sorted(plans, key=lambda each: each.topology.num_chips)
    first = _chip_seconds(few_first[0])
    return [Growth(each, first / _chip_seconds(each)) for each in few_first]


def growth_text(grown: Sequence[Growth], tokens: tuple[int, int]) -> str:
    """Up to how many chips of one kind a run scales, in a sentence."""
    words = f"{tokens[0]:,} + {tokens[1]:,} tokens a step"
    few = [each for each in grown if each.efficiency < _LEAST_EFFICIENCY]
    if not few:
        last = grown[-1]
        return (
            f"{words} scale up to {last.plan.topology.name}, the largest here: "
            f"{last.efficiency:.0%} of the efficiency of {grown[0].plan.topology.name}"
        )
    return (
        f"{words} stop scaling at {few[0].plan.topology.name}: more than half of its chip-hours "
        f"are lost against {grown[0].plan.topology.name} ({few[0].efficiency:.0%} are left)"
    )


def _chip_seconds(each: Plan) -> float:
    return each.topology.num_chips * each.step_seconds.middle
