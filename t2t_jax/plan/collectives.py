"""The communication between devices in a compiled program, read from the compiler's text."""

import math
import re

KINDS: tuple[str, ...] = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
_COLLECTIVE = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\(.*")
_ARRAY = re.compile(r"\b(?:pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_CHAIN = re.compile(r'chain_id="(\d+)"')
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) \(.*\{")
_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])")
# The notation of newer compilers: the axes of the mesh, and those that a group spans.
_AXES = re.compile(r"replica_groups=mesh\[(['\w=,]*)\] \{(['\w,]+)\}")


def traffic(program: str) -> dict[str, int]:
    """Bytes of the whole arrays that each kind of collective works on; loops count once.

    An all-gather counts its output, a reduce-scatter its input, each on one device. The TPU's
    compiler writes a reduce-scatter as a computation of that name with an all-reduce in it, and a
    collective that overlaps other work as a chain, with a link for each piece of that work.
    """
    total = dict.fromkeys(KINDS, 0)
    computation = ""
    chains = set()
    for line in program.splitlines():
        if (begun := _COMPUTATION.match(line)) is not None:
            computation = begun[1]
        if (found := _COLLECTIVE.search(line)) is None:
            continue
        shapes, kind, is_start = found.groups()
        arrays = _ARRAY.findall(shapes)
        if is_start and kind == "collective-permute":
            arrays = [(bits, dims) for bits, dims in arrays if dims]  # without its two counters
        sizes = [
            math.prod(map(int, filter(None, dims.split(",")))) * max(int(bits or 8) // 8, 1)
            for bits, dims in arrays
        ]
        if is_start and kind in ("all-gather", "collective-permute"):
            sizes = sizes[len(sizes) // 2 :]  # the inputs come first
        if (chain := _CHAIN.search(line)) is not None:
            if (kind, chain[1]) in chains:
                continue
            chains.add((kind, chain[1]))
        num_bytes = sum(sizes)
        if computation.startswith("all-reduce-scatter"):
            total["reduce-scatter"] += num_bytes
            continue
        if kind == "reduce-scatter":
            num_bytes *= _group_size(line)
        total[kind] += num_bytes
    return total


def _group_size(line: str) -> int:
    if (found := _AXES.search(line)) is not None:
        axes, of_group = found.groups()
        sizes = dict(axis.split("=") for axis in axes.split(","))
        return math.prod(int(sizes[axis]) for axis in of_group.split(","))
    if (found := _GROUPS.search(line)) is None:
        raise ValueError(f"a collective without groups of devices: {line.strip()}")
    listed, size = found.groups()
    return int(size) if size else listed.count(",") + 1
