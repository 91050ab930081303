"""One row, one seed: trains, scores, and writes one JSON record.

For launchers, with a directory prepared by experiments.sweep:

    python -m experiments.run RUN_DIRECTORY

For people; it prepares W/table3/A.h=1/seed-0 itself:

    python -m experiments.run table3 --row=A.h=1 --base=configs/tiny.py --seed=0 --workdir=W

Any key of the base config can be overridden: --base.training.steps=200. Run the same command again
to resume; once there is a record.json, it does nothing.
"""

import contextlib
import functools
import os
import sys
import traceback
from pathlib import Path

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from experiments.run import presence, record
from experiments.run.outcomes import divergence_of
from experiments.run.plain_text import plain_text
from experiments.run.run import run
from experiments.tables.ablation import AnyConfig, check_row
from experiments.tables.registry import find_table
from t2t_jax.buckets import directory_of
from t2t_jax.cli.command import parse_flags
from t2t_jax.cli.given_config import given_config
from t2t_jax.locks import IsTakenError


def define_flags() -> None:
    """The command's flags; not at import, since sweep has flags of the same names."""
    flags.DEFINE_string("row", None, "the row's name; sweep TABLE --dry_run lists them")
    config_flags.DEFINE_config_file("base", None, "the base config, a file of configs/")
    flags.DEFINE_integer("seed", None, "the run's seed (default: the base config's)")
    flags.DEFINE_string("workdir", None, "where TABLE/ROW/seed-N goes: a directory, or gs://B/D")


def _prepared_directory(table_name: str) -> Path:
    values = flags.FLAGS
    table = find_table(table_name)
    for flag in ("row", "base", "workdir"):
        if not values[flag].present:
            raise ValueError(f"with the name of a table, --{flag} is needed")

    def of_row(base: ConfigDict) -> list[ConfigDict]:
        return [table.rows(base).named(values.row).config(base)]

    base: AnyConfig = given_config("base", lambda line: print(line, file=sys.stderr), of_row)
    row = table.rows(base).named(values.row)
    check_row(row, base)
    seed = base.seed if values.seed is None else values.seed
    this_run = record.make_run(table, row, base, seed)
    directory = directory_of(f"{values.workdir.rstrip('/')}/{this_run.directory}")
    record.write_run(directory, this_run)
    return directory


def main(argv: list[str]) -> None:
    """Reads the flags and runs."""
    if len(argv) != 2:
        sys.exit("run: one argument is needed, a run directory or a table; see --help")
    try:
        directory = directory_of(argv[1], "RUN_DIRECTORY")
        if not (directory / record.RUN_FILE).exists():
            if "/" in argv[1]:
                raise ValueError(f"{argv[1]} holds no run.json, which a sweep writes")
            directory = _prepared_directory(argv[1])
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"run: {plain_text(error.args[0])}")
    except OSError as error:
        sys.exit(f"run: {plain_text(error)}")

    from t2t_jax import buckets, hosts
    from t2t_jax.runs.kept_programs import keep_programs
    from t2t_jax.training.loop import Stopped

    try:
        hosts.join()
        keep_programs()
        present = presence.present(directory) if hosts.is_first() else contextlib.nullcontext()
        with buckets.kept_up(hosts.is_first), present:
            values = run(directory)
    except Stopped as stop:
        print(f"run: {stop}", file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:  # a second Ctrl-C: no thread is waited for
        print("run: stopped without saving", file=sys.stderr, flush=True)
        os._exit(130)
    except IsTakenError as error:
        hosts.leave(f"run: {error}", error, presence.IS_TAKEN)
        print(f"run: {error}", file=sys.stderr)
        sys.exit(presence.IS_TAKEN)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        traceback.print_exc()  # for the run's log; the last line gives the reason
        sentence = f"run: {buckets.told(plain_text(error))}"
        hosts.leave(sentence, error)
        sys.exit(sentence)
    if hosts.is_first():
        what = divergence_of(values) or record.score_text(values)
        print(f"{buckets.name_of(directory)}/{record.RECORD_FILE}: {plain_text(what)}")


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "run"))
