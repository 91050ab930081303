"""Facts from the TPU's own compiler about a program, compiled once and kept in a JSON file.

The programs are exactly those of a run: its training step for batches of one shape, its search for
one batch of sources.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

import t2t_jax
from t2t_jax import memory
from t2t_jax.compilation import ByRow, bytes_of, lower_train_step
from t2t_jax.data.batches.assembling import BatchShape
from t2t_jax.decoding.translate import make_decode
from t2t_jax.devices import Devices, make_devices
from t2t_jax.json_files import json_text, read_json, write_json
from t2t_jax.locks import SECONDS_FOR_THE_LOCK, locked
from t2t_jax.model.families import make_model, parameter_shapes
from t2t_jax.model.products import in_bfloat16
from t2t_jax.plan.collectives import traffic
from t2t_jax.plan.hardware import Topology, tpu_devices
from t2t_jax.runs.batches import empty_batch
from t2t_jax.runs.keys import completed
from t2t_jax.runs.sections import Sections
from t2t_jax.runs.steps import state_and_step
from t2t_jax.runs.switches import RATES

NOT_INSTALLED = (
    "the TPU's compiler is not installed, and what it would be asked is not kept in {}: "
    "pip install -c constraints.txt -e '.[tpu]', which needs no TPU"
)
_FORMAT = 1
# The value of these numbers does not change a program, only whether it is 0 ...
_ZERO_OR_NOT = (*RATES, "gradient_clip_norm", "weight_decay", "label_smoothing")
# ... and these keys of training are such numbers, or concern what is done between steps.
_NOT_IN_A_STEP = (
    *("steps", "warmup_steps", "learning_rate_scale", "peak_learning_rate"),
    *("adam_beta1", "adam_beta2", "adam_epsilon", "log_every_steps", "evaluate_every_steps"),
    *("checkpoint_every_steps", "checkpoint_every_minutes", "keep_checkpoints", "patience"),
    "max_nonfinite",
)
# ... and these of decoding rank what was found, or say which parameters and sentences it is given.
_NOT_IN_A_SEARCH = ("length_penalty", "tokens_per_batch", "average_checkpoints")
_CODE = ("model", "training", "decoding", "compilation.py", "devices.py", "row_keys.py")
_HOST_DEVICES = "xla_force_host_platform_device_count"  # changes no program for a TPU
_SIZE = r"([\d.]+)([KMGT])i?B?"
# The compiler's message, and whether the state comes on top of its number.
_USED_AND_LIMIT = (
    (rf"Used {_SIZE} of {_SIZE} hbm", False),
    (rf"HLO temporaries \({_SIZE}\) exceeds available HBM \({_SIZE}\)", True),
)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Program(NamedTuple):
    """A program to compile."""

    sections: Sections  # from `shared`, with the program's microbatches and rematerialisation
    topology: Topology
    shape: BatchShape  # of a whole batch; for a search, rows and tokens of the sources
    is_packed: bool = False
    is_search: bool = False

    @property
    def key(self) -> str:
        """Equal for equal programs."""
        return hashlib.sha256(json_text(self._identity()).encode()).hexdigest()[:16]

    def _identity(self) -> dict[str, Any]:
        model = _of_a_program("model", self.sections.model)
        same = {
            "model": model,
            "devices": dataclasses.asdict(self.sections.devices),
            "topology": self.topology.name,
            "shape": list(self.shape),
            "is_packed": self.is_packed,
        }
        if self.is_search:
            decoding = dataclasses.asdict(self.sections.decoding)
            searched = {key: decoding[key] for key in decoding if key not in _NOT_IN_A_SEARCH}
            model |= dict.fromkeys(RATES, False) | {"rematerialise": False}
            vocabulary = {"vocabulary_size": self.sections.data.vocabulary_size}
            return same | _but_later_keys("decoding", searched) | vocabulary
        training = _of_a_program("training", self.sections.training)
        return same | {"training": training | {"microbatches": max(training["microbatches"], 1)}}


def _of_a_program(name: str, section: Any) -> dict[str, Any]:
    """The values of a section that change a program."""
    values = {
        key: value > 0 if key in _ZERO_OR_NOT else value
        for key, value in dataclasses.asdict(section).items()
        if key not in _NOT_IN_A_STEP
    }
    return _but_later_keys(name, values)


def _but_later_keys(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Without keys added later at their first value: kept facts stay valid when one is added."""
    before = completed({})
    return {key: value for key, value in values.items() if before.get(f"{name}.{key}") != value}


class Facts(NamedTuple):
    """Facts about a compiled program; bytes are for one chip."""

    param_bytes: int
    state_bytes: int  # parameters and the optimizer's state, or parameters alone
    peak_bytes: int  # most memory in use at once, or needed if it does not fit
    fits: bool
    limit_bytes: int  # 0 if the compiler did not say
    operations: float = 0.0  # as counted by the compiler, for one chip; loops count once
    accessed_bytes: float = 0.0  # read and written; loops count once
    moved: dict[str, int] = {}  # collective -> bytes, see `traffic`
    seconds: float = 0.0  # of compilation, where it was done
    text: str = ""  # digest of the program before compilation


Compile = Callable[[Program], Facts]


class Keeper:
    """Compiles programs, and keeps their facts in a file.

    Facts from other versions of JAX or libtpu, or from an older version of this code that wrote
    another program, are renewed if the compiler is installed; if not, they are used, and `told`
    says so.
    """

    def __init__(self, path: Path, compile: Compile | None = None, log=lambda line: None) -> None:
        self._path = path
        self._compile = compile or compiled_facts
        self._versions = _versions() if compile is None else {}
        self._log = log
        self._is_installed = compile is not None or "libtpu" in self._versions
        self.told: set[str] = set()

    def __call__(self, program: Program) -> Facts:
        """The facts of a program.

        Raises:
          ValueError: they are not kept, and the compiler is not installed.
        """
        entry = self._kept().get(program.key)
        if entry is not None:
            if entry["made_with"] == self._versions:
                return _facts_of(entry)
            if not self._is_installed:
                self.told.add(f"facts of {self._path} are of {_words(entry['made_with'])}")
                return _facts_of(entry)
            if self._is_same_program(entry, program):
                facts = _facts_of(entry)
                self._keep(program.key, facts)
                return facts
        if not self._is_installed:
            raise ValueError(NOT_INSTALLED.format(self._path))
        rows, *lengths = program.shape
        what = "search" if program.is_search else "step"
        remat = ", computing layers again" if program.sections.model.rematerialise else ""
        self._log(
            f"compiling for {program.topology.name}: the {what} of {rows} x "
            f"{' + '.join(str(length) for length in lengths if length)} tokens, microbatches "
            f"{max(program.sections.training.microbatches, 1)}{remat}"
        )
        facts = self._compile(program)
        self._keep(program.key, facts)
        return facts

    def _is_same_program(self, entry: dict[str, Any], program: Program) -> bool:
        """Whether the changed code still gives the same program to the same compiler."""
        code = {"code": self._versions["code"]}
        if entry["made_with"] | code != self._versions:
            return False
        return entry["text"] != "" and entry["text"] == program_digest(program)

    def _kept(self) -> dict[str, Any]:
        if not self._path.exists():
            return {}
        values = read_json(self._path)
        if values.get("format") != _FORMAT or not isinstance(values.get("programs"), dict):
            raise ValueError(f"{self._path} holds no facts of programs: remove it, or name another")
        return values["programs"]

    def _keep(self, key: str, facts: Facts) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        entry = facts._asdict() | {"made_with": self._versions}
        lock = self._path.with_name(f".{self._path.name}.lock")
        with locked(lock, f"writes {self._path}", patience=SECONDS_FOR_THE_LOCK):
            programs = dict(sorted((self._kept() | {key: entry}).items()))
            write_json(self._path, {"format": _FORMAT, "programs": programs})


def _facts_of(entry: dict[str, Any]) -> Facts:
    return Facts(**{name: entry[name] for name in Facts._fields})


def program_digest(program: Program) -> str:
    """Digest of a program before compilation, which takes seconds to write."""
    return _digest(_lowered(program)[0])


def compiled_facts(program: Program) -> Facts:
    """The facts of a program, compiled now."""
    lowered, of_params, of_state = _lowered(program)
    chip = program.topology.chip
    if of_state >= chip.memory:  # no need to ask the compiler
        return Facts(of_params, of_state, of_state, False, chip.memory, text=_digest(lowered))
    started = time.monotonic()
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if not memory.is_exhausted(error):
            raise
        needed, limit = used_and_limit(str(error), of_state)
        needed = max(needed, (limit or chip.memory) + 1)
        return Facts(of_params, of_state, needed, False, limit, text=_digest(lowered))
    seconds = time.monotonic() - started
    cost = compiled.cost_analysis()
    moved = {kind: size for kind, size in traffic(compiled.as_text()).items() if size}
    return Facts(
        *(of_params, of_state, bytes_of(compiled), True, 0),
        operations=float(cost["flops"]),
        accessed_bytes=float(cost["bytes accessed"]),
        moved=moved,
        seconds=round(seconds, 1),
        text=_digest(lowered),
    )


def shared(sections: Sections, topology: Topology) -> Sections:
    """The config with `devices` resolved for a topology; on a single chip nothing is sharded.

    Raises:
      ValueError: the chips cannot be divided in this way.
    """
    devices, chips = sections.devices, topology.num_chips
    if devices.compile != "jit":
        raise ValueError(f"devices.compile={devices.compile!r} is not planned for: 'jit' is")
    layout = {"data": devices.data, "fsdp": devices.fsdp, "tensor": devices.tensor}
    if chips == 1:
        layout = dict.fromkeys(layout, 1)
    elif devices.data == -1:
        layout["data"] = chips // (devices.fsdp * devices.tensor)
    if math.prod(layout.values()) != chips:
        words = ", ".join(f"devices.{name}={size}" for name, size in layout.items())
        raise ValueError(f"{words}: {topology.name} has {chips} chips, and none is left idle")
    return sections._replace(devices=dataclasses.replace(devices, **layout))


def num_parts(sections: Sections) -> int:
    """How many parts the chips divide a batch into."""
    return sections.devices.data * sections.devices.fsdp


def used_and_limit(message: str, state_bytes: int) -> tuple[int, int]:
    """Bytes needed and available, read from the compiler's message; 0 if it does not say.

    The message counts either everything, or everything but the state.
    """
    for pattern, beside in _USED_AND_LIMIT:
        if found := re.search(pattern, message):
            used, unit, limit, limit_unit = found.groups()
            total = int(float(used) * _UNITS[unit]) + (state_bytes if beside else 0)
            return total, int(float(limit) * _UNITS[limit_unit])
    return 0, 0


def _lowered(program: Program) -> tuple[Any, int, int]:
    """A lowered program, and the bytes of its parameters and its state on one chip."""
    layout = dataclasses.asdict(program.sections.devices)
    devices = make_devices(**layout, devices=tpu_devices(program.topology))
    make = _lowered_search if program.is_search else _lowered_step
    with _no_locations():
        lowered, params, state = make(program, devices)
    return lowered, devices.num_bytes(params), devices.num_bytes(state)


@contextlib.contextmanager
def _no_locations() -> Iterator[None]:
    """A kernel's text would contain the paths and line numbers of the code that made it."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _digest(lowered: Any) -> str:
    return hashlib.sha256(lowered.as_text().encode()).hexdigest()[:16]


def _lowered_step(program: Program, devices: Devices) -> tuple[Any, PyTree, PyTree]:
    sections = program.sections
    make_state, step = state_and_step(sections, devices)
    state = jax.eval_shape(make_state, 0)
    multiple = devices.num_data * max(sections.training.microbatches, 1)
    rows = -(-program.shape.rows // multiple) * multiple
    batch = empty_batch(program.shape._replace(rows=rows), is_packed=program.is_packed)
    return lower_train_step(devices, step, state, batch), state.params, state


def _lowered_search(program: Program, devices: Devices) -> tuple[Any, PyTree, PyTree]:
    sections = program.sections
    model: Any = make_model(sections.model)
    decode = make_decode(model, sections.decoding, sections.data.vocabulary_size)
    rows = -(-program.shape.rows // devices.num_data) * devices.num_data
    sources = np.zeros((rows, program.shape.source_length), np.int32)
    params = parameter_shapes(model)
    if sections.decoding.weights_dtype == "bfloat16":
        params = jax.eval_shape(in_bfloat16, params)
    return ByRow(devices, decode).lower(devices.shapes(params), sources), params, params


@functools.cache
def _versions() -> dict[str, str]:
    """Versions of what a program depends on besides its config."""
    found = {"jax": jax.__version__, "code": _code_digest()}
    for name in ("LIBTPU_INIT_ARGS", "XLA_FLAGS"):
        flags = [
            flag
            for flag in os.environ.get(name, "").split()
            if _HOST_DEVICES not in flag and not flag.startswith("--xla_gpu_")
        ]
        if flags:
            found[name] = " ".join(flags)
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["libtpu"] = importlib.metadata.version("libtpu")
    return found


def _code_digest() -> str:
    root = Path(t2t_jax.__file__).parent
    files = [file for name in _CODE for file in sorted((root / name).glob("**/*.py"))]
    files += [root / name for name in _CODE if name.endswith(".py")]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _words(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
