"""Makes a training step fit: microbatches first, then rematerialised layers."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.plan.facts import Facts, Program, num_parts

_GIB = 2**30


class Fitted(NamedTuple):
    """The first program that fits, or the last one that did not."""

    program: Program
    facts: Facts

    @property
    def microbatches(self) -> int:
        return max(self.program.sections.training.microbatches, 1)

    @property
    def rematerialise(self) -> bool:
        return self.program.sections.model.rematerialise

    @property
    def limit_bytes(self) -> int:
        """Memory of a chip, according to the compiler if it said so."""
        return self.facts.limit_bytes or self.program.topology.chip.memory

    @property
    def is_hopeless(self) -> bool:
        """Whether the state alone, whatever the batch, is too large."""
        return self.facts.state_bytes >= self.limit_bytes

    @property
    def advice(self) -> str:
        """What the user can do about it; empty if it fits."""
        if self.facts.fits:
            return ""
        chip, has = self.program.topology.chip.name, _gib(self.limit_bytes)
        chips, devices = self.program.topology.num_chips, self.program.sections.devices
        more = "cut the model over the chips with devices.fsdp=N"
        if devices.fsdp * devices.tensor == chips:
            more = "rent more chips, and cut the model over them with devices.fsdp=N"
        if self.is_hopeless:
            return (
                f"does not fit: parameters and optimizer alone take "
                f"{_gib(self.facts.state_bytes)}, a {chip} has {has}; {more}"
            )
        return (
            f"does not fit: {_gib(self.facts.peak_bytes)} of {has} on a {chip} with "
            f"{self.microbatches} microbatches and layers computed again, "
            f"{_gib(self.facts.state_bytes)} of them parameters and optimizer; {more}, lower "
            "data.max_length, or set training.loss_chunk_tokens"
        )


def fitted(program: Program, facts_of: Callable[[Program], Facts]) -> Fitted:
    """`program` with as few microbatches as fit; rematerialises layers only if none fit otherwise.

    `facts_of` says whether a program fits.
    """
    tried = Fitted(program, facts_of(program))
    while not tried.facts.fits and (more := _next(tried)) is not None:
        tried = Fitted(more, facts_of(more))
    return tried


def all_fitted(
    program: Program, shapes: Sequence[BatchShape], facts_of: Callable[[Program], Facts]
) -> dict[BatchShape, Fitted]:
    """The programs of all shapes, in as few microbatches as fit for each of them.

    If a shape does not fit, only this one.
    """
    while True:
        found: dict[BatchShape, Fitted] = {}
        for shape in shapes:
            tried = found[shape] = fitted(program._replace(shape=shape), facts_of)
            if not tried.facts.fits:
                return {shape: tried}
            if tried.program.sections != program.sections:
                program = tried.program
                break
        if len(found) == len(shapes) and all(
            each.program.sections == program.sections for each in found.values()
        ):
            return found


def _next(tried: Fitted) -> Program | None:
    facts, program = tried.facts, tried.program
    most = -(-program.shape.rows // num_parts(program.sections))  # a chip's row is not split
    if tried.is_hopeless:
        return None
    if tried.microbatches < most:
        # By as much as the activations must shrink, if the compiler gave their size.
        room = tried.limit_bytes - facts.state_bytes
        shrink = (facts.peak_bytes - facts.state_bytes) / room
        microbatches = 2 * tried.microbatches
        while microbatches < tried.microbatches * shrink and microbatches < most:
            microbatches *= 2
        return _with(program, microbatches=min(microbatches, most))
    if not tried.rematerialise:
        return _with(program, rematerialise=True)
    return None


def _with(
    program: Program, *, microbatches: int | None = None, rematerialise: bool | None = None
) -> Program:
    sections = program.sections
    if microbatches is not None:
        training = dataclasses.replace(sections.training, microbatches=microbatches)
        sections = sections._replace(training=training)
    if rematerialise is not None:
        model = dataclasses.replace(sections.model, rematerialise=rematerialise)
        sections = sections._replace(model=model)
    return program._replace(sections=sections)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.2f} GiB"
