"""The runs of a sweep: prepares their directories, then executes the unfinished ones.

In: rows, a base config, a number of seeds. Out: run.json in each directory; then, by a launcher,
what the runs write there, and a printed line per event.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from ml_collections import ConfigDict

from experiments.launchers.event import Event, Launch
from experiments.run import record
from experiments.run.outcomes import divergence_of, is_divergence
from experiments.run.plain_text import counted, plain_text
from experiments.sweep import tuned_runs
from experiments.sweep.time_left import duration_text
from experiments.sweep.watch import Watch, name, to_go_text
from experiments.tables.ablation import Rows, Table, as_dict, check_row
from experiments.tables.equal import Equal
from experiments.tables.tuning import TRIAL_SEED, Space
from experiments.tables.tuning import check as check_space


def prepare(
    table: Table,
    rows: Rows,
    base: ConfigDict,
    num_seeds: int,
    workdir: Path,
    equal: Equal = "steps",
    space: Space | None = None,
) -> list[Path]:
    """Writes run.json for every row and seed; returns the directories, seeds outermost.

    The seeds are the base config's and those after it. They are outermost so that an interrupted
    sweep has a whole table of one seed before it starts the second. With a `space`, the trials of
    its points follow, and the runs that wait for them.

    Raises:
      ValueError: an invalid value, a directory that holds another config, or rows there with
        another `equal`. Nothing is written then.
    """
    if num_seeds < 1:
        raise ValueError(f"seeds={num_seeds}; at least 1 is needed")
    for row in rows.rows:
        check_row(row, base)
    first_seed = as_dict(base)["seed"]
    seeds = range(first_seed, first_seed + num_seeds)
    runs = [record.make_run(table, row, base, seed, equal) for seed in seeds for row in rows.rows]
    if space is not None:
        check_space(space, rows.rows, base)
        if TRIAL_SEED in seeds:
            raise ValueError(f"seed {TRIAL_SEED} is that of trials: take another")
        runs += _of_tuning(table, rows, base, seeds, equal, workdir, space)
    _check_equal(workdir, table, equal)
    for run in runs:
        record.check_same_run(workdir / run.directory, run)
        _check_same_trials(workdir / run.directory, run)
    for run in runs:
        record.write_run(workdir / run.directory, run)
    return [workdir / run.directory for run in runs]


def _check_equal(workdir: Path, table: Table, equal: Equal) -> None:
    """Raises ValueError if rows of the table there were given equal shares of something else."""
    for path in sorted(workdir.glob(f"{table.name}/*/seed-*/{record.RUN_FILE}")):
        try:
            run = record.read_run(path.parent)
        except (KeyError, OSError, TypeError, ValueError):
            continue  # it is named where it is used
        if run.kind == "fixed" and run.row != "base" and run.equal != equal:
            raise ValueError(
                f"{path.parent} is of --equal={run.equal}, this is --equal={equal}: rows of one "
                "table have the same, so use another --workdir"
            )


def _of_tuning(
    table: Table,
    rows: Rows,
    base: ConfigDict,
    seeds: range,
    equal: Equal,
    workdir: Path,
    space: Space,
) -> Iterator[record.Run]:
    """The trials of each row, and its runs at the chosen point, or at one yet to be chosen."""
    facts = {"space": list(space.words), "trials": len(space.points)}
    for trial, point in enumerate(space.points):
        for row in rows.rows:
            tuning = {**facts, "trial": trial, "point": point}
            yield record.make_run(table, row, base, TRIAL_SEED, equal, tuning)
    for seed in seeds:
        for row in rows.rows:
            tuning = {**facts, "trial": None, "point": None}
            run = record.make_run(table, row, base, seed, equal, tuning)
            directory = workdir / run.directory
            if (directory / record.RUN_FILE).exists():
                tuning["point"] = record.read_run(directory).point or None
                run = record.make_run(table, row, base, seed, equal, tuning)
            yield run


def _check_same_trials(directory: Path, run: record.Run) -> None:
    """Raises ValueError if a run has a point already, which other trials have chosen."""
    if run.kind != "tuned" or not (directory / record.RUN_FILE).exists():
        return
    if record.read_run(directory).awaits_trials:
        return
    names = ("space", "trials")
    before, now = (
        {name: (each.tuning or {}).get(name) for name in names}
        for each in (record.read_run(directory), run)
    )
    if before != now:
        raise ValueError(
            f"{directory} is at the best of {before['trials']} trials of "
            f"{' '.join(before['space'] or [])}: use another --workdir, or move it away to train "
            "it anew"
        )


def check_same_data(directories: Sequence[Path], base: ConfigDict, fingerprint: str) -> None:
    """Raises ValueError if a finished run with the data settings of `base` used other data."""
    here = record.settings({"data": as_dict(base)["data"]})
    for directory in filter(record.is_finished, directories):
        if _damage(directory):
            continue  # `do_unfinished` names it
        values = record.read_json(directory / record.RECORD_FILE)
        before = values.get("data_fingerprint", fingerprint)
        if before != fingerprint and record.settings({"data": values["config"]["data"]}) == here:
            raise ValueError(
                f"{directory} was made of the data {before}, but the corpus is now {fingerprint}: "
                "use another --workdir, or the corpus as it was"
            )


def do_unfinished(
    directories: Sequence[Path],
    launch: Launch,
    num_retries: int = 0,
    stopping: threading.Event | None = None,
) -> int:
    """Executes the prepared runs without a record, a line per event; returns how many failed.

    A run with a damaged record has failed, and is left as it is. So is one that has diverged: to
    choose the seeds that do not would be to choose the result. Failed runs are retried after all
    others, up to `num_retries` times. Set `stopping` on a stop, so that the bar says so while the
    runs save their state. Runs that wait for trials come last, at the values that these chose.
    """
    directories = tuned_runs.settle(directories, print)
    unfinished = [path for path in directories if not record.is_finished(path)]
    awaiting = [path for path in unfinished if record.read_run(path).awaits_trials]
    num_finished = len(directories) - len(unfinished)
    print(f"{counted(len(directories), 'run')}, {num_finished} of them finished before")
    damaged = [path for path in directories if record.is_finished(path) and _damage(path)]
    for path in damaged:
        print(f"        {name(path)} FAILED: {_damage(path)}; remove that file to do it anew")
    diverged = [path for path in unfinished if _has_diverged(path)]
    for path in diverged:
        print(
            f"        {name(path)} {record.read_failure(path)}; remove {record.FAILURE_FILE} there "
            "to try again from its last checkpoint"
        )
    with Watch(directories, failed=[*damaged, *diverged], stopping=stopping) as watch:
        failed = _rounds(
            [path for path in unfinished if path not in (*awaiting, *diverged)],
            launch,
            num_retries,
            watch,
        )
        if awaiting:
            left = tuned_runs.settle(awaiting, watch.say)
            watch.left_out(path for path in awaiting if path not in left)
            ready = [path for path in left if not record.read_run(path).awaits_trials]
            for row in sorted({path.parent.name for path in left if path not in ready}):
                watch.say(f"        {row} is not tuned yet: a trial of it is not over")
            failed += _rounds(ready, launch, num_retries, watch)
    return len(failed) + len(damaged) + len(diverged)


def _rounds(
    directories: Sequence[Path], launch: Launch, num_retries: int, watch: Watch
) -> list[Path]:
    """Launches the runs and retries the failed ones; returns those that failed every time."""
    failed = _round(directories, launch, watch)
    diverged: list[Path] = []
    for retry in range(1, num_retries + 1):
        diverged += [path for path in failed if _has_diverged(path)]
        failed = [path for path in failed if not _has_diverged(path)]
        if not failed:
            break
        watch.say(f"        {len(failed)} failed; retry {retry} of {num_retries}")
        watch.again(failed)
        failed = _round(failed, launch, watch)
    return [*diverged, *failed]


def _round(directories: Sequence[Path], launch: Launch, watch: Watch) -> list[Path]:
    """Launches the runs and prints their progress; returns those that failed."""
    failed = []
    num_done = 0
    with contextlib.closing(launch(directories)) as events:
        for event in events:
            if event.kind == "started":
                watch.started(event.directory)
                where = f" {event.reason}" if event.reason else ""
                watch.say(
                    f"        {name(event.directory)} started{where}, log: {_log(event.directory)}"
                )
                continue
            watch.ended(event.directory, event.kind)
            num_done += 1
            if event.kind == "failed":
                failed.append(event.directory)
            watch.say(f"{num_done:>3}/{len(directories):<3} {_end_text(event)}")
            if num_done < len(directories):
                watch.say(to_go_text(watch.totals()))
    return failed


def _has_diverged(directory: Path) -> bool:
    return is_divergence(record.read_failure(directory) or "")


def _damage(directory: Path) -> str:
    """What is wrong with the record of a finished run; empty if nothing is."""
    try:
        record.read_record(directory)
    except (OSError, ValueError) as error:
        return plain_text(error)
    return ""


def _end_text(event: Event) -> str:
    if event.kind == "failed":
        return f"{name(event.directory)} FAILED: {event.reason}; log: {_log(event.directory)}"
    values = record.read_json(event.directory / record.RECORD_FILE)
    divergence = plain_text(divergence_of(values) or "")
    what = divergence.partition(":")[0] or record.score_text(values)
    return f"{name(event.directory)} finished in {duration_text(event.seconds)}: {what}"


def _log(directory: Path) -> Path:
    return directory / record.LOG_FILE
