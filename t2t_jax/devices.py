"""Which devices there are, what lies on them, and how a step is compiled for them.

Knows no model: it takes pure functions and trees of arrays. A batch is cut over the devices
along its first axis; everything else lies on each of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

DATA = "data"  # the mesh axis over which a batch is cut


class Devices(NamedTuple):
    """The devices of one run, as a mesh."""

    mesh: Mesh

    @property
    def num_data(self) -> int:
        """How many parts a batch is cut into; its rows must be a multiple."""
        return self.mesh.shape[DATA]

    def put_batch(self, batch: PyTree[np.ndarray]) -> PyTree[jax.Array]:
        """Cuts a batch over the devices."""
        return jax.device_put(batch, NamedSharding(self.mesh, PartitionSpec(DATA)))

    def put_replicated(self, tree: PyTree) -> PyTree[jax.Array]:
        """Lays a copy on every device."""
        return jax.device_put(tree, self._replicated)

    def replicated_shapes(self, tree: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of `tree`, as they are once they lie on every device."""
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._replicated),
            tree,
        )

    def compile_train_step(self, train_step: Callable) -> Callable:
        """`(state, batch) -> (state, metrics)`, the old state's memory given to the new one."""
        return jax.jit(train_step, donate_argnums=0, out_shardings=self._replicated)

    def compile(self, function: Callable) -> Callable:
        """Any other function; what it gives lies on every device."""
        return jax.jit(function, out_shardings=self._replicated)

    def compile_by_row(self, function: Callable) -> Callable:
        """`(tree, batch) -> batch` where no row needs another: each device does its own rows."""
        rows = PartitionSpec(DATA)
        by_device = jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(PartitionSpec(), rows),
            out_specs=rows,
            check_vma=False,
        )
        return jax.jit(by_device)

    def describe(self) -> str:
        """The hardware in words, for logs and records."""
        device = self.mesh.devices.flat[0]
        return f"{self.num_data} x {device.device_kind}"

    @property
    def _replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())


def make_devices(data: int = -1) -> Devices:
    """The first `data` local devices, or all of them for -1.

    Raises:
      ValueError: fewer devices are there than asked for.
    """
    devices = jax.local_devices()
    if data == -1:
        data = len(devices)
    if not 1 <= data <= len(devices):
        raise ValueError(
            f"devices.data={data}: {len(devices)} are here; allowed are -1 (all) and 1 to "
            f"{len(devices)}"
        )
    return Devices(Mesh(np.array(devices[:data]), (DATA,)))
