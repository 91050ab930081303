"""Speed on this machine: a suite of parts, a table, and a record of the run.

    python -m experiments.benchmarks
    python -m experiments.benchmarks --parts=step,train --sizes=small --against=torch
    python -m experiments.benchmarks --parts=decode --workdir=W --against=ctranslate2
    python -m experiments.benchmarks --parts=growth --points=length,depth

    step      the training step alone, on full batches, beside one written by hand
    train     training with the real feed: rate, seconds to the first step, memory
    decode    greedy and with a beam of 4: a test split, and sentences one at a time
    prepare   text to token ids
    startup   time until a command has done a little
    growth    how cost grows with length, vocabulary, depth, devices, sentences: only on request

Compared programs take turns in one run. The roof is the time of the matrix products alone, measured
in the same run. Without --workdir, a `tiny` is trained for decode and startup, and kept.
`python -m experiments.benchmarks.measured` makes the table of docs/MEASURED.md from kept records,
`python -m experiments.benchmarks.growth_figure` the figure of how cost grows.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from absl import app, flags

from experiments.benchmarks import growth
from experiments.benchmarks.peers.translators import PEERS
from experiments.benchmarks.results import Measured, Result, table
from experiments.benchmarks.sizes import SIZES
from experiments.launchers.process import FASTER_ALLOCATION
from t2t_jax.cli.command import parse_flags

_PREPARED_PAIRS = 20_000
# The trainings of a part are separate processes, which need GPU memory too.
_ENVIRONMENT = {**FASTER_ALLOCATION, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class Options(NamedTuple):
    """The values of the flags of these names, for one part."""

    size: str = ""
    point: str = ""
    against: Sequence[str] = ()
    workdir: str = ""
    directory: str = ""
    lines: int = 0
    rounds: int = 5


class Part(NamedTuple):
    """Something measured on its own."""

    measure: Callable[[Options], Iterable[Measured]]
    reads: tuple[str, ...] = ()  # its options
    against: Sequence[str] = ()  # libraries it can take turns with
    of: str = "tiny"  # what it measures, if it has no size
    unasked: bool = True  # whether it is measured if no parts are named


def _step(options: Options) -> Sequence[Measured]:
    from experiments.benchmarks import plain_step

    return plain_step.measure(SIZES[options.size], options.rounds, bool(options.against))


def _train(options: Options) -> Sequence[Measured]:
    from experiments.benchmarks import training

    return training.measure(SIZES[options.size], options.directory)


def _decode(options: Options) -> Iterator[Measured]:
    from experiments.benchmarks import decoding

    workdir = decoding.trained_or_kept(options.workdir)
    return decoding.measure_run(workdir, options.lines, options.rounds, options.against)


def _prepare(_: Options) -> Sequence[Measured]:
    from experiments.benchmarks import prepare_speed

    with tempfile.TemporaryDirectory() as name:
        prepare_speed.write_corpus(Path(name), _PREPARED_PAIRS)
        found = prepare_speed.measure_twice(Path(name))
    return [
        Measured("all of it", "pairs/s", [found["pairs_per_second"]]),
        Measured("tokenised", "pairs/s", [found["pairs_per_second_tokenised"]]),
        Measured("a second time", "s", [found["seconds"]["second prepare"]]),
        Measured("peak memory", "MiB", [found["peak_memory_mib"]]),
    ]


def _startup(options: Options) -> Sequence[Measured]:
    from experiments.benchmarks import decoding, startup

    return startup.measure(decoding.trained_or_kept(options.workdir), options.rounds)


def _growth(options: Options) -> Sequence[Measured]:
    return growth.measure(options.point, options.rounds)


PARTS: Mapping[str, Part] = {
    "step": Part(_step, ("size", "against", "rounds"), ("torch",)),
    "train": Part(_train, ("size", "directory")),
    "decode": Part(_decode, ("against", "workdir", "lines", "rounds"), tuple(PEERS)),
    "prepare": Part(_prepare, of=f"{_PREPARED_PAIRS:,} pairs"),
    "startup": Part(_startup, ("workdir", "rounds")),
    growth.PART: Part(_growth, ("point", "rounds"), unasked=False),
}
# Options with several values, measured one after another -> their flags.
_EACH_OF = {"size": "sizes", "point": "points"}
# Placeholders for paths, which differ between machines.
_PLACES = {"workdir": "W", "directory": "DIR"}


def results(
    parts: Mapping[str, Part],
    each_of: Mapping[str, Sequence[str]],
    peers: Sequence[str],
    options: Options,
) -> Iterator[Result]:
    """The results of each part, and of each of its sizes or points if it has any, as they come."""
    for name, part in parts.items():
        several = next((option for option in each_of if option in part.reads), "")
        for one in each_of.get(several, [""]):
            own = options._replace(against=[peer for peer in part.against if peer in peers])
            own = own._replace(**{several: one}) if several else own
            given = {each: getattr(own, each) for each in part.reads}
            words = [f"python -m experiments.benchmarks --parts={name}"]
            for option, value in given.items():
                flag = _EACH_OF.get(option, option)
                if value and value != Options._field_defaults[option]:
                    words.append(f"--{flag}={_PLACES.get(option, _text(value))}")
            print(f"benchmarks: {' '.join(words)}", file=sys.stderr, flush=True)
            of = one or _name(Path(given.get("workdir") or part.of))
            for each in part.measure(own):
                yield each.result(name, of, " ".join(words))


def _name(path: Path) -> str:
    """What tells a run from others: every row of every table has a seed-0."""
    return "/".join(path.parts[-3:]) if path.name.startswith("seed-") else path.name


def _text(value: str | int | Sequence[str]) -> str:
    return str(value) if isinstance(value, str | int) else ",".join(value)


def main(_: list[str]) -> None:
    """Measures, writes the record as it grows, and prints a table."""
    given = flags.FLAGS
    for peer in given.against:
        if importlib.util.find_spec(peer) is None:
            advice = "pip install -c constraints.txt -e '.[parity]'"
            sys.exit(f"benchmarks: {peer} is not installed: {advice}")
    if any(name not in os.environ for name in _ENVIRONMENT):
        command = [sys.executable, "-m", "experiments.benchmarks", *sys.argv[1:]]
        os.execve(sys.executable, command, {**_ENVIRONMENT, **os.environ})
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)  # otherwise no start would be cold
    from experiments.benchmarks.records import make_record
    from t2t_jax.runs.kept_programs import keep_programs

    keep_programs()
    parts = {name: part for name, part in PARTS.items() if name in given.parts}
    comparing = {peer for part in parts.values() for peer in part.against}
    if unused := set(given.against) - comparing:
        here = ",".join(parts)
        sys.exit(f"benchmarks: --against={min(unused)} changes nothing in --parts={here}")
    for option in [each for each in Options._fields if each != "against"]:
        flag = _EACH_OF.get(option, option)
        if given[flag].present and not any(option in part.reads for part in parts.values()):
            sys.exit(f"benchmarks: --{flag} changes nothing in --parts={','.join(parts)}")
        if flag in _EACH_OF.values() and not given[flag].value:
            sys.exit(f"benchmarks: --{flag} is empty")
    options = Options(
        workdir=given.workdir, directory=given.directory, lines=given.lines, rounds=given.rounds
    )
    each_of = {"size": given.sizes, "point": growth.chosen(given.points)}
    record, path = make_record(), None
    try:
        for found in results(parts, each_of, given.against, options):
            record.results.append(found)
            path = record.write(Path(given.records))
    except (OSError, ValueError) as error:
        sys.exit(f"benchmarks: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # its output says why
    print(table(record.results))
    print(f"written: {path}", file=sys.stderr)


def _define_choices(name: str, chosen: Sequence[str], choices: Sequence[str], what: str) -> None:
    flags.DEFINE_list(name, list(chosen), f"{what}: {', '.join(choices)}")
    flags.register_validator(
        name, lambda values: set(values) <= set(choices), f"choose from {', '.join(choices)}"
    )


if __name__ == "__main__":
    peers = [peer for part in PARTS.values() for peer in part.against]
    unasked = [name for name, part in PARTS.items() if part.unasked]
    _define_choices("parts", unasked, [*PARTS], "what to measure")
    _define_choices("sizes", [*SIZES], [*SIZES], "sizes for step and train")
    axes = [*growth.AXES]
    _define_choices("points", axes, axes + growth.POINTS, "growth: axes, or points of them")
    _define_choices("against", [], peers, "libraries to compare with ours")
    flags.DEFINE_string("workdir", "", "directory of a finished run, for decode and startup")
    flags.DEFINE_string("directory", "", "text files, as for t2t-jax train; default: the grammar's")
    flags.DEFINE_integer("lines", 0, "decode: how many lines of test; 0: all", lower_bound=0)
    flags.DEFINE_integer("rounds", Options().rounds, "how often they take turns", lower_bound=1)
    flags.DEFINE_string("records", "runs/benchmarks", "directory for the record")
    app.run(main, flags_parser=partial(parse_flags, "benchmarks"))
