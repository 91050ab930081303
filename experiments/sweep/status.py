"""The state of a sweep's runs, from the files in their directories alone.

In: the directories below a workdir. Out: one `Status` each, and a table of them with the totals.
The files suffice, also for runs on other machines; no launcher is asked.
"""

import functools
import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rich.box
import rich.console
import rich.live
import rich.table
import rich.text
from ml_collections import ConfigDict

from experiments.run import presence, record
from experiments.run.outcomes import divergence_of, is_divergence
from experiments.run.plain_text import counted, plain_text
from experiments.sweep import time_left
from experiments.tables.registry import find_table
from t2t_jax.json_files import error_text, flat_dict
from t2t_jax.runs.keys import with_later_keys
from t2t_jax.training.metrics_file import read_metrics

_REFRESH_SECONDS = 2.0
# Without a terminal.
_WIDTH = 160
_OTHER_LINES = 9  # of the table: its head, the totals, and one that the terminal keeps

_ENDED = ("done", "failed", "diverged", "damaged")
_RUNNING = ("starting", "compiling", "training", "scoring")


class Status(NamedTuple):
    """The state of one run; None is unknown."""

    name: str  # "table3 A.h=1 seed-0"
    state: str  # waiting | one of _RUNNING | lost | one of _ENDED
    step: int
    steps: int
    loss: float | None = None  # of training, nats per target token
    tokens_per_second: float | None = None  # of the target side
    seconds_left: float | None = None  # scoring included, once a run has been scored
    remark: str = ""  # the scores, the reason, where it runs, what it waits for


class Standing(NamedTuple):
    """The state of a whole sweep."""

    runs: list[Status]
    seconds_spent: float  # summed over all runs
    parallel: int  # how many run now, at least 1
    forecast: time_left.Forecast


def standing(workdir: Path) -> Standing:
    """The state of every run below `workdir`, in the order of their tables.

    A run with a damaged file has the state "damaged", and a remark that names the file; so has a
    directory that cannot be read.

    Raises:
      ValueError: there are no runs.
    """
    found, unreadable = record.find_runs(workdir)
    directories = sorted([*found, *unreadable], key=_place)
    if not directories:
        raise ValueError(f"there are no runs below {workdir}; experiments.sweep makes them")
    runs = [_status_or_damage(directory) for directory in directories]
    jobs = [_job(directory, run) for directory, run in zip(directories, runs, strict=True)]
    parallel = max(1, sum(run.state in _RUNNING for run in runs))
    forecast = time_left.forecast(jobs, parallel)
    runs = [
        run._replace(seconds_left=None if run.state in _ENDED else left)
        for run, left in zip(runs, forecast.of_runs, strict=True)
    ]
    return Standing(runs, sum(job.spent for job in jobs), parallel, forecast)


def _place(directory: Path) -> tuple:
    """Sort key of a run: sweep, table, the row's place in it, row, kind, seed or trial."""
    table, row = directory.parent.parent, directory.parent
    try:
        run = record.read_run(directory)
        rows = _row_names(run.table, json.dumps(run.base | {"seed": 0}))
        place = rows.index(run.row) if run.row in rows else len(rows)
        trial = (run.tuning or {}).get("trial")
        seed = (run.kind, run.seed if trial is None else trial)
    except (OSError, ValueError):
        place, seed = 1_000, ("", 0)  # after those that can be read
    return table.parent, table.name, place, row.name, seed, directory


@functools.lru_cache
def _row_names(table: str, base: str) -> list[str]:
    """The rows of a table at this base, given as JSON; none if this code does not know it."""
    try:
        config = ConfigDict(with_later_keys(json.loads(base)))
        return [row.name for row in find_table(table).rows(config).rows]
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return []


def _job(directory: Path, run: Status) -> time_left.Job:
    job = time_left.job_of(directory)
    return job._replace(stage="over") if run.state in _ENDED else job


def _status_or_damage(directory: Path) -> Status:
    try:
        return status(directory)
    except (OSError, ValueError) as error:
        return Status(" ".join(directory.parts[-3:]), "damaged", 0, 0, remark=error_text(error))


def status(directory: Path) -> Status:
    """The state of the run in this directory.

    Raises:
      ValueError: a file there is damaged; the message names it.
    """
    run = record.read_run(directory)
    name = f"{run.table} {run.row} {run.name}"
    steps = flat_dict(run.config).get("training.steps")
    steps = steps if type(steps) is int else 0
    if record.is_finished(directory):
        values = record.read_record(directory)
        done = values.get("steps", 0)
        if divergence := divergence_of(values):
            return Status(name, "diverged", done, steps, remark=divergence)
        return Status(name, "done", done, steps, remark=record.score_text(values))

    entries = _train_entries(directory / "metrics.jsonl")
    last = entries[-1] if entries else {}
    so_far = Status(name, "waiting", last.get("step", 0), steps, loss=last.get("loss"))
    sign = presence.read(directory)
    if sign is not None and sign.is_alive:
        waits = _waiting_text(directory, sign)
        so_far = so_far._replace(state=sign.stage, remark=f"on {sign.host}{waits}")
        if sign.stage == "training" and entries:
            speed = entries[-1].get("target_tokens_per_second")
            so_far = so_far._replace(tokens_per_second=speed)
        return so_far
    if (failure := record.read_failure(directory)) is not None:
        state = "diverged" if is_divergence(failure) else "failed"
        return so_far._replace(state=state, remark=failure)
    if sign is not None:
        silent = _time_text(time.time() - sign.beat)
        return so_far._replace(state="lost", remark=f"no sign from {sign.host} for {silent}")
    if run.awaits_trials:
        return so_far._replace(remark="for the trials of its row")
    return so_far._replace(remark="stopped, will go on" if so_far.step else "")


def _waiting_text(directory: Path, sign: presence.Sign) -> str:
    waiting = presence.waiting(directory)
    if waiting is None:
        return ""
    if (waiting.host, waiting.pid) == (sign.host, sign.pid):
        return f", waits: {waiting.what}"
    return f"; process {waiting.pid} on {waiting.host} waits to do the same run"


def _train_entries(path: Path) -> list[dict[str, Any]]:
    entries = [entry for entry in read_metrics(path) if entry["split"] == "train"]
    for entry in entries[-1:]:
        if type(entry["step"]) is not int:
            raise ValueError(f"{path}: step={entry['step']!r:.60} is not a whole number")
        for name in ("loss", "seconds", "target_tokens_per_second"):
            if entry.get(name) is not None and not record.is_number(entry[name]):
                raise ValueError(f"{path}: {name}={entry[name]!r:.60} is not a number")
    return entries


def show(workdir: Path, *, once: bool = False) -> None:
    """Prints the table; on a terminal again and again, until all have ended or Ctrl-C.

    Raises:
      ValueError: there are no runs below `workdir`.
    """
    found = standing(workdir)
    console = rich.console.Console()
    if once or not console.is_terminal:
        width = None if console.is_terminal else _WIDTH
        rich.console.Console(width=width).print(table(found))
        return
    with rich.live.Live(
        fitting(found, console.height), console=console, auto_refresh=False
    ) as live:
        try:
            while not all(one.state in _ENDED for one in found.runs):
                time.sleep(_REFRESH_SECONDS)
                found = standing(workdir)
                live.update(fitting(found, console.height), refresh=True)
        except KeyboardInterrupt:
            pass  # the way to leave it
        live.update(table(found))  # what stays there


def totals_text(found: Standing) -> str:
    """How many runs are done, running and so on; time spent and time left."""
    counts = Counter("running" if run.state in _RUNNING else run.state for run in found.runs)
    states = ["done", "running", "waiting", "failed", "diverged"]
    states += [state for state in ("lost", "damaged") if counts[state]]
    num_to_go = len(found.runs) - sum(counts[state] for state in _ENDED)
    lines = [
        f"{counted(len(found.runs), 'run')}: "
        + ", ".join(f"{counts[state]} {state}" for state in states),
        f"time spent: {time_left.duration_text(found.seconds_spent)}, all runs added up",
    ]
    if num_to_go:
        left = time_left.left_text(found.forecast).removeprefix("time left ")
        lines.append(f"time left: {left}; {num_to_go} to go, {found.parallel} at a time")
    return "\n".join(lines)


def fitting(found: Standing, height: int) -> rich.table.Table:
    """The table; if higher than `height`, only of runs that have not ended, as many as fit."""
    most = height - _OTHER_LINES
    if len(found.runs) <= most:
        return table(found)
    going = [run for run in found.runs if run.state not in _ENDED] or found.runs
    return table(found, going[: max(1, most)])


def table(found: Standing, runs: Sequence[Status] | None = None) -> rich.table.Table:
    """One line per status, or for each of these `runs`, and the totals of all below."""
    shown_runs = found.runs if runs is None else runs
    others = len(found.runs) - len(shown_runs)
    totals = totals_text(found)
    if others:
        totals = f"... and {counted(others, 'other run')}; --once shows all\n{totals}"
    shown = rich.table.Table(
        box=rich.box.SIMPLE_HEAD,
        caption=rich.text.Text(totals),
        caption_justify="left",
        caption_style="none",
        pad_edge=False,
    )
    for title in ("run", "state"):
        shown.add_column(title, no_wrap=True)
    for title in ("step", "loss", "tokens/s", "left"):
        shown.add_column(title, justify="right", no_wrap=True)
    shown.add_column("", min_width=16)
    for one in shown_runs:
        step = f"{one.step:,} of {one.steps:,}" if one.step else ""
        loss = "" if one.loss is None else f"{one.loss:.3f}"
        speed = "" if one.tokens_per_second is None else f"{one.tokens_per_second:,.0f}"
        left = "" if one.seconds_left is None else _time_text(one.seconds_left)
        cells = (one.name, one.state, step, loss, speed, left, one.remark)
        shown.add_row(*(rich.text.Text(plain_text(cell)) for cell in cells))
    return shown


def _time_text(seconds: float) -> str:
    if not math.isfinite(seconds):
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
