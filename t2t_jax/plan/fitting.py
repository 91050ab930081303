"""Makes a training step fit: microbatches first, then rematerialised layers."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

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
    def advice(self) -> str:
        """What the user can do about it; empty if it fits."""
        if self.facts.fits:
            return ""
        chip, has = self.program.topology.chip.name, _gib(self.limit_bytes)
        if (state_bytes := self.facts.state_bytes) >= self.limit_bytes:
            return (
                f"does not fit: parameters and optimizer alone take {_gib(state_bytes)}, a {chip} "
                f"has {has}; cut them over chips with --config.devices.fsdp=N, or --layouts=auto"
            )
        return (
            f"does not fit: {_gib(self.facts.peak_bytes)} of {has} on a {chip} with "
            f"{self.microbatches} microbatches and layers computed again; lower data.max_length, "
            "set training.loss_chunk_tokens, or cut the model with --config.devices.fsdp=N"
        )


def fitted(program: Program, facts_of: Callable[[Program], Facts]) -> Fitted:
    """`program` with as few microbatches as fit; rematerialises layers only if none fit otherwise.

    `facts_of` says whether a program fits.
    """
    tried = Fitted(program, facts_of(program))
    while not tried.facts.fits and (more := _next(tried)) is not None:
        tried = Fitted(more, facts_of(more))
    return tried


def _next(tried: Fitted) -> Program | None:
    facts, program = tried.facts, tried.program
    most = -(-program.shape.rows // num_parts(program.sections))  # a chip's row is not split
    if facts.state_bytes >= tried.limit_bytes:
        return None  # the state does not depend on the batch
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
