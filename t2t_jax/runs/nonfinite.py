"""Keeps a step with non-finite numbers, so that it can be reproduced without the data.

    python -m t2t_jax.runs.nonfinite W/nonfinite/STEP

computes its loss and gradients again and says which are not finite. The directory holds state/
(before the step, by Orbax), batch.npz (all rows), config.json and step.json.
"""

import contextlib
import dataclasses
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from t2t_jax import buckets, hosts
from t2t_jax.data.batches.batches import Batch
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import error_text, full_disk_told, read_json, write_json
from t2t_jax.model.families import make_model
from t2t_jax.runs.keys import with_later_keys
from t2t_jax.runs.sections import Sections, read_sections
from t2t_jax.runs.steps import gradients_of
from t2t_jax.training.nonfinite import BadStep, names_of
from t2t_jax.training.optimizer import make_optimizer
from t2t_jax.training.step import TrainState, global_norm, make_train_state


class Found(NamedTuple):
    """The result of a step."""

    loss: float  # nats per token, label-smoothed
    gradient_norm: float
    names: str  # the first few parameters whose gradients are not finite; "" if none


def dump(
    workdir: Path,
    sections: Sections,
    devices: Devices,
    microbatches: int,
    state: TrainState,
    batch: Batch,
) -> str:
    """Writes `workdir`/nonfinite/STEP; says what is not finite, and how to reproduce the step.

    Args:
      state: before the step.
    """
    bad = BadStep.of(state)
    directory = (workdir / "nonfinite" / str(bad.number)).resolve()
    rows = batch
    if hosts.are_several():
        rows = multihost_utils.process_allgather(batch, tiled=True)
    if hosts.is_first():
        directory.mkdir(parents=True, exist_ok=True)
        arrays: Any = {name: ids for name, ids in rows._asdict().items() if ids is not None}
        with full_disk_told(directory):
            np.savez(directory / "batch.npz", **arrays)
        write_json(directory / "config.json", sections.values())
    hosts.wait("the batch is kept")
    # Written by all hosts, which may share nothing but a bucket.
    place = directory
    if buckets.is_copy(workdir):
        place = buckets.place_of(workdir) / "nonfinite" / str(bad.number)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(place / "state", state._asdict(), force=True)
    if hosts.is_first():
        values = {"batch": bad.batch, "microbatches": microbatches, "parts": devices.num_data}
        write_json(directory / "step.json", values)
    found = _found(sections, devices, microbatches, state, batch)
    return (
        f"the loss is {found.loss}, and {_what_is_not_finite(found)}; "
        f"python -m t2t_jax.runs.nonfinite {directory} computes the step again"
    )


def _what_is_not_finite(found: Found) -> str:
    if found.names:
        return f"the gradients of {found.names} are not finite"
    if not math.isfinite(found.gradient_norm):
        return "only the norm of all gradients together is not finite"
    if not math.isfinite(found.loss):
        return "the gradients are finite"
    return "computed again, everything is finite: a kernel here does not give the same bits twice"


def reproduce(directory: Path) -> Found:
    """The loss and gradients of the step that `dump` kept.

    They are computed on the config's devices if possible, else on one.

    Raises:
      ValueError: the directory holds no such step, or a damaged one.
    """
    path = directory / "step.json"
    if not path.exists():
        raise ValueError(f"{directory} holds no step: t2t-jax train leaves W/nonfinite/STEP")
    sections = read_sections(ConfigDict(with_later_keys(read_json(directory / "config.json"))))
    try:
        with np.load(directory / "batch.npz") as arrays:
            batch = Batch(**arrays)
        kept = read_json(path)
        microbatches = kept["microbatches"]
    except (BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        raise ValueError(f"{directory} is damaged: {lacks}{error}") from error
    devices = _devices(sections, len(batch.target_ids), microbatches)
    parts = kept.get("parts", devices.num_data)
    if microbatches > 1 and parts != devices.num_data:
        hosts.log(f"the step ran in {parts} parts, here in {devices.num_data}: other dropout masks")
    model = make_model(sections.model)
    optimizer = make_optimizer(sections.training, sections.model.d_model)
    shapes = jax.eval_shape(lambda: make_train_state(model, optimizer, sections.seed))
    with ocp.StandardCheckpointer() as checkpointer:
        template = devices.shapes(shapes._asdict())
        values = checkpointer.restore((directory / "state").resolve(), template)
    return _found(sections, devices, microbatches, TrainState(**values), devices.put_rows(batch))


def _devices(sections: Sections, num_rows: int, microbatches: int) -> Devices:
    with contextlib.suppress(ValueError):  # there may be fewer here
        devices = make_devices(**dataclasses.asdict(sections.devices))
        if num_rows % (devices.num_data * microbatches) == 0:
            return devices
    return make_devices(data=1, matmul_precision=sections.devices.matmul_precision)


def _found(
    sections: Sections, devices: Devices, microbatches: int, state: TrainState, batch: Batch
) -> Found:
    gradients = gradients_of(sections, devices, make_model(sections.model), microbatches)

    def of_step(state: TrainState, batch: Batch):
        grads, sums = gradients(state, batch)
        are_bad = jax.tree.map(lambda grad: ~jnp.isfinite(grad).all(), grads)
        return sums.loss / sums.tokens, global_norm(grads), are_bad

    compiled = jax.jit(of_step, out_shardings=devices.replicated)
    loss, norm, are_bad = jax.device_get(compiled(state, batch))
    return Found(float(loss), float(norm), names_of(are_bad))


def main(arguments: list[str]) -> None:
    """Runs the command."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(arguments) != 1:
        sys.exit("nonfinite: one argument is needed, the directory of a step, W/nonfinite/STEP")
    try:
        found = reproduce(buckets.directory_of(arguments[0], "the directory"))
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"nonfinite: {error_text(error)}")
    print(f"loss {found.loss}, norm of the gradients {found.gradient_norm}")
    print(f"gradients that are not finite: {found.names or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
