"""What the command `python -m experiments.sweep` does with a table."""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from experiments.launchers import options
from experiments.launchers.local import Share
from experiments.sweep import dry_run, prepared_runs, smallest_difference
from experiments.tables.ablation import Rows, Table, as_dict
from experiments.tables.equal import Equal
from experiments.tables.tuning import Space, runs_of_a_row

# SLURM sends SIGUSR1 as a warning, if asked to.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


def print_dry_run(
    table: Table,
    base: ConfigDict,
    patterns: str,
    num_seeds: int,
    workdir: Path | None,
    *,
    equal: Equal = "steps",
    noise: float | None = None,
    space: Space | None = None,
    **rates: float | None,
) -> None:
    """Prints what the sweep would do, and which differences it would detect.

    Args:
      equal: see `equal_rows.equal_rows`.
      noise: see `smallest_difference.text`.
      space: what is tuned, if anything.
      rates: see `dry_run.basis`.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met; the message says why.
    """
    _use_no_accelerator()
    rows = table.rows(base).select(patterns)
    directory = None if workdir is None else workdir / table.name
    rows = _equal_rows(rows, base, equal, directory)
    basis = dry_run.basis(base, workdir=workdir, **rates)
    print(dry_run.text(table, rows, base, num_seeds, basis, space))
    num_rows = sum(row.name != "base" for row in rows.rows)
    print(f"\n{smallest_difference.text(base, num_rows, num_seeds, bleu=noise, workdir=workdir)}")


def print_plan(table: Table, base: ConfigDict, num_seeds: int, values: Any) -> None:
    """Prints what the sweep takes on hardware that is not here; `values` are the flags.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met; the message says why.
    """
    from experiments.sweep import planned

    _use_no_accelerator()
    log = functools.partial(print, file=sys.stderr, flush=True)
    print(planned.text(table, base, num_seeds, values, log))


def run_table(
    table: Table,
    base: ConfigDict,
    workdir: Path,
    *,
    patterns: str = "*",
    num_seeds: int = 1,
    equal: Equal = "steps",
    num_retries: int = 0,
    num_samples: int = 0,
    has_pages: bool = False,
    space: Space | None = None,
    launcher: options.Chosen = options.LOCAL,
) -> int:
    """Executes the unfinished runs and prints the report; returns the number of failed runs.

    Raises:
      KeyError, TypeError, ValueError: the request cannot be met; nothing was trained.
    """
    from t2t_jax.runs.prepare import prepare
    from t2t_jax.runs.sections import read_sections

    _use_no_accelerator()
    # For runs on this machine, whose files do not decide where compiled programs are kept.
    os.environ.setdefault("T2T_JAX_CACHE", as_dict(base)["data"]["cache"])
    rows = table.rows(base).select(patterns)
    for name, reason in rows.left_out:
        print(f"left out: {name}: {reason}")
    place = workdir / table.name
    share = None
    if equal == "seconds" and launcher.share is not None:
        share = launcher.share(len(rows.rows) * runs_of_a_row(num_seeds, space))
    rows = _equal_rows(rows, base, equal, place, share)
    directories = prepared_runs.prepare(table, rows, base, num_seeds, workdir, equal, space)
    if launcher.shares_files:
        # Once, before any run: the runs share the result, and a wrong corpus fails here.
        fingerprint = prepare(read_sections(base)).fingerprint
        prepared_runs.check_same_data(directories, base, fingerprint)
    try:
        with _told_when_it_stops() as stopping:
            num_failed = prepared_runs.do_unfinished(
                directories, launcher.launch, num_retries, stopping
            )
    except KeyboardInterrupt:
        print("\nstopped; the same command continues what is not finished", file=sys.stderr)
        sys.exit(130)
    _print_report(table, workdir, num_samples, has_pages)
    return num_failed


def _print_report(table: Table, workdir: Path, num_samples: int, has_pages: bool) -> None:
    from experiments.report import report  # a dry run has nothing to report

    if has_pages:
        from experiments.report.pages import write_pages

        found = report.read(workdir / table.name, num_samples or None)
        write_pages(found, lambda line: print(line, file=sys.stderr))
    written = report.write_report(workdir, num_samples or None)
    print()
    print(report.text(workdir / table.name, "markdown", num_samples))
    print("written: " + "  ".join(str(path) for path in written))


def _equal_rows(
    rows: Rows, base: ConfigDict, equal: Equal, directory: Path | None, share: Share | None = None
) -> Rows:
    if equal == "steps":
        return rows
    from experiments.sweep.equal_rows import equal_rows  # loads what makes batches: takes time

    return equal_rows(rows, base, equal, directory, share)


def _use_no_accelerator() -> None:
    """The runs choose their own devices; this process only counts and must not hold one."""
    import jax

    jax.config.update("jax_platforms", "cpu")


@contextlib.contextmanager
def _told_when_it_stops() -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C sets before it ends the runs.

    SIGTERM, SIGUSR1 and a closed terminal do the same, to leave no orphans. While the runs end,
    only another Ctrl-C counts: a terminal may say twice that it is closed.
    """
    stopping = threading.Event()

    def interrupt(signum, frame):
        if stopping.is_set() and signum != signal.SIGINT:
            return
        stopping.set()
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupt)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
