"""The table of docs/MEASURED.md, made from the kept records.

    python -m experiments.benchmarks --records=experiments/results/benchmarks
    python -m experiments.benchmarks.measured

Each figure is the newest record on each machine; for growth, the slopes are shown. The rows below,
which no record covers, are kept by hand.
"""

import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app

from experiments.benchmarks.growth import PART
from experiments.benchmarks.growth_lines import growth_table, lines_of
from experiments.benchmarks.records import Record, read_records
from experiments.benchmarks.results import Result, table
from t2t_jax.cli.command import parse_flags

_REPOSITORY = Path(__file__).parents[2]
RECORDS = _REPOSITORY / "experiments" / "results" / "benchmarks"
DOCUMENT = _REPOSITORY / "docs" / "MEASURED.md"
_BEGIN = "<!-- made by `python -m experiments.benchmarks.measured` -->\n"
_END = "<!-- end -->\n"


def document(text: str, records: Sequence[Record]) -> str:
    """The document with its records replaced by these.

    Raises:
      ValueError: it does not mark where they go.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{DOCUMENT} has no lines {_BEGIN.strip()} and {_END.strip()}")
    tables = "".join(map(_table, _newest(records)))
    return before + begin + tables + end + after


def _newest(records: Sequence[Record]) -> list[Record]:
    """The records without results that a later one from the same machine replaces."""

    def key(record: Record, one: Result) -> tuple[object, ...]:
        machine = [record.machine.get(name) for name in ("cpu", "cores", "gpus")]
        if {"gpus", "libtpu"} & record.machine.keys():  # elsewhere it says nothing
            machine.append(record.machine.get("JAX_PLATFORMS"))
        # More rounds and more peers are no other work; in decode, peers set the length penalty.
        peers = " --against" if one.part == "decode" else ""
        command = re.sub(r" --rounds=\S+", "", re.sub(r" --against=\S+", peers, one.command))
        # Before there were two of ours, it went without saying whose.
        what = re.sub(r", other outputs than (.+)'s$", r", ours, other outputs than \1", one.what)
        return *machine, one.part, one.size, what, command

    newest = {key(record, one): record for record in records for one in record.results}
    left = [
        record._replace(
            results=[one for one in record.results if newest[key(record, one)] is record]
        )
        for record in records
    ]
    return [record for record in left if record.results]


def _table(record: Record) -> str:
    machine = dict(record.machine)
    hardware = "{}, {} cores, {} GiB".format(
        *(machine.pop(name) for name in ("cpu", "cores", "memory_gib"))
    )
    versions = ", ".join(f"{name} {value}" for name, value in machine.items())
    head = f"{record.when[:10]}, commit {record.short_commit}: {hardware}; {versions}."
    others = [one for one in record.results if one.part != PART]
    tables = [table(others) if others else "", growth_table(lines_of(record.results))]
    return "\n".join(["", head, *(f"\n{each}\n" for each in tables if each), ""])


def main(_: list[str]) -> None:
    """Rewrites the document."""
    try:
        text = document(DOCUMENT.read_text("utf-8"), read_records(RECORDS))
    except ValueError as error:
        sys.exit(f"measured: {error}")
    DOCUMENT.write_text(text, "utf-8")
    print(f"written: {DOCUMENT}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "measured"))
