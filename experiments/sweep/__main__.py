r"""Rows x seeds of a table: prepares the runs, executes the unfinished ones, prints the table.

    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W
    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W --rows='base,A.*'
    python -m experiments.sweep table3 --base=configs/base.py --dry_run --tokens_per_second=50000
    python -m experiments.sweep table3 --base=configs/base.py --plan=v5e-8 --one_row_per_chip
    python -m experiments.sweep table3 --base=configs/tiny.py --workdir=W \
        --tune='training.peak_learning_rate=log(2e-4,8e-3)' --trials=5
    python -m experiments.sweep status W
    python -m experiments.sweep score W --source=test2017.en --reference=test2017.de --name=test2017

Any key of the base config can be overridden: --base.training.steps=200. Each run has a directory
W/TABLE/ROW/seed-N with its log, its checkpoints and, once finished, its record.json. Run the same
command again to finish the rest; nothing is repeated, and Ctrl-C stops it. On a terminal a bar
shows the whole sweep; the time left covers start-up, training and scoring of all remaining runs.
With --tune, every row is also trained at the same values of a key, in W/TABLE/ROW/trial-N, scored
by dev perplexity alone, and then again at its best one, in tuned-seed-N. "status" prints the state
of each run, and the totals. "score" scores every finished run below W, but no trials, on another
test set, one after another on this machine, and adds a column to the report.

--plan prints what the table takes on hardware you do not have, compiled by its own compiler.

--equal=tokens, flops or seconds trains each row for as many updates as match base's total.

--launcher says where the runs go, and changes nothing else:

    local    some at a time, each with a share of this machine's cores or GPUs, such as
             --parallel=4, or --runs_per_gpu=2 if one run does not fill a GPU
    ray      --resources='{"GPU": 1}'              W is a directory shared by all nodes
    slurm    --slurm=partition=gpu,time=600,...    W is a directory shared by all nodes
    tpu_vm   --tpu=project=P,zone=Z,type=v5litepod-8,bucket=gs://B/D    one slice per run
"""

import contextlib
import functools
import gc
import sys
from collections.abc import Iterator
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from experiments.launchers import options
from experiments.run.plain_text import plain_text
from experiments.tables import tuning
from experiments.tables.ablation import AnyConfig, Table
from experiments.tables.equal import EQUALS
from experiments.tables.registry import find_table, names_text
from t2t_jax.buckets import local_path
from t2t_jax.cli import plan as plan_flags
from t2t_jax.cli.command import may_be_cut_off, parse_flags
from t2t_jax.cli.given_config import given_config

_MOST_RUNS_OF_A_ROW = 10_000


def define_flags() -> None:
    """The command's flags; not at import, since run has flags of the same names."""
    config_flags.DEFINE_config_file("base", None, "the base config, a file of configs/")
    flags.DEFINE_string("rows", "*", "names of rows, or patterns such as 'base,A.*'")
    flags.DEFINE_integer(
        "seeds",
        1,
        "runs per row; seeds count up from the base config's",
        upper_bound=_MOST_RUNS_OF_A_ROW,
    )
    flags.DEFINE_enum(
        "equal",
        "steps",
        EQUALS,
        "the steps of each row: from its config (steps), or as many as match base in target "
        "tokens, operations of matrix products (flops) or seconds",
    )
    flags.DEFINE_multi_string(
        "tune",
        [],
        "train each row at the same --trials=N values of a key, then again at its best: "
        "KEY=log(LOW,HIGH), KEY=lin(LOW,HIGH) or KEY=[A,B,C]; once per key",
    )
    flags.DEFINE_integer(
        "trials",
        None,
        "tune: trials per row, besides the runs of its seeds",
        upper_bound=_MOST_RUNS_OF_A_ROW,
    )
    flags.DEFINE_string("workdir", None, "where the runs and the tables go")
    flags.DEFINE_integer("retries", 0, "how often to retry a failed run")
    flags.DEFINE_integer(
        "samples",
        0,
        "test sentences to show with each row's translations, whatever the corpus",
    )
    flags.DEFINE_bool("pages", False, "make a page for each row, showing its model at work")
    flags.DEFINE_bool(
        "dry_run",
        False,
        "only print rows, tokens and hours; needs no data, unless --equal must count it",
    )
    flags.DEFINE_float(
        "tokens_per_second", None, "dry_run: the base row's target tokens/s, for the hours"
    )
    flags.DEFINE_float("tflops", None, "dry_run: sustained 10^12 operations/s, for the hours")
    flags.DEFINE_float(
        "noise",
        None,
        "dry_run: standard deviation of BLEU between the seeds of a row, without what all rows "
        "share at a seed, for the smallest detectable difference; default: that of kept runs",
    )
    flags.DEFINE_string(
        "plan",
        None,
        "only print whether each row fits, hours and dollars on this hardware: v5e-8,v4-8,...",
    )
    flags.DEFINE_bool("one_row_per_chip", False, "plan: each run gets a single chip")
    plan_flags.define_plan_flags()
    flags.DEFINE_bool("once", False, "status: print once, even on a terminal")
    flags.DEFINE_string("source", None, "score: a file of sentences to translate")
    flags.DEFINE_string("reference", None, "score: the file of their translations, line by line")
    flags.DEFINE_string("name", None, "score: name of the test set; default: --source, no ending")
    options.define_flags()
    flags.adopt_module_key_flags(options)
    flags.adopt_module_key_flags(plan_flags)


def main(argv: list[str]) -> None:
    """Reads the flags, sweeps, prints the table; exit code 1 if a run failed."""
    values = flags.FLAGS
    try:
        with may_be_cut_off(), _keeping_garbage() if values.dry_run else contextlib.nullcontext():
            _check_verb(argv[1] if len(argv) > 1 else "", values)
            if argv[1:2] == ["status"]:
                _show_status(argv[2:], values.once)
                return
            is_score = argv[1:2] == ["score"]
            num_failed = (_score if is_score else _run_table)(argv[1 + is_score :], values)
    except (KeyError, TypeError, ValueError) as error:
        sentence = error if isinstance(error, UnicodeError) else error.args[0]
        sys.exit(f"sweep: {plain_text(sentence)}")
    except OSError as error:
        sys.exit(f"sweep: {plain_text(error)}")
    except KeyboardInterrupt:
        print("\nsweep: stopped; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
    sys.exit(1 if num_failed else 0)


_OF_VERBS = {"status": {"once"}, "score": {"source", "reference", "name"}}


def _check_verb(verb: str, values: Any) -> None:
    """Raises ValueError for a flag of another verb."""
    modules = values.flags_by_module_dict()
    of_absl = {
        flag.name for name, its in modules.items() if name.startswith("absl") for flag in its
    }
    for flag in (name for name in values if values[name].present and name not in of_absl):
        of = [name for name, own in _OF_VERBS.items() if flag in own]
        if verb not in of and (of or verb in _OF_VERBS):
            raise ValueError(f"--{flag} is for {of[0] + ' W' if of else 'a table'}")


def _show_status(arguments: list[str], once: bool) -> None:
    if len(arguments) != 1:
        raise ValueError("status needs one argument, the workdir of a sweep")
    from experiments.sweep import status

    status.show(local_path(arguments[0], "W"), once=once)


def _score(arguments: list[str], values: Any) -> int:
    if len(arguments) != 1 or values.source is None or values.reference is None:
        raise ValueError("score needs the workdir of a sweep, --source and --reference")
    from experiments.sweep import later_scores

    source = local_path(values.source, "--source")
    reference = local_path(values.reference, "--reference")
    return later_scores.score(local_path(arguments[0], "W"), source, reference, values.name)


def _run_table(arguments: list[str], values: Any) -> int:
    from experiments.sweep.sweep import print_dry_run, run_table  # heavy: not needed by --help

    if len(arguments) != 1:
        raise ValueError(
            f"one argument is needed, status W, score W or a table; see --help: {names_text()}"
        )
    table = find_table(arguments[0])
    if not values["base"].present:
        raise ValueError("--base is needed, for example --base=configs/tiny.py")
    workdir = None if values.workdir is None else local_path(values.workdir, "--workdir")
    base: AnyConfig = given_config(
        "base",
        _say,
        lambda base: _configs(table, base, values.rows),
        is_for_here=values.launcher != "tpu_vm",  # its slices have their own disks
    )
    values["base"].value = base  # the launchers' options read it too
    if values.trials is not None and not values.tune:
        raise ValueError("--trials is for --tune")
    space = tuning.space(values.tune, values.trials, base) if values.tune else None
    if space is not None and values.equal != "steps":
        tuning.check_costs_nothing(space)
    if values.plan is None:
        for name in ("one_row_per_chip", "programs", "facts", "prices", "old_prices", "calibrate"):
            if values[name].present:
                raise ValueError(f"--{name} is for --plan")
    if values.dry_run and values.plan is not None:
        raise ValueError("--dry_run and --plan are two answers to one question: give one of them")
    if values.dry_run:
        options.check(values)
        basis = {"tokens_per_second": values.tokens_per_second, "tflops": values.tflops}
        basis |= {"equal": values.equal, "noise": values.noise, "space": space}
        print_dry_run(table, base, values.rows, values.seeds, workdir, **basis)
        return 0
    if values.plan is not None:
        for name in ("tune", "equal", "tokens_per_second", "tflops", "noise"):
            if values[name].present:
                raise ValueError(f"--{name} changes nothing in a --plan, which has each row's runs")
        from experiments.sweep.sweep import print_plan

        print_plan(table, base, values.seeds, values)
        return 0
    if workdir is None:
        raise ValueError("--workdir is needed; --dry_run and --plan need none")
    for name in ("tokens_per_second", "tflops"):
        if values[name].value is not None:
            raise ValueError(f"--{name} is for the hours of a --dry_run")
    if values.noise is not None:
        raise ValueError("--noise is for the smallest difference of a --dry_run")
    for name in ("retries", "samples"):
        if values[name].value < 0:
            raise ValueError(f"--{name}={values[name].value}; it must not be negative")
    if values.samples and base.data.task != "translation":
        raise ValueError("--samples are translations; this base does not translate")
    return run_table(
        table,
        base,
        workdir,
        patterns=values.rows,
        num_seeds=values.seeds,
        equal=values.equal,
        num_retries=values.retries,
        num_samples=values.samples,
        has_pages=values.pages,
        space=space,
        launcher=options.chosen(values),
    )


@contextlib.contextmanager
def _keeping_garbage() -> Iterator[None]:
    """For a dry run, which makes hardly any: looking for it takes a twentieth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _configs(table: Table, base: ConfigDict, patterns: str) -> list[ConfigDict]:
    return [row.config(base) for row in table.rows(base).select(patterns).rows]


def _say(line: str) -> None:
    print(f"sweep: {line}", file=sys.stderr)


if __name__ == "__main__":
    define_flags()
    app.run(main, flags_parser=functools.partial(parse_flags, "sweep"))
