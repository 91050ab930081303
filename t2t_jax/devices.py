"""Which devices there are, and which arrays are placed where.

Independent of models: it takes trees of arrays. The devices form a mesh of four named axes. A batch
is split along its first axis over replica x data x fsdp. Parameters, and with them the optimizer's
state, are split over fsdp and tensor according to `_LAYOUT`; each replica and each part of data
holds all of them.

    replica   slices of a Cloud TPU, joined by a slow network
    data      whole copies of the model
    fsdp      parts of the model, gathered for each step
    tensor    parts of each matrix product (Shoeybi et al. 2019): heads, hidden units, vocabulary
"""

import importlib.util
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from t2t_jax import hosts, memory
from t2t_jax.trees import path_name

REPLICA, DATA, FSDP, TENSOR = "replica", "data", "fsdp", "tensor"
_AXES = (REPLICA, DATA, FSDP, TENSOR)
ROW_AXES = (REPLICA, DATA, FSDP)
ROWS = PartitionSpec(ROW_AXES)  # how the first axis of a batch is split

Compile = Literal["jit", "pmap"]
# For float32 products: JAX's default is TF32 on GPUs, bfloat16 on TPUs, and float32 on CPUs, where
# "default" means what `model/products.py` does in training.
MatmulPrecision = Literal["highest", "high", "default"]
# The value of jax_default_matmul_precision that says so; JAX itself has one precision on CPUs.
ROUNDS_ON_CPU = "bfloat16"

# On NVIDIA's GPUs, products by cuBLAS as it chooses them. By default XLA builds kernels of its own
# for each product of a program, many to choose from, and times them all before the first step.
# jaxlib 0.10.2, 0.11.2 and 0.12.0 know both flags; to one that did not, they would be fatal.
_NO_TRIALS = ("--xla_gpu_enable_triton_gemm=false", "--xla_gpu_autotune_level=0")
_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def _skip_trials() -> None:
    """Adds `_NO_TRIALS` to XLA_FLAGS, which XLA reads before its first program.

    A flag that is there stays as it is, and so does the name of a file of flags.
    """
    given = os.environ.get("XLA_FLAGS", "").strip()
    is_file = given and not given.startswith("-")
    if any(map(importlib.util.find_spec, _PLUGINS)) and not is_file:
        ours = [flag for flag in _NO_TRIALS if flag.partition("=")[0] not in given]
        os.environ["XLA_FLAGS"] = " ".join([*ours, *given.split()])


_skip_trials()

# The end of a parameter's path -> the mesh axis that each of its axes is split over; the first line
# that fits path and number of axes applies. An axis that does not split evenly stays whole. If
# nothing is split over tensor, fsdp takes that axis if it comes first: along the first axis, a TPU
# splits a sum while computing it, along the last one not always.
# Axes: D d_model, H heads, K d_k or d_v, F d_ff, V vocabulary.
_LAYOUT: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"(query|key|value)/kernel", (FSDP, TENSOR, None)),  # D H K
    (r"(query|key|value)/bias", (TENSOR, None)),  # H K
    (r"output/kernel", (TENSOR, None, FSDP)),  # H K D
    (r"inner/kernel", (FSDP, TENSOR)),  # D F
    (r"inner/bias", (TENSOR,)),  # F
    (r"outer/kernel", (TENSOR, FSDP)),  # F D
    (r"table", (TENSOR, FSDP)),  # V D
    (r"kernel", (FSDP, None)),  # of recurrent cells and poolers
)


class Devices(NamedTuple):
    """The devices of one run, as a mesh."""

    mesh: Mesh
    compile_with: Compile = "jit"

    @property
    def num_data(self) -> int:
        """How many parts a batch is split into; its rows must be a multiple."""
        return self.mesh.size // self.mesh.shape[TENSOR]

    @property
    def part(self) -> int:
        """Which of `num_parts` equal parts of a batch's rows this host feeds."""
        return self._own_slots.start // len(self._own_slots)

    @property
    def num_parts(self) -> int:
        """How many parts hosts split a batch into; hosts with the same rows feed the same part."""
        return self.num_data // len(self._own_slots)

    @property
    def _own_slots(self) -> range:
        """The parts of a batch that are on this host; hosts are in sequence."""
        indices = self._rows.addressable_devices_indices_map((self.num_data,))
        slots = {index[0].start or 0 for index in indices.values() if index is not None}
        return range(min(slots), max(slots) + 1)

    @property
    def are_accelerators(self) -> bool:
        """Whether they are GPUs or TPUs."""
        return self.mesh.devices.flat[0].platform != "cpu"

    @property
    def are_gpus(self) -> bool:
        """Whether they are GPUs."""
        return self.mesh.devices.flat[0].platform == "gpu"

    @property
    def num_hosts(self) -> int:
        """The number of participating processes."""
        return len({device.process_index for device in self.mesh.devices.flat})

    @property
    def replicated(self) -> NamedSharding:
        """The sharding of arrays held whole by every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    def layout(self, tree: PyTree) -> PyTree[NamedSharding]:
        """The layout of parameters, or of a train state, on the devices."""
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: NamedSharding(self.mesh, self._spec(path, leaf)), tree
        )

    def put(self, tree: PyTree) -> PyTree[jax.Array]:
        """Places parameters or a train state, equal on all hosts, on the devices."""
        return jax.tree.map(_put, tree, self.layout(tree))

    def put_batch(self, batch: PyTree[np.ndarray]) -> PyTree[jax.Array]:
        """Splits a batch over the devices; each host supplies its own part of the rows."""
        make_array = partial(jax.make_array_from_process_local_data, self._rows)
        return jax.tree.map(make_array, batch)

    def put_rows(self, batch: PyTree) -> PyTree[jax.Array]:
        """Splits a batch of which every host has all rows."""
        return jax.tree.map(lambda rows: _put(rows, self._rows), batch)

    def shapes(self, tree: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of `tree`, as placed by `put`."""
        return jax.tree.map(_shape, tree, self.layout(tree))

    def batch_shapes(self, batch: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of a whole batch, as split by `put_batch`."""
        return jax.tree.map(lambda rows: _shape(rows, self._rows), batch)

    def replicated_shapes(self, tree: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of `tree`, replicated on every device."""
        return jax.tree.map(lambda leaf: _shape(leaf, self.replicated), tree)

    def memory_limit(self) -> int | None:
        """Bytes of memory of a device; None if it does not say."""
        statistics = self.mesh.local_devices[0].memory_stats() or {}
        return statistics.get("bytes_limit")

    def check_room(self, state: PyTree) -> None:
        """Raises ValueError, on all hosts, if one cannot even hold a state of these shapes."""
        needed, limit, whose = self.num_bytes(state), self.memory_limit(), "a device"
        if limit is None:  # CPUs, which share the machine's memory
            needed *= len(self.mesh.local_devices)
            limit, whose = memory.of_machine(), "this machine"
        if hosts.any_of(needed > limit):
            raise ValueError(
                f"parameters and the optimizer's state take {needed / 2**30:,.1f} GiB, and {whose} "
                f"has {limit / 2**30:,.1f}: make the model smaller, or cut it over more devices by "
                "devices.fsdp and devices.tensor"
            )

    def peak_memory(self) -> int | None:
        """Peak bytes on a device of this host so far; None if it does not say."""
        each = [device.memory_stats() or {} for device in self.mesh.local_devices]
        peaks = [statistics["peak_bytes_in_use"] for statistics in each if statistics]
        return max(peaks, default=None)

    @property
    def kind(self) -> str:
        """JAX's name for this kind of device."""
        return self.mesh.devices.flat[0].device_kind

    def describe(self) -> str:
        """The hardware in words, for logs and records."""
        return f"{self.mesh.size} x {self.kind}"

    def describe_layout(self, params: PyTree, state: PyTree) -> list[str]:
        """Three lines: the mesh, how parameters are split, how many bytes each device holds."""
        axes = ", ".join(f"{name} {self.mesh.shape[name]}" for name in _AXES)
        hosts = f" on {self.num_hosts} hosts" if self.num_hosts > 1 else ""
        layouts = jax.tree.leaves(self.layout(params))
        num_cut = sum(any(layout.spec) for layout in layouts)
        cut = "every device holds all" if num_cut == 0 else f"{num_cut} are cut over fsdp or tensor"
        return [
            f"mesh of {self.describe()}{hosts}: {axes}; compiled with {self.compile_with}",
            f"parameters: {len(layouts)} arrays, {cut}; "
            f"a batch is split into {self.num_data} parts",
            f"each device holds {self.num_bytes(params) / 2**20:,.1f} MiB of parameters, "
            f"{self.num_bytes(state) / 2**20:,.1f} MiB with the optimizer's state",
        ]

    @property
    def _rows(self) -> NamedSharding:
        return NamedSharding(self.mesh, ROWS)

    def _spec(self, path: tuple, leaf: Any) -> PartitionSpec:
        name = path_name(path)
        for pattern, axes in _LAYOUT:
            if len(axes) == len(leaf.shape) and re.search(rf"(^|/){pattern}$", name):
                return self._cut_evenly(axes, leaf.shape)
        return PartitionSpec()

    def _cut_evenly(self, axes: tuple[str | None, ...], shape: tuple[int, ...]) -> PartitionSpec:
        """The mesh axis that each axis of `shape` is split over, following `_LAYOUT`."""
        if FSDP in axes and self.mesh.shape[TENSOR] == 1:
            axes = tuple(axis and FSDP for axis in axes)
        cut = []
        for axis, length in zip(axes, shape, strict=True):
            size = 1 if axis is None else self.mesh.shape[axis]
            is_cut = size > 1 and length % size == 0 and axis not in cut
            cut.append(axis if is_cut else None)
        return PartitionSpec(*cut) if any(cut) else PartitionSpec()

    def num_bytes(self, tree: PyTree) -> int:
        """Bytes of a tree on one device."""
        shards = jax.tree.map(
            lambda leaf, layout: (
                np.prod(layout.shard_shape(leaf.shape), dtype=np.int64) * leaf.dtype.itemsize
            ),
            tree,
            self.layout(tree),
        )
        return int(sum(jax.tree.leaves(shards)))


def make_devices(
    data: int = -1,
    fsdp: int = 1,
    tensor: int = 1,
    compile: Compile = "jit",
    matmul_precision: MatmulPrecision = "highest",
    devices: Sequence[Any] | None = None,
) -> Devices:
    """The devices of this run: those of all hosts, or the first data x fsdp x tensor of one host.

    Programs that this process compiles from now on multiply float32 with `matmul_precision`;
    bfloat16 products are not affected.

    Args:
      data: number of copies of the model; -1: as many as the devices allow.
      fsdp: number of devices that a copy's parameters are split over.
      tensor: number of devices that each matrix product is split over.
      compile: "jit", or "pmap" with its one axis, data.
      matmul_precision: of float32 products on accelerators; on a CPU "default" rounds the operands
        of some in training (model/products.py), and all others are exact.
      devices: used instead of the local ones, such as those of a topology.

    Raises:
      ValueError: there are no devices, a number is too small, or the devices cannot be divided like
        this.
    """
    for name, value in (("fsdp", fsdp), ("tensor", tensor)):
        if value < 1:
            raise ValueError(f"devices.{name}={value} must be at least 1")
    if devices is None:
        devices = _devices_here()
    # Hosts in sequence, so that each feeds adjacent rows; slices outermost.
    devices = sorted(
        devices,
        key=lambda device: (_slice(device), device.process_index, device.id),
    )
    here = "1 device is here" if len(devices) == 1 else f"{len(devices)} devices are here"
    wanted = f"devices.data={data}, fsdp={fsdp}, tensor={tensor}: {here}"
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
    made = Devices(Mesh(np.array(devices).reshape(shape), _AXES), compile)
    if made.are_accelerators:
        jax.config.update("jax_default_matmul_precision", matmul_precision)
    elif matmul_precision == "default":
        jax.config.update("jax_default_matmul_precision", ROUNDS_ON_CPU)
    elif jax.config.jax_default_matmul_precision == ROUNDS_ON_CPU:  # pyright: ignore
        jax.config.update("jax_default_matmul_precision", None)
    return made


def _devices_here() -> Sequence[jax.Device]:
    """The devices of all hosts.

    Raises:
      ValueError: there are none, or they belong to several processes that have not joined.
    """
    try:
        hosts.check_joined()
        return jax.devices()
    except (AssertionError, RuntimeError) as error:  # the first if a platform has no devices
        why = f" ({str(error).splitlines()[0]})" if str(error) else ""
        platforms = getattr(jax.config, "jax_platforms", None) or ""
        raise ValueError(
            f"JAX finds no device where JAX_PLATFORMS={platforms}{why}: name a platform that is "
            "here, such as cpu, or none at all"
        ) from error


def _slice(device: Any) -> int:
    """Which slice of Cloud TPU a device is in; JAX numbers the hosts of GPUs so, too."""
    return getattr(device, "slice_index", None) or 0 if device.platform == "tpu" else 0


def _shape(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _put(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array that every host has, with each device given its own part."""
    is_spread = isinstance(array, jax.Array) and not array.is_fully_addressable
    if is_spread or jax.process_count() == 1:
        return jax.device_put(array, sharding)
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        data = _put(jax.random.key_data(array), sharding)  # NumPy has no keys
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
