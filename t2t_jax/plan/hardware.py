"""The hardware that a run may be planned for, under the names by which it is rented.

Published peaks of one chip, read on 2026-11-23:

    v4, v5e, v5p, v6e   docs.cloud.google.com/tpu/docs/v4, v5e, v5p and v6e: peak compute, HBM,
                        and per link the all-reduce bandwidth of a pod over its chips and ports
                        (v5p: half of the bidirectional 1,200 GB/s over 6 ports)
    a100, h100, h200    NVIDIA's data sheets of the SXM boards: dense BF16, float32, HBM, NVLink
                        in one direction

The names of v4 and v5p count cores, two per chip; those of v5e and v6e count chips.
"""

import math
import os
import re
from typing import Any, NamedTuple

from t2t_jax.peaks import peak_operations

_GIB, _TERA, _GIGA = 2**30, 1e12, 1e9


class Chip(NamedTuple):
    """A kind of accelerator; rates are per second."""

    name: str
    kind: str  # JAX's name for the device
    memory: int  # bytes; of a GPU, the three quarters that JAX takes by default
    bandwidth: float  # bytes, of that memory
    link: float  # bytes, one link in one direction; for GPUs all links together
    axes: int  # of the network of chips; 0 for GPUs, which are all connected
    cores: int = 1  # per chip, as counted in names
    float32: float = 0.0  # operations in float32; 0: several passes of bfloat16

    @property
    def operations(self) -> float:
        """Multiplications and additions in bfloat16."""
        found = peak_operations(self.kind)
        assert found is not None, self.kind
        return found

    @property
    def is_tpu(self) -> bool:
        """Whether it can be compiled for without the hardware."""
        return self.axes > 0


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("v4", "TPU v4", 32 * _GIB, 1200 * _GIGA, 45 * _GIGA, 3, cores=2),
        Chip("v5e", "TPU v5 lite", 16 * _GIB, 819 * _GIGA, 50 * _GIGA, 2),
        Chip("v5p", "TPU v5", 95 * _GIB, 2765 * _GIGA, 100 * _GIGA, 3, cores=2),
        Chip("v6e", "TPU v6 lite", 32 * _GIB, 1638 * _GIGA, 100 * _GIGA, 2),
        Chip(
            *("a100", "NVIDIA A100-SXM4-80GB", 60 * _GIB),
            *(2039 * _GIGA, 300 * _GIGA, 0),
            float32=19.5 * _TERA,
        ),
        Chip(
            *("h100", "NVIDIA H100 80GB HBM3", 60 * _GIB),
            *(3350 * _GIGA, 450 * _GIGA, 0),
            float32=67 * _TERA,
        ),
        Chip(
            *("h200", "NVIDIA H200", 105 * _GIB),
            *(4800 * _GIGA, 450 * _GIGA, 0),
            float32=67 * _TERA,
        ),
    )
}

# Chips -> their arrangement, by number of axes; a single chip is a share of a host.
_ARRANGEMENTS: dict[int, dict[int, tuple[int, ...]]] = {
    2: {
        **{1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8)},
        **{64: (8, 8), 128: (8, 16), 256: (16, 16)},
    },
    3: {
        **{1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2), 16: (2, 2, 4), 32: (2, 4, 4)},
        **{64: (4, 4, 4), 128: (4, 4, 8), 256: (4, 8, 8)},
    },
}
_GPUS = (1, 2, 4, 8)  # of one machine
_OTHER_NAMES = {"v5litepod": "v5e"}
# A ring is closed on v5e and v6e if it is as long as a pod, on v4 and v5p in whole cubes.
_POD_SIDE, _CUBE_SIDE = 16, 4

# Query no cloud for this machine's type, take no device, and need no host names.
_WITHOUT_A_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",  # of a machine that does not exist
}


class Topology(NamedTuple):
    """A number of chips that one run uses together."""

    name: str
    chip: Chip
    num_chips: int
    shape: tuple[int, ...]  # chips along each axis of the network

    @property
    def one_chip(self) -> "Topology":
        """A single chip of this kind."""
        name = f"{self.chip.name}-{self.chip.cores}"
        return Topology(name, self.chip, 1, (1,) * max(self.chip.axes, 1))

    @property
    def link_bandwidth(self) -> float:
        """Bytes per second that each chip can send to the others while all do the same."""
        if not self.chip.is_tpu:
            return self.chip.link
        is_cubes = len(self.shape) == 3 and all(side % _CUBE_SIDE == 0 for side in self.shape)
        links = (
            2 if is_cubes or side >= _POD_SIDE else 1  # the ends of an open row have one
            for side in self.shape
            if side > 1
        )
        return self.chip.link * max(sum(links), 1)


def topology(name: str) -> Topology:
    """The hardware with a name such as v5e-8, v5litepod-8, v4-8 or h100-8.

    Raises:
      ValueError: there is none of this name; says which there are.
    """
    found = re.fullmatch(r"([a-z0-9]+)-(\d+)", name.lower())
    kind = _OTHER_NAMES.get(found[1], found[1]) if found else ""
    if found is None or kind not in CHIPS:
        raise ValueError(f"there is no hardware {name!r}: {names_text()}")
    chip = CHIPS[kind]
    number, rest = divmod(int(found[2]), chip.cores)
    if not chip.is_tpu:
        if number not in _GPUS:
            raise ValueError(f"{name!r}: a machine has {_listed(_GPUS)} GPUs of kind {kind}")
        return Topology(f"{kind}-{number}", chip, number, (number,))
    arrangements = _ARRANGEMENTS[chip.axes]
    if rest or number not in arrangements:
        sizes = _listed([size * chip.cores for size in arrangements])
        what = "cores, two a chip" if chip.cores == 2 else "chips"
        raise ValueError(f"{name!r}: {kind} comes in sizes of {sizes} {what}")
    return Topology(f"{kind}-{number * chip.cores}", chip, number, arrangements[number])


def topologies(names: str) -> list[Topology]:
    """The hardware of several names, separated by commas.

    Raises:
      ValueError: a name is not known, or there are none.
    """
    found = [topology(name.strip()) for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"no hardware is named: {names_text()}")
    return found


def of_device(description: str) -> Topology | None:
    """The hardware of a record, such as "8 x TPU v5 lite"; None if it is not known."""
    found = re.fullmatch(r"(\d+) x (.+)", description)
    if found is None:
        return None
    for chip in CHIPS.values():
        if found[2] == chip.kind:
            return topology(f"{chip.name}-{int(found[1]) * chip.cores}")
    return None


def names_text() -> str:
    """The valid names, in words."""
    tpus = [
        f"{chip.name}-{chip.cores} to {chip.name}-{256 * chip.cores}"
        for chip in CHIPS.values()
        if chip.is_tpu
    ]
    gpus = [f"{chip.name}-1 to {chip.name}-8" for chip in CHIPS.values() if not chip.is_tpu]
    return f"there are {', '.join(tpus + gpus)}"


def _listed(sizes) -> str:
    return ", ".join(map(str, sizes))


def tpu_devices(of: Topology) -> list:
    """The devices of a slice that need not exist here, to compile for.

    Raises:
      ValueError: the compiler is not installed, or refuses; in words.
    """
    from jax.experimental import topologies as of_jax

    for name, value in _WITHOUT_A_TPU.items():
        os.environ.setdefault(name, value)
    arrangement = "x".join(map(str, of.shape))
    host = (1, 1, 1) if of.num_chips == 1 else (2, 2, 1)
    if of.shape == (2, 4):
        host = (2, 4, 1)  # all eight on one
    options: dict[str, Any] = {"chips_per_host_bounds": host}
    if of.chip.cores == 2:  # both cores of a chip as one device, as they are on the machine
        options["chip_config_name"] = "megacore"
    try:
        described = of_jax.get_topology_desc(
            platform="tpu", topology_name=f"{of.chip.name}:{arrangement}", **options
        )
    except Exception as error:
        raise ValueError(f"the compiler of the TPU knows no {of.name}: {error}") from error
    devices = list(described.devices)
    assert len(devices) == math.prod(of.shape) == of.num_chips
    return devices
