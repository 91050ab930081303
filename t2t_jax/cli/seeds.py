"""One run, or the runs of several seeds in one program: state, batches and step of either.

With several seeds all that the step takes and gives has a first axis of them.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from t2t_jax import hosts
from t2t_jax.cli.batches import describe_cut, largest_batch, train_batches
from t2t_jax.cli.sections import Sections
from t2t_jax.cli.steps import train_step_of
from t2t_jax.data.batches import Batch, Batches
from t2t_jax.data.feed import BatchSource
from t2t_jax.data.prepared import Prepared
from t2t_jax.devices import Devices
from t2t_jax.training.step import TrainState, TrainStep, make_train_state


class Runs:
    """What the runs of one config share, and what is made for each of their seeds."""

    def __init__(
        self,
        prepared: Prepared,
        sections: Sections,
        devices: Devices,
        model: nn.Module,
        optimizer: optax.GradientTransformation,
        seeds: Sequence[int],
    ) -> None:
        if len(seeds) > 1:
            _check_together(sections, devices)
        self._prepared = prepared
        self._sections = sections
        self._devices = devices
        self._model = model
        self._optimizer = optimizer
        self._seeds = seeds
        self.batches: Batches  # of the first seed; those of the others have the same shapes

    def first_state(self) -> TrainState:
        """Nothing learned; with several seeds on a first axis."""

        def make_state(seed):
            return make_train_state(self._model, self._optimizer, seed)

        if len(self._seeds) == 1:
            return self._devices.compile_init(make_state, self._seeds[0])
        return self._devices.compile_init(jax.vmap(make_state), jnp.asarray(self._seeds))

    def batches_and_step(
        self, state: TrainState
    ) -> tuple[BatchSource, TrainStep, Callable[[Batch], Batch]]:
        """The batches, the compiled step, and what puts a batch onto the devices.

        Raises:
          ValueError: not even microbatches of one row fit, or a sentence is too long for a batch.
        """
        microbatches, train_step = self._cut(state)
        hosts.log(describe_cut(self.batches, self._devices, microbatches))
        if len(self._seeds) == 1:
            compiled = self._devices.compile_train_step(train_step, state)
            return self.batches, compiled, self._devices.put_batch
        of_seeds = [
            train_batches(
                self._prepared, self._sections._replace(seed=seed), self._devices, microbatches
            )
            for seed in self._seeds
        ]
        compiled = self._devices.compile_train_step(jax.vmap(train_step), state)
        return _Stacked(of_seeds), compiled, partial(self._devices.put_batch, row_axis=1)

    def _cut(self, state: TrainState) -> tuple[int, TrainStep]:
        """In how many microbatches, and the step; where the config says 0 as few as fit.

        These are 1, 2, 4, ..., by the memory that a device has; it is not asked for several seeds.
        """
        sections, devices = self._sections, self._devices
        sections = sections._replace(seed=self._seeds[0])
        fixed = sections.training.microbatches
        limit = None if fixed or len(self._seeds) > 1 else devices.memory_limit()
        microbatches = fixed or 1
        while True:
            self.batches = train_batches(self._prepared, sections, devices, microbatches)
            step = train_step_of(sections, devices, self._model, self._optimizer, microbatches)
            if limit is None:
                return microbatches, step
            largest = largest_batch(self.batches)
            needed = devices.memory_needed(step, state, largest)
            if not hosts.any_of(needed > limit):
                return microbatches, step
            if len(largest.target_ids) <= microbatches * devices.num_data:
                raise ValueError(
                    f"training.microbatches=0: row by row a step still needs "
                    f"{needed / 2**30:.2f} GiB, a device has {limit / 2**30:.2f}: lower the "
                    "numbers of model, or data.max_length"
                )
            microbatches *= 2


class _Stacked:
    """Batch i of each of several seeds, on a first axis."""

    def __init__(self, of_seeds: Sequence[Batches]) -> None:
        self._of_seeds = of_seeds

    def __getitem__(self, i: int) -> Batch:
        return jax.tree.map(lambda *sides: np.stack(sides), *(each[i] for each in self._of_seeds))


def _check_together(sections: Sections, devices: Devices) -> None:
    sizes, patience = sections.devices, sections.training.patience
    if patience > 0:
        raise ValueError(f"training.patience={patience}: seeds that may stop train alone")
    if devices.compile_with == "pmap":
        raise ValueError("devices.compile='pmap' trains one seed at a time: use 'jit'")
    if sizes.fsdp * sizes.tensor > 1:
        raise ValueError(
            f"devices.fsdp={sizes.fsdp}, tensor={sizes.tensor}: a model that is cut over devices "
            "trains one seed at a time"
        )
    if devices.num_hosts > 1:
        raise ValueError("several hosts train one seed at a time: leave out --seeds_together")
