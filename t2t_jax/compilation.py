"""Compiles a step for the devices, each of which computes its own rows of a batch.

Independent of models: it takes pure functions of parameters and a batch. `devices` says where each
array is placed; only this file uses `shard_map` and `pmap`.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from t2t_jax import memory, row_keys
from t2t_jax.cores import own_cores
from t2t_jax.devices import DATA, FSDP, ROW_AXES, ROWS, TENSOR, Devices
from t2t_jax.made_once import made_once

_WHOLE = PartitionSpec()


@made_once
def summed_over(devices: Devices) -> Callable[[Callable], Callable]:
    """Turns `(params, batch, key) -> (gradients, sums)` of a device's own rows into that of all.

    For use inside a training step. Parameters are gathered over fsdp for the computation; the sum
    over fsdp scatters the gradients again, split like the parameters, for the update. A key draws
    the same for every row on any number of devices.
    """
    return partial(_summed_over, devices)


def _summed_over(devices: Devices, summed: Callable) -> Callable:
    axes = _row_axes(devices)
    others = tuple(axis for axis in axes if axis != FSDP)

    def of_all_rows(params, batch, key):
        layout = devices.layout(params)  # also of the gradients
        cuts = jax.tree.map(_over_fsdp_alone, layout)

        def summed_and_cut(grad, cut):
            if FSDP not in cut:
                return jax.lax.psum(grad, axes)
            axis = tuple(cut).index(FSDP)
            own = jax.lax.psum_scatter(jnp.moveaxis(grad, axis, 0), FSDP, tiled=True)
            return jnp.moveaxis(jax.lax.psum(own, others), 0, axis)

        def of_own_rows(params, batch, key):
            own_key = row_keys.of_part(key, jax.lax.axis_index(axes))
            grads, sums = summed(params, batch, own_key)
            return jax.tree.map(summed_and_cut, grads, cuts), jax.lax.psum(sums, axes)

        grads, sums = _on_each(devices, of_own_rows, (cuts, _WHOLE))(params, batch, key)
        return jax.lax.with_sharding_constraint(grads, layout), sums

    return of_all_rows


def compile_init(
    devices: Devices, make_state: Callable, seed: Any, shapes: PyTree | None = None
) -> PyTree[jax.Array]:
    """`make_state(seed)`, created on its devices; `shapes` are those of the state, if known."""
    layout = devices.layout(jax.eval_shape(make_state, seed) if shapes is None else shapes)
    is_whole = devices.mesh.shape[FSDP] == devices.mesh.shape[TENSOR] == 1
    with _generator_as_a_kernel() if devices.are_gpus and is_whole else contextlib.nullcontext():
        return jax.jit(make_state, out_shardings=layout)(seed)


@contextlib.contextmanager
def _generator_as_a_kernel() -> Iterator[None]:
    """On a GPU, random bits come from JAX's kernel instead of code compiled for each parameter.

    The bits are the same. A step keeps the code, which fuses with dropout; and so do parameters
    that are split, of which each device would draw the whole.
    """
    name = "jax_threefry_gpu_kernel_lowering"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def compile_train_step(devices: Devices, train_step: Callable, state: PyTree) -> Any:
    """`(state, batch) -> (state, metrics)`; the new state reuses the old one's memory."""
    out_shardings = (devices.layout(state), devices.replicated)
    return jax.jit(train_step, donate_argnums=0, out_shardings=out_shardings)


def compile_ahead(
    devices: Devices,
    train_step: Callable,
    state: PyTree,
    batches: Sequence[PyTree],
    advice: str = "",
) -> Callable:
    """`compile_train_step`, whose first call compiles for all shapes of `batches` at once.

    In threads, in the order of `batches`: put the largest first, to learn before training if one
    does not fit. Other shapes are compiled when they occur.

    Raises:
      ValueError: in the first call, if a batch does not fit in device memory; with `advice`.
    """
    compiled_later = compile_train_step(devices, train_step, state)
    shapes, limit = devices.shapes(state), devices.memory_limit()
    programs: dict[Any, Callable] = {}

    def program_of(batch: PyTree) -> Callable:
        try:
            program = compiled_later.lower(shapes, devices.batch_shapes(batch)).compile()
        except jax.errors.JaxRuntimeError as error:
            if not memory.is_exhausted(error):
                raise
            raise ValueError(_does_not_fit(batch, "a device") + advice) from error
        needed = bytes_of(program)
        if limit is not None and needed > limit:
            sizes = f"a device: {needed / 2**30:.2f} GiB in {limit / 2**30:.2f}"
            raise ValueError(_does_not_fit(batch, sizes) + advice)
        return program

    def step(state: PyTree, batch: PyTree) -> Any:
        if not programs:
            with ThreadPoolExecutor(max(1, min(len(batches), len(own_cores())))) as threads:
                found = [threads.submit(program_of, each) for each in batches]
                try:
                    done = [one.result() for one in found]
                finally:
                    threads.shutdown(cancel_futures=True)  # after an error, the rest is not needed
            programs.update(zip(map(_shape_of, batches), done, strict=True))
        program: Any = programs.get(_shape_of(batch), compiled_later)
        return program(state, batch)

    return step


def _shape_of(batch: PyTree) -> Any:
    return tuple(leaf.shape for leaf in jax.tree.leaves(batch))


def _does_not_fit(batch: PyTree, where: str) -> str:
    leaves = jax.tree.leaves(batch)
    rows, lengths = len(leaves[0]), [leaf.shape[1] for leaf in leaves[:2]]
    return f"a batch of {rows} rows of {' + '.join(map(str, lengths))} tokens does not fit {where}"


@made_once
def compile_sums(devices: Devices, sums: Callable) -> Callable:
    """`(params, batch) -> sums` of all rows, from one for a device's own rows."""

    def of_own_rows(params, batch):
        return jax.lax.psum(sums(params, batch), _row_axes(devices))

    return _one_at_a_time(devices, _compiled(devices, of_own_rows, _WHOLE))


class ByRow:
    """`(params, batch) -> batch` for independent rows: each device computes its own.

    Takes all rows on every host, as NumPy arrays, and returns all rows on every host.
    """

    def __init__(self, devices: Devices, function: Callable) -> None:
        self._devices = devices
        self._program = _compiled(devices, function, ROWS)
        self._one_at_a_time = _one_at_a_time(devices, self._program)

    def __call__(self, params: PyTree, batch: PyTree) -> PyTree:
        return self._one_at_a_time(params, self._devices.put_rows(batch))

    def lower(self, params: PyTree, batch: PyTree) -> Any:
        """The program before compilation, for shapes like those given."""
        return self._program.lower(params, self._devices.batch_shapes(batch))


def lower_train_step(devices: Devices, train_step: Callable, state: PyTree, batch: PyTree) -> Any:
    """The step before compilation, for shapes like those of `state` and a whole `batch`."""
    compiled = compile_train_step(devices, train_step, state)
    return compiled.lower(devices.shapes(state), devices.batch_shapes(batch))


def memory_needed(devices: Devices, train_step: Callable, state: PyTree, batch: PyTree) -> int:
    """Bytes that a step takes on a device for a batch of this shape.

    The largest int if the compiler itself refuses a step that does not fit.
    """
    lowered = lower_train_step(devices, train_step, state, batch)
    try:
        return bytes_of(lowered.compile())
    except jax.errors.JaxRuntimeError as error:
        if not memory.is_exhausted(error):
            raise
        return sys.maxsize


def bytes_of(program: Any) -> int:
    """Bytes on a device while this compiled program runs."""
    analysis = program.memory_analysis()
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )


def _over_fsdp_alone(layout: NamedSharding) -> PartitionSpec:
    return PartitionSpec(*(axis if axis == FSDP else None for axis in layout.spec))


@made_once
def _compiled(devices: Devices, function: Callable, out: PartitionSpec) -> Any:
    return jax.jit(_on_each(devices, function, out), out_shardings=devices.replicated)


def _on_each(devices: Devices, function: Callable, out: PyTree[PartitionSpec]) -> Callable:
    """`function(params, batch, ...)` of all rows; each device computes its own.

    Everything but the batch is replicated; so is the output, unless `out` splits it by rows.
    """

    def by_shard_map(params, batch, *others):
        return jax.shard_map(
            function,
            mesh=devices.mesh,
            in_specs=(_WHOLE, ROWS, *[_WHOLE] * len(others)),
            out_specs=out,
            # The compiler splits matrix products over tensor, but only there: kernels that are not
            # JAX's, such as cuDNN's attention, need all axes to be manual.
            axis_names=set(ROW_AXES if devices.mesh.shape[TENSOR] > 1 else devices.mesh.axis_names),
            check_vma=False,
        )(params, batch, *others)

    match devices.compile_with:
        case "jit":
            return by_shard_map
        case "pmap":
            return partial(_by_pmap, devices, function, out)


def _by_pmap(devices: Devices, function: Callable, out: PyTree, params, batch, *others):
    """The same by pmap, which takes devices as an axis of the arrays, before the rows."""
    mapped = jax.pmap(
        function,
        DATA,
        in_axes=(None, 0, *[None] * len(others)),
        out_axes=0 if out == ROWS else None,
        devices=list(devices.mesh.devices.flat),
    )
    num_data = devices.num_data
    # No -1: a language model's source is empty, which leaves that size undetermined.
    by_device = jax.tree.map(
        lambda rows: rows.reshape(num_data, len(rows) // num_data, *rows.shape[1:]), batch
    )
    outputs = mapped(params, by_device, *others)
    if out != ROWS:
        return outputs
    return jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[2:]), outputs)


def _row_axes(devices: Devices) -> tuple[str, ...]:
    """The axes that rows are split over, as named inside a device's own function."""
    if devices.compile_with == "pmap":
        return (DATA,)
    return tuple(axis for axis in ROW_AXES if devices.mesh.shape[axis] > 1)


def _one_at_a_time(devices: Devices, compiled: Callable) -> Callable:
    """On devices made from a CPU, waits for each result before the next call.

    Two independent programs in flight may hold the few threads while their collectives wait for
    more.
    """
    if devices.mesh.size == 1 or devices.mesh.devices.flat[0].platform != "cpu":
        return compiled
    return lambda *arguments: jax.block_until_ready(compiled(*arguments))
