"""Whether an accelerator computes the same as a CPU, and the same every time.

    python -m experiments.benchmarks.agreement --config=configs/tiny.py
    python -m experiments.benchmarks.agreement --config=configs/base.py

Trains on one batch of random tokens, on the first CPU and twice on JAX's first default device, runs
searches on both with the CPU's parameters, and prints JSON:

    loss              largest relative difference of a step's loss from the CPU's
    parameters        root mean square of all final differences, over that of the learned change
    tokens            share of equal tokens found by greedy and beam search
    is_repeated       whether the second training equals the first bit for bit
    is_found_again    whether a second search equals the first
    memory            the device's peak memory, over its compiler's prediction; null for a CPU, and
                      where something earlier in this process took more

float32 is multiplied as `devices.matmul_precision` says; the CPU always uses full precision, and
computes attention without a kernel.
Dropout draws the same masks on both.
"""

import dataclasses
import functools
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from absl import app, flags
from ml_collections import config_flags

from t2t_jax.cli.command import parse_flags

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from jaxtyping import PyTree

    from t2t_jax.devices import Devices
    from t2t_jax.runs.sections import Sections

_ROWS, _LENGTH = 32, 24  # of the batch, on each side


class Training(NamedTuple):
    """The results of a few steps."""

    losses: np.ndarray  # of each step, per token
    start: "PyTree[np.ndarray]"  # parameters
    params: "PyTree[np.ndarray]"
    memory: float | None


class Agreement(NamedTuple):
    """Agreement of a device with a CPU, and with itself."""

    loss: float
    parameters: float
    tokens: float
    is_repeated: bool
    is_found_again: bool
    memory: float | None


def agreement(sections: "Sections", steps: int, device: Any = None) -> Agreement:
    """The agreement of `device`, by default JAX's first.

    Raises:
      RuntimeError: JAX is configured without a CPU.
      ValueError: the model does not translate.
    """
    import jax

    if sections.data.task != "translation":
        raise ValueError(f"data.task={sections.data.task!r}: only 'translation' is measured")

    cpu, other = (
        _on(sections, each) for each in (jax.devices("cpu")[0], device or jax.devices()[0])
    )
    # A process with a GPU would have cuDNN's kernel for its CPU, too.
    plain = dataclasses.replace(sections.model, attention_kernel="einsum")
    on_cpu = sections._replace(model=plain)
    expected = train(on_cpu, cpu, steps)
    once, again = (train(sections, other, steps) for _ in range(2))
    found = search(sections, other, expected.params)
    wanted = search(on_cpu, cpu, expected.params)
    learned = _difference(expected.params, expected.start)
    return Agreement(
        loss=float(np.max(np.abs(once.losses / expected.losses - 1))),
        parameters=_difference(once.params, expected.params) / learned,
        tokens=float(np.mean(found == wanted)),
        is_repeated=_are_same((once.losses, once.params), (again.losses, again.params)),
        is_found_again=_are_same(found, search(sections, other, expected.params)),
        memory=once.memory,
    )


def train(sections: "Sections", devices: "Devices", steps: int) -> Training:
    """Takes `steps` steps on one batch."""
    import jax

    from t2t_jax.compilation import compile_init, lower_train_step, memory_needed
    from t2t_jax.model.ensemble import unstacked
    from t2t_jax.model.families import make_model, parameter_shapes
    from t2t_jax.runs.state_form import has_members_at_once
    from t2t_jax.runs.steps import state_and_step

    before = devices.peak_memory()
    make_state, step = state_and_step(sections, devices)
    state = compile_init(devices, make_state, 0)
    like = parameter_shapes(make_model(sections.model))

    at_once = has_members_at_once(sections, devices)

    def in_one_form(params: "PyTree") -> "PyTree":
        on_host = jax.device_get(params)
        return unstacked(on_host, like) if at_once else on_host

    start = in_one_form(state.params)
    batch = devices.put_batch(_batch(sections))
    compiled = lower_train_step(devices, step, state, batch).compile()
    losses = []
    for _ in range(steps):
        state, metrics = compiled(state, batch)
        losses.append(metrics.loss / metrics.tokens)
    held = devices.peak_memory()  # of the process so far: nothing resets it
    memory = None
    if held is not None and before is not None and held > before:
        memory = held / memory_needed(devices, step, state, batch)
    return Training(np.array(jax.device_get(losses)), start, in_one_form(state.params), memory)


def search(sections: "Sections", devices: "Devices", params: "PyTree") -> np.ndarray:
    """The ids that greedy and beam search find for the batch's sources, concatenated."""
    import jax

    from t2t_jax.compilation import ByRow
    from t2t_jax.decoding.translate import make_decode, searches_members_at_once
    from t2t_jax.model.families import make_model

    model: Any = make_model(sections.model)
    found = []
    for beam_size in (1, sections.decoding.beam_size):
        config = dataclasses.replace(sections.decoding, beam_size=beam_size)
        at_once = devices.are_gpus and searches_members_at_once(sections.model)
        decode = make_decode(model, config, sections.data.vocabulary_size, at_once)
        searched = ByRow(devices, decode)(
            jax.device_put(params, devices.layout(params)), _batch(sections).source_ids
        )
        found.append(np.asarray(jax.device_get(searched[0])).reshape(-1))
    return np.concatenate(found)


def _batch(sections: "Sections") -> Any:
    from t2t_jax.data.batches.batches import Batch

    highest = min(sections.data.vocabulary_size, sections.model.vocabulary_rows)
    ids = np.random.default_rng(0).integers(4, highest, (2, _ROWS, _LENGTH))
    return Batch(*ids.astype(np.int32))


def _on(sections: "Sections", device: Any) -> "Devices":
    from t2t_jax.devices import make_devices

    precision = "highest" if device.platform == "cpu" else sections.devices.matmul_precision
    return make_devices(data=1, matmul_precision=precision, devices=[device])


def _difference(tree: "PyTree", other: "PyTree") -> float:
    """Root mean square over all elements."""
    import jax

    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    squares = [np.square(np.float64(one) - np.float64(two)).ravel() for one, two in pairs]
    return float(np.sqrt(np.concatenate(squares).mean()))


def _are_same(tree: "PyTree", other: "PyTree") -> bool:
    import jax

    return all(jax.tree.leaves(jax.tree.map(np.array_equal, tree, other)))


def main(_: list[str]) -> None:
    """Measures."""
    from t2t_jax.runs.sections import read_sections

    given = flags.FLAGS
    try:
        found = agreement(read_sections(given.config), given.steps)
    except (RuntimeError, TypeError, ValueError) as error:
        sys.exit(f"agreement: {error}")
    print(json.dumps(found._asdict()))


if __name__ == "__main__":
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.DEFINE_integer("steps", 20, "training steps", lower_bound=1)
    flags.mark_flag_as_required("config")
    app.run(main, flags_parser=functools.partial(parse_flags, "agreement"))
