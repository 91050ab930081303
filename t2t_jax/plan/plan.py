"""One run on one topology: does it fit, how long does it take, what does it cost."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.model.families import make_model, num_parameters
from t2t_jax.plan import workload as workloads
from t2t_jax.plan.facts import Facts, Keeper, Program, num_parts, shared
from t2t_jax.plan.fitting import Fitted, all_fitted
from t2t_jax.plan.hardware import Topology
from t2t_jax.plan.prices import Price, Prices
from t2t_jax.plan.roofline import Range, Work, estimated_bytes, peak, seconds, sent_bytes
from t2t_jax.plan.workload import Workload
from t2t_jax.runs.sections import Sections
from t2t_jax.training.operations import Operations, step_operations
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import make_train_state

# Seconds to compile a program on an accelerator's host; here it takes minutes.
_COMPILING = Range(20.0, 60.0)
# Programs besides those of the batch shapes: the first state, and searches of a few lengths.
_OTHER_PROGRAMS = 6


class Plan(NamedTuple):
    """The plan of one run; bytes are for one chip, `hours` for all its chips together."""

    topology: Topology
    layout: str  # data x fsdp x tensor
    fits: bool
    advice: str
    microbatches: int
    rematerialise: bool
    memory: dict[str, int]  # the parts of a chip's memory use
    limit_bytes: int
    operations: float  # of a step on all chips, exact, padding included
    step_seconds: Range
    step_parts: dict[str, float]  # seconds at the published peaks: products, memory, links
    hours: Range
    hours_parts: dict[str, Range]  # training, compiling, scoring
    num_params: int
    notes: tuple[str, ...]

    @property
    def hours_after_compiling(self) -> Range:
        """Hours of a run that finds its programs compiled."""
        return self.hours_parts["training"].plus(self.hours_parts["scoring"])

    @property
    def chip_hours(self) -> Range:
        return self.hours.times(self.topology.num_chips)

    @property
    def peak_bytes(self) -> int:
        return sum(self.memory.values())

    def dollars(self, prices: Prices) -> Price:
        """At the middle of the range; NaN if it does not fit."""
        return price_of(self.chip_hours.middle, prices.of(self.topology.chip.name))


class Settings(NamedTuple):
    """How a plan is made."""

    facts_of: Keeper
    all_programs: bool = True  # False: compile only the step of the largest batches
    factors: Mapping[str, float] = {}  # chip's name -> seen / predicted seconds of a step


def price_of(chip_hours: float, price: Price) -> Price:
    """Dollars for so many chip-hours."""
    return Price(*(None if dollars is None else dollars * chip_hours for dollars in price))


def plan(sections: Sections, topology: Topology, settings: Settings) -> Plan:
    """The plan of a config's run on a topology.

    Raises:
      ValueError: the chips cannot be divided in this way, the corpus is damaged or does not fit a
        batch, or the compiler is needed and not installed.
    """
    sections = shared(sections, topology)
    if not topology.chip.is_tpu:
        return _of_roofline_alone(sections, topology, settings)
    work = workloads.workload(sections)
    shapes = {work.largest(sections.model): None}
    if settings.all_programs:
        shapes[work.commonest] = None
    program = Program(sections, topology, next(iter(shapes)), work.is_packed)
    steps = all_fitted(program, list(shapes), settings.facts_of)
    largest = max(steps.values(), key=lambda each: each.facts.peak_bytes)
    if not largest.facts.fits:
        return _misfit(sections, topology, largest)
    search = _search(sections, topology, settings) if settings.all_programs else None
    facts = {shape: each.facts for shape, each in steps.items()}
    return _of_facts(sections, topology, work, largest, facts, search, settings)


def _search(sections: Sections, topology: Topology, settings: Settings) -> Facts | None:
    sources = workloads.widest_decode(sections)
    if sources is None:
        return None
    shape = BatchShape(*sources, 0)
    return settings.facts_of(Program(sections, topology, shape, is_search=True))


def _of_facts(
    sections: Sections,
    topology: Topology,
    work: Workload,
    largest: Fitted,
    steps: dict[BatchShape, Facts],
    search: Facts | None,
    settings: Settings,
) -> Plan:
    operations = step_operations(sections.model)
    chips = topology.num_chips
    microbatches = largest.microbatches
    multiple = num_parts(sections) * microbatches
    rate = peak(topology.chip, sections.model.dtype, sections.devices.matmul_precision)

    def work_of(shape: BatchShape) -> Work:
        shape = _padded(shape, multiple)
        like = min(steps, key=lambda each: abs(sum(each[1:]) - sum(shape[1:])))
        facts = steps[like]
        like = _padded(like, multiple)
        scale = _cells(shape) / _cells(like)
        # A loop over microbatches counts once; the rest is the optimizer, whatever the batch.
        beside = min(2 * facts.state_bytes + facts.param_bytes, facts.accessed_bytes)
        of_loop = scale * (facts.accessed_bytes - beside) * microbatches
        # It grows with the tokens except for attention, which is larger in long sentences.
        beyond = _estimate(sections, shape) - scale * _estimate(sections, like)
        again = 4 / 3 if largest.rematerialise else 1  # a third of the operations are forward
        # Tensor parallelism communicates within the loop; gradients, summed after it, are then
        # counted too often.
        times = microbatches if sections.devices.tensor > 1 else 1
        return Work(
            float(operations.of(*shape)) * again / chips,
            beside + max(of_loop + beyond / chips, of_loop / 4),
            sent_bytes(facts.moved, chips) * times,
        )

    works = [work_of(shape) for shape in work.shapes]
    mean = Work(*(_mean(values, work.shares) for values in zip(*works, strict=True)))
    step = _mean_range([seconds(each, topology, rate) for each in works], work.shares)
    notes = [work.words]
    if search is None and sections.data.task == "translation":
        notes.append("the search was not compiled")
    elif search is not None and not search.fits:
        notes.append("the widest search does not fit: lower decoding.tokens_per_batch")
    loops = {
        "model.scan_layers": sections.model.scan_layers,
        "training.loss_chunk_tokens": sections.training.loss_chunk_tokens,
        "model.family='recurrent'": sections.model.family == "recurrent",
    }
    if used := " and ".join(key for key, is_used in loops.items() if is_used):
        notes.append(f"too little time: the compiler counts the bytes of a loop once, see {used}")
    return _timed(
        sections,
        topology,
        work,
        settings,
        layout=_layout(sections),
        microbatches=microbatches,
        rematerialise=largest.rematerialise,
        memory=_memory(largest.facts),
        limit_bytes=largest.limit_bytes,
        operations=_mean_operations(operations, work, multiple),
        step=step,
        mean=mean,
        rate=rate,
        scoring=_scoring(sections, topology, work, search),
        notes=notes,
    )


def _of_roofline_alone(sections: Sections, topology: Topology, settings: Settings) -> Plan:
    """The plan for GPUs, which cannot be compiled for without one."""
    work = workloads.workload(sections)
    operations = step_operations(sections.model)
    chips, num_params = topology.num_chips, num_parameters(sections.model)
    rate = peak(topology.chip, sections.model.dtype, sections.devices.matmul_precision)
    multiple = num_parts(sections) * max(sections.training.microbatches, 1)
    shapes = [_padded(shape, multiple) for shape in work.shapes]
    works = [
        Work(
            float(operations.of(*shape)) / chips,
            estimated_bytes(sections.model, shape, num_params, chips),
            sent_bytes({"all-reduce": 4 * num_params}, chips),
        )
        for shape in shapes
    ]
    parts = sections.devices.fsdp * sections.devices.tensor
    param_bytes, state_bytes = 4 * num_params // parts, _state_bytes(sections) // parts
    # Each device gathers whole parameters, or has all their gradients at once.
    memory = {
        "parameters": param_bytes,
        "optimizer": state_bytes - param_bytes,
        "gathered or gradients": 4 * num_params // sections.devices.tensor,
    }
    if (needed := sum(memory.values())) >= topology.chip.memory:
        facts = Facts(param_bytes, state_bytes, needed, False, topology.chip.memory)
        tried = Fitted(Program(sections, topology, shapes[0]), facts)
        advice = (
            f"does not fit: {' + '.join(memory)} alone take {needed / 2**30:.2f} GiB, a "
            f"{topology.chip.name} has {topology.chip.memory / 2**30:.2f}; cut the model over "
            "more of them with devices.fsdp=N"
        )
        return _misfit(sections, topology, tried)._replace(memory=memory, advice=advice)
    return _timed(
        sections,
        topology,
        work,
        settings,
        layout=_layout(sections),
        microbatches=max(sections.training.microbatches, 1),
        rematerialise=sections.model.rematerialise,
        memory=memory,
        limit_bytes=topology.chip.memory,
        operations=_mean_operations(operations, work, multiple),
        step=_mean_range([seconds(each, topology, rate) for each in works], work.shares),
        mean=Work(*(_mean(values, work.shares) for values in zip(*works, strict=True))),
        rate=rate,
        scoring=Range(0.0, 0.0),
        notes=[work.words, "roofline alone: nothing was compiled, activations are not counted"],
    )


def _timed(
    sections: Sections,
    topology: Topology,
    work: Workload,
    settings: Settings,
    *,
    step: Range,
    mean: Work,
    rate: float,
    scoring: Range,
    notes: Sequence[str],
    **others: Any,
) -> Plan:
    if (factor := settings.factors.get(topology.chip.name)) is not None:
        step = Range(*[step.middle * factor] * 2)
    elif settings.factors:
        notes = [*notes, f"not calibrated: the run was not on a {topology.chip.name}"]
    if sections.model.dtype == "float32":
        notes = [*notes, "model.dtype='float32': bfloat16 takes a fraction of that"]
    # For training, and at most as many for the perplexity of dev, which is never packed.
    of_dev = sections.data.num_buckets if work.is_packed else work.num_shapes
    programs = work.num_shapes + of_dev + _OTHER_PROGRAMS
    parts = {
        "training": step.times(sections.training.steps / 3600),
        "compiling": _COMPILING.times(programs / 3600),
        "scoring": scoring.times(1 / 3600),
    }
    hours = Range(0.0, 0.0)
    for part in parts.values():
        hours = hours.plus(part)
    return Plan(
        topology,
        fits=True,
        advice="",
        step_seconds=step,
        step_parts={
            "products": mean.operations / rate,
            "memory": mean.accessed_bytes / topology.chip.bandwidth,
            "links": mean.sent_bytes / topology.link_bandwidth,
        },
        hours=hours,
        hours_parts=parts,
        num_params=num_parameters(sections.model),
        notes=tuple(notes),
        **others,
    )


def _misfit(sections: Sections, topology: Topology, tried: Fitted) -> Plan:
    nothing = Range(math.nan, math.nan)
    return Plan(
        topology,
        layout=_layout(sections),
        fits=False,
        advice=tried.advice,
        microbatches=tried.microbatches,
        rematerialise=tried.rematerialise,
        memory=_memory(tried.facts),
        limit_bytes=tried.limit_bytes,
        operations=math.nan,
        step_seconds=nothing,
        step_parts={},
        hours=nothing,
        hours_parts={},
        num_params=num_parameters(sections.model),
        notes=(),
    )


def _memory(facts: Facts) -> dict[str, int]:
    """The parts of a chip's memory use."""
    return {
        "parameters": facts.param_bytes,
        "optimizer": facts.state_bytes - facts.param_bytes,
        "activations": max(facts.peak_bytes - facts.state_bytes, 0),
    }


def _scoring(sections: Sections, topology: Topology, work: Workload, search: Facts | None) -> Range:
    """Seconds of the searches: each step moves at most what the program moves once."""
    sources = workloads.widest_decode(sections)
    if sources is None or search is None or not search.fits:
        return Range(0.0, 0.0)
    rows, length = sources
    batches = -(-work.num_scored // rows)
    most = sections.decoding.max_tokens or length + sections.decoding.max_extra_tokens
    step = Work(search.operations, search.accessed_bytes, 0.0)
    rate = topology.chip.operations
    return seconds(step, topology, rate).times(batches * most)


def _state_bytes(sections: Sections) -> int:
    """Bytes of the parameters and the optimizer's state, all together."""
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    state = jax.eval_shape(lambda: make_train_state(model, optimizer, 0))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def _mean_operations(operations: Operations, work: Workload, multiple: int) -> float:
    of_shapes = [float(operations.of(*_padded(shape, multiple))) for shape in work.shapes]
    return _mean(of_shapes, work.shares)


def _estimate(sections: Sections, shape: BatchShape) -> float:
    return estimated_bytes(sections.model, shape, 0, 1)


def _layout(sections: Sections) -> str:
    devices = sections.devices
    return f"{devices.data} x {devices.fsdp} x {devices.tensor}"


def _padded(shape: BatchShape, multiple: int) -> BatchShape:
    return shape._replace(rows=-(-shape.rows // multiple) * multiple)


def _cells(shape: BatchShape) -> int:
    return shape.rows * (shape.source_length + shape.target_length)


def _mean(values: Sequence[float], shares: Sequence[float]) -> float:
    return sum(value * share for value, share in zip(values, shares, strict=True))


def _mean_range(ranges: Sequence[Range], shares: Sequence[float]) -> Range:
    return Range(*(_mean(ends, shares) for ends in zip(*ranges, strict=True)))


def with_layout(sections: Sections, **layout: int) -> Sections:
    """The config with other `devices`."""
    return sections._replace(devices=dataclasses.replace(sections.devices, **layout))
