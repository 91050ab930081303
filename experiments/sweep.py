"""Rows x seeds of a table: prepares the runs, does the unfinished ones, prints the table.

    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W
    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W --seeds=2 --rows='A.*,E.*'
    python -m experiments.sweep table3 --base=configs/base.py --dry_run

Tables: table3, quickstart. Any key of the base config can be overridden:
--base.training.steps=200. Each run has its directory W/TABLE/ROW/seed-N with its log, its
checkpoints and, when it is finished, its record.json. The same command again continues what is
not finished and repeats nothing; Ctrl-C stops it.
"""

import contextlib
import functools
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from experiments import record, report, tables
from experiments.ablation import (
    AnyConfig,
    Rows,
    Table,
    as_dict,
    changes_text,
    check_config,
    num_params,
)
from experiments.launchers import local
from t2t_jax.cli.command import parse_flags

Launch = Callable[[Sequence[Path], int], Generator[local.Event, None, None]]


def prepare_runs(
    table: Table, rows: Rows, base: ConfigDict, num_seeds: int, workdir: Path
) -> list[Path]:
    """Writes run.json for every row and seed; the directories, seeds outermost.

    The seeds are the base config's and those that follow it. Seeds come outermost so that an
    interrupted sweep has a whole table of one seed before it starts the second.

    Raises:
      ValueError: a value no section allows, or a directory with another config in it. Nothing
        is written then.
    """
    if num_seeds < 1:
        raise ValueError(f"seeds={num_seeds}; at least 1 is needed")
    for row in rows.rows:
        check_config(row.config(base), f"row {row.name}")
    first_seed = as_dict(base)["seed"]
    seeds = range(first_seed, first_seed + num_seeds)
    runs = [record.make_run(table, row, base, seed) for seed in seeds for row in rows.rows]
    for run in runs:
        record.check_same_run(workdir / run.directory, run)
    for run in runs:
        record.write_run(workdir / run.directory, run)
    return [workdir / run.directory for run in runs]


def sweep(
    directories: Sequence[Path],
    parallel: int,
    launch: Launch = local.launch,
    log: Callable[[str], None] = print,
) -> int:
    """Does the prepared runs that have no record yet, a line per event; the number that failed."""
    unfinished = [path for path in directories if not (path / record.RECORD_FILE).exists()]
    log(f"{len(directories)} runs, {len(directories) - len(unfinished)} of them finished before")
    start = time.monotonic()
    num_failed = num_done = 0
    with contextlib.closing(launch(unfinished, parallel)) as events:
        for event in events:
            if event.kind == "started":
                log(f"        {_name(event.directory)} started, log: {_log(event.directory)}")
                continue
            num_done += 1
            num_failed += event.kind == "failed"
            log(f"{num_done:>3}/{len(unfinished):<3} {_outcome(event)}")
            num_left = len(unfinished) - num_done
            if num_left:
                seconds_left = (time.monotonic() - start) / num_done * num_left
                log(f"        {num_left} to go, about {_duration(seconds_left)}")
    return num_failed


def _outcome(event: local.Event) -> str:
    name = _name(event.directory)
    if event.kind == "failed":
        return f"{name} FAILED: {event.reason}; log: {_log(event.directory)}"
    values = record.read_json(event.directory / record.RECORD_FILE)
    return f"{name} finished in {_duration(event.seconds)}: {record.score_text(values)}"


def _name(directory: Path) -> str:
    return f"{directory.parent.name} {directory.name}"


def _log(directory: Path) -> Path:
    return directory / record.LOG_FILE


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def dry_run_text(table: Table, rows: Rows, base: ConfigDict) -> str:
    """The rows, what each changes, its parameters, and the rows left out with the reasons."""
    has_paper_base = table.has_paper_base(base)
    width = max(len(row.name) for row in rows.rows)
    paper_header = f" {'paper':>7}" if has_paper_base else ""
    lines = [table.title, "", f"{'row':<{width}} {'10^6':>8}{paper_header}  changes"]
    for row in rows.rows:
        check_config(row.config(_with_some_directory(base)), f"row {row.name}")
        params = num_params(row.config(base)) / 1e6
        paper = ""
        if has_paper_base:
            stated = row.paper and row.paper.params
            paper = f" {stated if stated else '':>7}"
        note = f"  ({row.note})" if row.note else ""
        text = changes_text(row.changes)
        lines.append(f"{row.name:<{width}} {params:>8.2f}{paper}  {text}{note}".rstrip())
    if rows.left_out:
        lines += ["", "Left out at this base:"]
        lines += [f"  {name}: {reason}" for name, reason in rows.left_out]
    return "\n".join(lines)


def _with_some_directory(base: ConfigDict) -> ConfigDict:
    """The base as if it had data: a dry run is about the rows alone."""
    filled: AnyConfig = base.copy_and_resolve_references()
    filled.data.directory = filled.data.directory or "."
    return filled


def sample_translations(directory: Path, num_samples: int) -> str:
    """Source, translation and reference of the first test sentences of a finished run."""
    from t2t_jax.data.config import DataConfig
    from t2t_jax.data.corpus import read_pairs

    config = DataConfig(**record.read_run(directory).config["data"])
    path = directory / "translations" / "test.txt"
    with open(path, encoding="utf-8") as translations:
        triples = zip(read_pairs(config, "test"), translations, range(num_samples), strict=False)
        blocks = [
            f"  source       {source}\n"
            f"  translation  {translation.rstrip()}\n"
            f"  reference    {target}"
            for (source, target), translation, _ in triples
        ]
    return "\n\n".join(blocks)


def define_flags() -> None:
    """The command's flags; not at import, since run has flags of the same names."""
    config_flags.DEFINE_config_file("base", None, "the base config, a file of configs/")
    flags.DEFINE_string("rows", "*", "names of rows, or patterns such as 'base,A.*'")
    flags.DEFINE_integer("seeds", 1, "runs per row; seeds count up from the base config's")
    flags.DEFINE_string("workdir", None, "where the runs and the tables go")
    flags.DEFINE_integer(
        "parallel",
        None,
        "runs at a time (default: 1 on an accelerator, else one for every two cores)",
    )
    flags.DEFINE_integer("samples", 0, "translations of the first row to show at the end")
    flags.DEFINE_bool("dry_run", False, "only print the rows; needs no data")


def main(argv: list[str]) -> None:
    """Reads the flags, sweeps, prints the table; exit code 1 if a run failed."""
    logging.set_verbosity(logging.WARNING)  # the libraries tell a lot
    if len(argv) != 2:
        sys.exit(f"sweep: one argument is needed, a table: {', '.join(tables.TABLES)}; see --help")
    values = flags.FLAGS
    try:
        if values.base is None:
            raise ValueError("--base is needed, for example --base=configs/tiny.py")
        num_failed = run_table(
            tables.find_table(argv[1]),
            values.base,
            patterns=values.rows,
            num_seeds=values.seeds,
            workdir=values.workdir,
            parallel=values.parallel,
            num_samples=values.samples,
            is_dry_run=values.dry_run,
        )
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"sweep: {error.args[0]}")
    except OSError as error:
        sys.exit(f"sweep: {error}")
    sys.exit(1 if num_failed else 0)


def run_table(
    table: Table,
    base: ConfigDict,
    *,
    patterns: str = "*",
    num_seeds: int = 1,
    workdir: str | None = None,
    parallel: int | None = None,
    num_samples: int = 0,
    is_dry_run: bool = False,
    launch: Launch = local.launch,
) -> int:
    """All that the command does; the number of failed runs.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met, in words; nothing was trained.
    """
    # The runs choose their device themselves; this process only counts and must not hold one.
    import jax

    from t2t_jax.cli.prepare import prepare

    jax.config.update("jax_platforms", "cpu")

    rows = table.rows(base).select(patterns)
    if is_dry_run:
        print(dry_run_text(table, rows, base))
        return 0
    if workdir is None:
        raise ValueError("--workdir is needed; --dry_run needs none")
    for name, reason in rows.left_out:
        print(f"left out: {name}: {reason}")

    directories = prepare_runs(table, rows, base, num_seeds, Path(workdir))
    # Once, before any run: they share what it makes, and a wrong corpus is told here.
    prepare(base)
    num_parallel = local.default_parallel() if parallel is None else parallel
    try:
        with _terminated_like_interrupted():
            num_failed = sweep(directories, num_parallel, launch)
    except KeyboardInterrupt:
        print("\nstopped; the same command continues what is not finished", file=sys.stderr)
        sys.exit(130)

    written = report.write_report(Path(workdir))
    print()
    print(report.text(Path(workdir) / table.name, "markdown"))
    finished = [path for path in directories if (path / record.RECORD_FILE).exists()]
    if num_samples and finished:
        print(f"Translations of the test split by {_name(finished[0])}:\n")
        print(sample_translations(finished[0], num_samples))
        print()
    print("written: " + "  ".join(str(path) for path in written))
    return num_failed


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends the runs as Ctrl-C does, so that a stopped job leaves no orphans."""

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "sweep"))
