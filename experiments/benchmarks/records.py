"""A record of each run of the benchmarks: time, code, machine and results."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from experiments.benchmarks.results import Result
from experiments.run import accelerators
from experiments.run.run import commit
from t2t_jax import memory
from t2t_jax.cores import own_cores
from t2t_jax.json_files import read_json, write_json

_FORMAT = 1
_VARIABLES = ("XLA_FLAGS", "GLIBC_TUNABLES", "JAX_PLATFORMS")
_PACKAGES = ("jax", "jaxlib", "torch", "ctranslate2", *accelerators.PACKAGES)


class Record(NamedTuple):
    """The results of one run of the benchmarks."""

    when: str  # UTC, ISO 8601
    commit: str
    machine: dict[str, Any]
    results: list[Result]

    @property
    def short_commit(self) -> str:
        """The commit, abbreviated for display."""
        head, *dirty = self.commit.split("-")
        return "-".join([head[:7], *dirty])

    def write(self, directory: Path) -> Path:
        """Writes it to its own file there."""
        path = directory / f"{self.when.replace(':', '')}-{self.short_commit}.json"
        values = self._asdict() | {"results": [one._asdict() for one in self.results]}
        write_json(path, {"format": _FORMAT} | values)
        return path


def make_record() -> Record:
    """A record of this code, here and now, without results yet."""
    return Record(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", commit(), machine(), [])


def read_records(directory: Path) -> list[Record]:
    """The records of a directory, which need not exist, oldest first.

    Raises:
      ValueError: one is damaged or has another format; the message names it.
    """
    return sorted(map(_read, directory.glob("*.json")), key=lambda record: record.when)


def _read(path: Path) -> Record:
    values = read_json(path)
    if values.pop("format", None) != _FORMAT:
        raise ValueError(f"{path} is no record of benchmarks of format {_FORMAT}")
    try:
        results = [Result(**one) for one in values.pop("results")]
        return Record(results=results, **values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def machine() -> dict[str, Any]:
    """What the figures depend on besides the code; JAX, which would take the GPU, is not asked."""
    found: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": len(own_cores()),
        "memory_gib": round(memory.of_machine() / 2**30),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found |= accelerators.nvidia()
    return found | {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def _cpu() -> str:
    """The CPU model, as Linux reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
