"""Rows x seeds of a table: prepares the runs, does the unfinished ones, prints the table.

    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W
    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W --rows='base,A.*'
    python -m experiments.sweep table3 --base=configs/base.py --dry_run --tokens_per_second=50000
    python -m experiments.sweep status W

Any key of the base config can be overridden: --base.training.steps=200. Each run has its directory
W/TABLE/ROW/seed-N with its log, its checkpoints and, when it is finished, its record.json. The same
command again continues what is not finished and repeats nothing; Ctrl-C stops it.

--launcher says where the runs go, and changes nothing else:

    local    some at a time, each with its share of this machine's cores or GPUs
    ray      --resources='{"GPU": 1}'              W is a directory that all nodes share
    slurm    --slurm=partition=gpu,time=600,...    W is a directory that all nodes share
    tpu_vm   --tpu=project=P,zone=Z,type=v5litepod-8,bucket=gs://B/D    a slice for each run
"""

import contextlib
import functools
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from experiments import dry_run, report, runs, samples, tables
from experiments.ablation import Table
from experiments.launchers import options
from t2t_jax.cli.command import parse_flags

# The second is how SLURM warns a job, where that is asked for.
_STOPS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def define_flags() -> None:
    """The command's flags; not at import, since run has flags of the same names."""
    config_flags.DEFINE_config_file("base", None, "the base config, a file of configs/")
    flags.DEFINE_string("rows", "*", "names of rows, or patterns such as 'base,A.*'")
    flags.DEFINE_integer("seeds", 1, "runs per row; seeds count up from the base config's")
    flags.DEFINE_string("workdir", None, "where the runs and the tables go")
    flags.DEFINE_integer("retries", 0, "how often a run that failed is tried again")
    flags.DEFINE_integer("samples", 0, "translations of the first row to show at the end")
    flags.DEFINE_bool("dry_run", False, "only print rows, tokens and hours; needs no data")
    flags.DEFINE_float(
        "tokens_per_second", None, "dry_run: target tokens a second of the base row, for the hours"
    )
    flags.DEFINE_float("tflops", None, "dry_run: sustained 10^12 operations/s, for the hours")
    flags.DEFINE_bool("once", False, "status: print once, also on a terminal")
    options.define_flags()
    flags.adopt_module_key_flags(options)


def main(argv: list[str]) -> None:
    """Reads the flags, sweeps, prints the table; exit code 1 if a run failed."""
    values = flags.FLAGS
    try:
        if argv[1:2] == ["status"]:
            _show_status(argv[2:], values.once)
            return
        num_failed = _run_table(argv[1:], values)
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"sweep: {error.args[0]}")
    except OSError as error:
        sys.exit(f"sweep: {error}")
    sys.exit(1 if num_failed else 0)


def _show_status(arguments: list[str], once: bool) -> None:
    if len(arguments) != 1:
        raise ValueError("status needs one argument, the workdir of a sweep")
    from experiments import status

    status.show(Path(arguments[0]), once=once)


def _run_table(arguments: list[str], values: Any) -> int:
    if len(arguments) != 1:
        names = ", ".join(tables.TABLES)
        raise ValueError(f"one argument is needed, a table: {names}; or status W; see --help")
    table = tables.find_table(arguments[0])
    if values.base is None:
        raise ValueError("--base is needed, for example --base=configs/tiny.py")
    workdir = None if values.workdir is None else Path(values.workdir).expanduser()
    if values.dry_run:
        options.check(values)
        basis = {"tokens_per_second": values.tokens_per_second, "tflops": values.tflops}
        print_dry_run(table, values.base, values.rows, values.seeds, workdir, **basis)
        return 0
    if workdir is None:
        raise ValueError("--workdir is needed; --dry_run needs none")
    for name in ("tokens_per_second", "tflops"):
        if values[name].value is not None:
            raise ValueError(f"--{name} is for the hours of a --dry_run")
    for name in ("retries", "samples"):
        if values[name].value < 0:
            raise ValueError(f"--{name}={values[name].value}; it must not be negative")
    if values.samples and values.base.data.task != "translation":
        raise ValueError("--samples are translations; this base does not translate")
    return run_table(
        table,
        values.base,
        workdir,
        patterns=values.rows,
        num_seeds=values.seeds,
        num_retries=values.retries,
        num_samples=values.samples,
        launcher=options.chosen(values),
    )


def print_dry_run(
    table: Table,
    base: ConfigDict,
    patterns: str,
    num_seeds: int,
    workdir: Path | None,
    **rates: float | None,
) -> None:
    """Prints what the sweep would be; see `dry_run.basis` for the rates.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met, in words.
    """
    _use_no_accelerator()
    rows = table.rows(base).select(patterns)
    basis = dry_run.basis(base, workdir=workdir, **rates)
    print(dry_run.text(table, rows, base, num_seeds, basis))


def run_table(
    table: Table,
    base: ConfigDict,
    workdir: Path,
    *,
    patterns: str = "*",
    num_seeds: int = 1,
    num_retries: int = 0,
    num_samples: int = 0,
    launcher: options.Chosen = options.LOCAL,
) -> int:
    """All that the command does; the number of failed runs.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met, in words; nothing was trained.
    """
    from t2t_jax.cli.prepare import prepare

    _use_no_accelerator()
    rows = table.rows(base).select(patterns)
    for name, reason in rows.left_out:
        print(f"left out: {name}: {reason}")
    directories = runs.prepare_runs(table, rows, base, num_seeds, workdir)
    if launcher.shares_files:
        # Once, before any run: they share what it makes, and a wrong corpus is told here.
        runs.check_same_data(directories, base, prepare(base).fingerprint)
    try:
        with _terminated_like_interrupted():
            num_failed = runs.do_runs(directories, launcher.launch, num_retries=num_retries)
    except KeyboardInterrupt:
        print("\nstopped; the same command continues what is not finished", file=sys.stderr)
        sys.exit(130)
    _print_report(table, workdir, directories, num_samples)
    return num_failed


def _print_report(
    table: Table, workdir: Path, directories: Sequence[Path], num_samples: int
) -> None:
    written = report.write_report(workdir)
    print()
    print(report.text(workdir / table.name, "markdown"))
    finished = list(filter(runs.is_finished, directories))
    if num_samples and finished:
        print(f"Translations of the test split by {runs.name(finished[0])}:\n")
        print(samples.sample_translations(finished[0], num_samples))
        print()
    print("written: " + "  ".join(str(path) for path in written))


def _use_no_accelerator() -> None:
    """The runs choose their device themselves; this process only counts and must not hold one."""
    import jax

    jax.config.update("jax_platforms", "cpu")


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM, SIGUSR1 and a closed terminal end the runs as Ctrl-C does: no orphans are left."""

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "sweep"))
