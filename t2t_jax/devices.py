"""Which devices there are, what lies on them, and how a step is compiled for them.

Knows no model: it takes pure functions and trees of arrays. The devices form a mesh of four named
axes. A batch is cut along its first axis over replica x data x fsdp. Parameters, and with them
the state of the optimizer, are cut over fsdp and tensor as `_LAYOUT` says; each replica and each
part of data holds them all.

    replica   slices of a Cloud TPU, joined by a slow network
    data      whole copies of the model
    fsdp      parts of the model that are put together again for each step
    tensor    parts of each matrix product (Shoeybi et al. 2019): heads, hidden units, vocabulary
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from t2t_jax import hosts, row_keys

_REPLICA, _DATA, _FSDP, _TENSOR = "replica", "data", "fsdp", "tensor"
_AXES = (_REPLICA, _DATA, _FSDP, _TENSOR)
_ROW_AXES = (_REPLICA, _DATA, _FSDP)
_ROWS = PartitionSpec(_ROW_AXES)  # how the first axis of a batch is cut

Compile = Literal["jit", "pmap"]

# The end of a parameter's path -> over which mesh axis each of its axes is cut; the first line
# that fits path and number of axes holds. An axis that cannot be cut evenly is left whole.
# Axes: D d_model, H heads, K d_k or d_v, F d_ff, V vocabulary.
_LAYOUT: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"(query|key|value)/kernel", (_FSDP, _TENSOR, None)),  # D H K
    (r"(query|key|value)/bias", (_TENSOR, None)),  # H K
    (r"output/kernel", (_TENSOR, None, _FSDP)),  # H K D
    (r"inner/kernel", (_FSDP, _TENSOR)),  # D F
    (r"inner/bias", (_TENSOR,)),  # F
    (r"outer/kernel", (_TENSOR, _FSDP)),  # F D
    (r"table", (_TENSOR, _FSDP)),  # V D
    (r"kernel", (_FSDP, None)),  # of recurrent cells and poolers
)


class Devices(NamedTuple):
    """The devices of one run, as a mesh."""

    mesh: Mesh
    compile_with: Compile = "jit"

    @property
    def num_data(self) -> int:
        """How many parts a batch is cut into; its rows must be a multiple."""
        return self.mesh.size // self.mesh.shape[_TENSOR]

    @property
    def part(self) -> int:
        """Which of `num_parts` equal parts of a batch's rows this host feeds."""
        return self._own_slots.start // len(self._own_slots)

    @property
    def num_parts(self) -> int:
        """Into how many parts hosts cut a batch; hosts that hold the same rows feed the same."""
        return self.num_data // len(self._own_slots)

    @property
    def _own_slots(self) -> range:
        """Of the parts that a batch is cut into, those on this host; hosts follow one another."""
        indices = NamedSharding(self.mesh, _ROWS).addressable_devices_indices_map((self.num_data,))
        slots = {index[0].start or 0 for index in indices.values() if index is not None}
        return range(min(slots), max(slots) + 1)

    def put_batch(self, batch: PyTree[np.ndarray]) -> PyTree[jax.Array]:
        """Cuts a batch over the devices; of several hosts each gives its own part of the rows."""
        if self.compile_with == "pmap":
            batch = jax.tree.map(self._by_device, batch)
        rows = NamedSharding(self.mesh, _ROWS)
        return jax.tree.map(partial(jax.make_array_from_process_local_data, rows), batch)

    def put(self, tree: PyTree) -> PyTree[jax.Array]:
        """Lays parameters or a train state, the same on every host, out over the devices."""
        return jax.tree.map(_put, tree, self._layout(tree))

    def shapes(self, tree: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of `tree`, as `put` would lay it out."""
        return _laid_out(tree, self._layout(tree))

    def replicated_shapes(self, tree: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of `tree`, as they are once they lie on every device."""
        return _laid_out(tree, jax.tree.map(lambda _: self._replicated, tree))

    def summed(self, function: Callable) -> Callable:
        """`(params, batch, key) -> (gradients, sums)` over all rows, of one over a device's own.

        Within a training step. Parameters are put together over fsdp, to be computed with; the
        gradients are cut again as the parameters are, to be updated with.
        """

        def of_own_rows(params, batch, key):
            key = row_keys.of_part(key, jax.lax.axis_index(self._row_axes))
            return jax.lax.psum(function(params, batch, key), self._row_axes)

        def of_all_rows(params, batch, key):
            whole = PartitionSpec()
            on_each = self._on_each(of_own_rows, (whole, _ROWS, whole), whole)
            grads, sums = on_each(self._constrained(params, {_TENSOR}), batch, key)
            return self._constrained(grads, {_FSDP, _TENSOR}), sums

        return of_all_rows

    def compile_init(self, make_state: Callable, seed: Any) -> PyTree[jax.Array]:
        """`make_state(seed)`, made where it is to lie."""
        layout = self._layout(jax.eval_shape(make_state, seed))
        return jax.jit(make_state, out_shardings=layout)(seed)

    def compile_train_step(self, train_step: Callable, state: PyTree) -> Callable:
        """`(state, batch) -> (state, metrics)`, the old state's memory given to the new one."""
        if self.compile_with == "pmap":
            return self._pmap(train_step, out_axes=None)
        out_shardings = (self._layout(state), self._replicated)
        return jax.jit(train_step, donate_argnums=0, out_shardings=out_shardings)

    def compile(self, function: Callable) -> Callable:
        """`(tree, batch) -> sums` over all rows, of one over a device's own; on every device."""

        def of_own_rows(tree, batch):
            return jax.lax.psum(function(tree, batch), self._row_axes)

        if self.compile_with == "pmap":
            return self._one_at_a_time(self._pmap(of_own_rows, out_axes=None))
        by_device = self._on_each(of_own_rows, (PartitionSpec(), _ROWS), PartitionSpec())
        return self._one_at_a_time(jax.jit(by_device, out_shardings=self._replicated))

    def compile_by_row(self, function: Callable) -> Callable:
        """`(tree, batch) -> batch` where no row needs another: each device does its own rows.

        Takes all rows on every host, as numpy arrays, and gives all rows to every host.
        """
        if self.compile_with == "pmap":
            by_device = self._one_at_a_time(self._pmap(function, out_axes=0))
            return lambda tree, batch: jax.tree.map(
                lambda rows: rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:]),
                by_device(tree, jax.tree.map(self._by_device, batch)),
            )
        compiled = self._one_at_a_time(self._by_row(function))
        return lambda tree, batch: compiled(tree, jax.tree.map(self._put_rows, batch))

    def memory_limit(self) -> int | None:
        """Bytes of memory that a device has; None where it does not say."""
        statistics = self.mesh.local_devices[0].memory_stats() or {}
        return statistics.get("bytes_limit")

    def lower_train_step(self, train_step: Callable, state: PyTree, batch: PyTree) -> Any:
        """The step before it is compiled, for shapes like those of `state` and a whole `batch`."""
        if self.compile_with == "pmap":
            batch = jax.tree.map(self._by_device, batch)
        rows = jax.tree.map(lambda _: NamedSharding(self.mesh, _ROWS), batch)
        compiled = self.compile_train_step(train_step, state)
        return compiled.lower(self.shapes(state), _laid_out(batch, rows))

    def lower_by_row(self, function: Callable, tree: PyTree, batch: PyTree) -> Any:
        """`compile_by_row` by jit, before it is compiled, for shapes like those given."""
        rows = jax.tree.map(lambda _: NamedSharding(self.mesh, _ROWS), batch)
        return self._by_row(function).lower(self.shapes(tree), _laid_out(batch, rows))

    def memory_needed(self, train_step: Callable, state: PyTree, batch: PyTree) -> int:
        """Bytes of a device that a step takes for a batch of this shape.

        As many as an int can be where the compiler itself refuses what does not fit.
        """
        lowered = self.lower_train_step(train_step, state, batch)
        try:
            analysis = lowered.compile().memory_analysis()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return sys.maxsize
        return (
            analysis.argument_size_in_bytes
            + analysis.output_size_in_bytes
            + analysis.temp_size_in_bytes
            - analysis.alias_size_in_bytes
        )

    def describe(self) -> str:
        """The hardware in words, for logs and records."""
        return f"{self.mesh.size} x {self.mesh.devices.flat[0].device_kind}"

    def describe_layout(self, params: PyTree, state: PyTree) -> list[str]:
        """Three lines: the mesh, how parameters are cut, how many bytes each device holds."""
        axes = ", ".join(f"{name} {self.mesh.shape[name]}" for name in _AXES)
        hosts = f" on {self.num_hosts} hosts" if self.num_hosts > 1 else ""
        layouts = jax.tree.leaves(self._layout(params))
        num_cut = sum(any(layout.spec) for layout in layouts)
        cut = "every device holds all" if num_cut == 0 else f"{num_cut} are cut over fsdp or tensor"
        return [
            f"mesh of {self.describe()}{hosts}: {axes}; compiled with {self.compile_with}",
            f"parameters: {len(layouts)} arrays, {cut}; a batch is cut in {self.num_data}",
            f"each device holds {self._num_bytes(params) / 2**20:,.1f} MiB of parameters, "
            f"{self._num_bytes(state) / 2**20:,.1f} MiB with the optimizer's state",
        ]

    @property
    def num_hosts(self) -> int:
        """Processes that take part."""
        return len({device.process_index for device in self.mesh.devices.flat})

    @property
    def _replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def _layout(
        self, tree: PyTree, axes: frozenset[str] = frozenset({_FSDP, _TENSOR})
    ) -> PyTree[NamedSharding]:
        """How each leaf of parameters, or of a train state made of them, is cut over `axes`."""
        sizes = {axis: self.mesh.shape[axis] for axis in axes}
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: NamedSharding(self.mesh, _spec(path, leaf, sizes)), tree
        )

    def _constrained(self, tree: PyTree, axes: set[str]) -> PyTree:
        if self.mesh.shape[_FSDP] * self.mesh.shape[_TENSOR] == 1:
            return tree
        return jax.lax.with_sharding_constraint(tree, self._layout(tree, frozenset(axes)))

    @property
    def _row_axes(self) -> tuple[str, ...]:
        """The axes that rows are cut over."""
        return tuple(axis for axis in _ROW_AXES if self.mesh.shape[axis] > 1)

    def _one_at_a_time(self, compiled: Callable) -> Callable:
        """On devices made of a CPU, waits for each result before the next call.

        Two programs in flight that know nothing of each other may hold the few threads there are
        while their collectives wait for more.
        """
        if self.mesh.size == 1 or self.mesh.devices.flat[0].platform != "cpu":
            return compiled
        return lambda *arguments: jax.block_until_ready(compiled(*arguments))

    def _by_row(self, function: Callable) -> Any:
        by_device = self._on_each(function, (PartitionSpec(), _ROWS), _ROWS)
        return jax.jit(by_device, out_shardings=self._replicated)

    def _on_each(self, function: Callable, in_specs: Any, out_specs: Any) -> Callable:
        """`function` of whole arrays, done by each device with what it has of them."""
        if self.compile_with == "pmap":
            return function  # of which each device has its own already
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            # How a matrix product is cut over tensor is left to the compiler.
            axis_names=set(_ROW_AXES),
            check_vma=False,
        )

    def _num_bytes(self, tree: PyTree) -> int:
        shards = jax.tree.map(
            lambda leaf, layout: np.prod(layout.shard_shape(leaf.shape)) * leaf.dtype.itemsize,
            tree,
            self._layout(tree),
        )
        return int(sum(jax.tree.leaves(shards)))

    def _pmap(self, function: Callable, out_axes: int | None) -> Callable:
        devices = list(self.mesh.devices.flat)
        return jax.pmap(function, _DATA, in_axes=(None, 0), out_axes=out_axes, devices=devices)

    def _by_device(self, rows: Any) -> Any:
        # Of a language model's source there is nothing: no size can be left to numpy.
        return rows.reshape(self.num_data, len(rows) // self.num_data, *rows.shape[1:])

    def _put_rows(self, rows: Any) -> jax.Array:
        """Rows that every host has all of, each on the device that works on it."""
        return _put(rows, NamedSharding(self.mesh, _ROWS))


def make_devices(
    data: int = -1,
    fsdp: int = 1,
    tensor: int = 1,
    compile: Compile = "jit",
    devices: Sequence[Any] | None = None,
) -> Devices:
    """The devices of this run: those of all hosts, or of one host the first data x fsdp x tensor.

    Args:
      data: how many copies of the model; -1: as many as there are devices for.
      fsdp: over how many devices a copy's parameters are cut.
      tensor: over how many devices each matrix product is cut.
      compile: "jit", or "pmap" with its one axis, data.
      devices: to be used in the place of those that are here, such as those of a topology.

    Raises:
      ValueError: a number is too small, or the devices at hand cannot be shared out like this.
    """
    for name, value in (("fsdp", fsdp), ("tensor", tensor)):
        if value < 1:
            raise ValueError(f"devices.{name}={value} must be at least 1")
    if devices is None:
        hosts.check_joined()
    # Hosts one after another, so that each feeds rows that lie together; slices outermost.
    devices = sorted(
        devices or jax.devices(),
        key=lambda device: (_slice(device), device.process_index, device.id),
    )
    wanted = f"devices.data={data}, fsdp={fsdp}, tensor={tensor}: {len(devices)} devices are here"
    if data == -1:
        data, num_idle = divmod(len(devices), fsdp * tensor)
        if data and num_idle:
            raise ValueError(
                f"{wanted}; {num_idle} would be left idle, which devices.data={data} allows"
            )
    if not 1 <= data or data * fsdp * tensor > len(devices):
        raise ValueError(
            f"{wanted}; the product must be at least 1 and at most as many, data=-1 takes all"
        )
    if jax.process_count() > 1 and data * fsdp * tensor != len(devices):
        raise ValueError(f"{wanted} on {jax.process_count()} hosts, all of which must take part")
    num_own = len(devices) // jax.process_count()
    if jax.process_count() > 1 and num_own % tensor and tensor % num_own:
        raise ValueError(
            f"devices.tensor={tensor} does not fit hosts of {num_own} devices: one must be a "
            "multiple of the other"
        )
    if compile == "pmap" and (fsdp * tensor > 1 or jax.process_count() > 1):
        raise ValueError(
            "devices.compile='pmap' cuts nothing but the batch, on the devices of one host: use "
            "'jit' for fsdp, tensor or several hosts"
        )
    devices = devices[: data * fsdp * tensor]
    replicas = len({_slice(device) for device in devices})
    if data % replicas:
        raise ValueError(
            f"devices.data={data} must be a multiple of the {replicas} slices: fsdp and tensor do "
            "not cross the network between them"
        )
    shape = (replicas, data // replicas, fsdp, tensor)
    return Devices(Mesh(np.array(devices).reshape(shape), _AXES), compile)


def _slice(device: jax.Device) -> int:
    return getattr(device, "slice_index", None) or 0


def _spec(path: tuple, leaf: Any, sizes: dict[str, int]) -> PartitionSpec:
    """How a leaf is cut over those mesh axes that `sizes` has."""
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    for pattern, axes in _LAYOUT:
        if len(axes) == len(leaf.shape) and re.search(rf"(^|/){pattern}$", name):
            cut = [
                axis if sizes.get(axis or "", 1) > 1 and length % sizes[axis or ""] == 0 else None
                for axis, length in zip(axes, leaf.shape, strict=True)
            ]
            return PartitionSpec(*cut) if any(cut) else PartitionSpec()
    return PartitionSpec()


def _laid_out(tree: PyTree, layout: PyTree[NamedSharding]) -> PyTree[jax.ShapeDtypeStruct]:
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        tree,
        layout,
    )


def _put(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array that every host has, each device given what it is to hold of it."""
    is_spread = isinstance(array, jax.Array) and not array.is_fully_addressable
    if is_spread or jax.process_count() == 1:
        return jax.device_put(array, sharding)
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        data = _put(jax.random.key_data(array), sharding)  # numpy knows no keys
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
