"""Keeps the essentials of a sweep, and checks whether another sweep agrees with it.

    python -m experiments.report.evidence keep W experiments/results/table3_tiny
    python -m experiments.report.evidence compare W experiments/results/table3_tiny

`keep` copies records, configs, learning curves, uncommitted code, the reasons of failed runs and
what --equal=seconds measured, but no checkpoints, logs or translations, and writes the report
beside them. If a row has a single seed, and so is compared sentence by sentence, it also copies the
BLEU counts of each sentence.
`compare` says for every measure of every row, at its own values, whether the mean of W lies within
the 95 % interval of the kept mean. Of three kept and three other seeds a tenth do not, by chance
alone, of five and three a sixth: exit code 1 means a significant difference, a kept run that is
not finished in W, or a row of which a seed has diverged in one of the two.
"""

import functools
import itertools
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from absl import app

from experiments.report import report
from experiments.report.effects import SIGNIFICANT
from experiments.report.measures import MEASURES, Mean, Measure, mean, measures_of, values_of
from experiments.run import record
from experiments.run.outcomes import Outcome, one_of_each, read_outcomes, records_of
from experiments.run.plain_text import counted, plain_text
from experiments.tables.paper_base import config_file
from t2t_jax.cli.command import parse_flags
from t2t_jax.evaluation.significance import holm, welch_t_test
from t2t_jax.json_files import read_json, write_json

_KEPT = (record.RUN_FILE, record.RECORD_FILE, record.FAILURE_FILE, record.DIFF_FILE)
_KEPT += ("metrics.jsonl",)


# The verdict on a mean that does not differ.
_PLACES = {True: "within", False: "outside", None: "no interval"}


class Agreement(NamedTuple):
    """One number of one row, kept and now."""

    row: str
    measure: Measure
    kept: Mean
    now: Mean
    is_inside: bool | None  # whether the new mean lies within the kept interval, if there is one
    corrected_p: float | None  # Welch's test of kept against new seeds, corrected by Holm

    @property
    def differs(self) -> bool:
        """Whether the difference is significant."""
        return self.corrected_p is not None and self.corrected_p < SIGNIFICANT


def keep(workdir: Path, destination: Path) -> list[Path]:
    """Copies the files of the runs below `workdir` and writes a report; the directories written.

    Raises:
      ValueError: there are no finished runs, or `destination` is not empty.
    """
    outcomes = _believed(workdir)
    finished = [outcome.directory for outcome in outcomes if outcome.record is not None]
    if not finished:
        raise ValueError(f"there are no finished runs below {workdir}")
    if destination.exists() and any(destination.iterdir()):
        raise ValueError(f"{destination} is not empty: remove it, or choose another")
    # Rows with one seed are compared sentence by sentence; the counts take most of the space.
    num_seeds = Counter(
        (each.directory.parent, each.run.kind, name)
        for each in outcomes
        if each.record is not None and each.run.kind != "trial"
        for name, scores in each.record.get("scores", {}).items()
        if "bleu" in scores
    )
    bootstraps = 1 in num_seeds.values()
    written = []
    for directory in (outcome.directory for outcome in outcomes):
        target = destination / directory.relative_to(workdir)
        target.mkdir(parents=True)
        sentences = sorted((directory / "scores").glob("*.sentences.json"))
        for path in (*(directory / name for name in _KEPT), *(sentences if bootstraps else ())):
            if path.is_file() and not path.is_symlink():
                copy = target / path.relative_to(directory)
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, copy)
        for name in (record.RUN_FILE, record.RECORD_FILE):
            _forget_cache(target / name)
        written.append(target)
    for table in {directory.parent.parent for directory in finished}:
        path = table / record.SECONDS_FILE
        if path.is_file() and not path.is_symlink():
            shutil.copyfile(path, destination / path.relative_to(workdir))
    report.write_report(destination)
    return written


def _forget_cache(path: Path) -> None:
    """Where prepared data lay is a path of one person's machine, and changes nothing."""
    if not path.exists():
        return
    values = read_json(path)
    for config in ("base", "config"):
        if "cache" in values.get(config, {}).get("data", {}):
            values[config]["data"]["cache"] = config_file("base")["data.cache"]
    write_json(path, values)


def compare(workdir: Path, kept: Path) -> list[Agreement]:
    """Compares every number of the rows that both have, by table, row and measure.

    BLEU of other files is left out.

    Raises:
      ValueError: they have no row in common, or the configs or data of a row differ.
    """
    before, now = _by_row(kept), _by_row(workdir)
    both = [place for place in now if place in before]
    measures = measures_of(each for side in (before, now) for place in both for each in side[place])
    name = _namer(both)
    pairs = []
    for place in both:
        for outcome in (*before[place], *now[place]):
            _check_same_row(outcome, before[place][0])
        for measure in measures:
            sides = [values_of(measure, one_of_each(side[place])) for side in (before, now)]
            texts = [_texts(measure, side[place]) for side in (before, now)]
            if all(sides) and texts[0] == texts[1]:
                pairs.append((name(place), measure, *sides))
    if not pairs:
        raise ValueError(f"{workdir} and {kept} have no finished row in common")
    tests = [_p_value(measure, then, now) for _, measure, then, now in pairs]
    found = []
    for (row, measure, then, now), p_value in zip(pairs, holm(tests), strict=True):
        before_mean: Any = mean(then)
        now_mean: Any = mean(now)
        width = before_mean.half_width
        distance = abs(now_mean.mean - before_mean.mean)
        is_inside = None if width is None else distance <= max(width, _unseen(measure))
        found.append(Agreement(row, measure, before_mean, now_mean, is_inside, p_value))
    return found


def same_seeds(workdir: Path, kept: Path) -> list[str]:
    """How far apart runs of the same row and seed are, a line per pair of hardware.

    On the same hardware they can agree to the last digit. On another, rounding separates them, and
    how far they drift in training is no fault: what counts is the test of the means.
    """
    before, now = _by_row(kept), _by_row(workdir)
    apart: dict[tuple[str, str], list[dict[str, float]]] = {}
    for place in (place for place in now if place in before):
        then, here = (
            {each.run.seed: each.record for each in one_of_each(side[place]) if each.record}
            for side in (before, now)
        )
        for seed in sorted(set(then) & set(here)):
            hardware = str(then[seed].get("hardware")), str(here[seed].get("hardware"))
            apart.setdefault(hardware, []).append(_apart(then[seed], here[seed]))
    lines = []
    for (there, here), differences in sorted(apart.items()):
        same = sum(not any(each.values()) for each in differences)
        where = there if there == here else f"{there} kept, {here} now"
        line = f"same seeds, {where}: {same} of {len(differences)} agree to the last digit"
        most = {
            each.short: max(difference.get(each.short, 0.0) for difference in differences)
            for each in MEASURES
        }
        if any(most.values()):
            line += "; at the most apart: "
            line += ", ".join(f"{name} {value:.2g}" for name, value in most.items() if value)
        lines.append(plain_text(line))
    return lines


def _apart(one: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """The difference in each measure that both records have."""
    pairs = {each.short: (each.value(one), each.value(other)) for each in MEASURES}
    return {
        name: abs(here - there)
        for name, (there, here) in pairs.items()
        if there is not None and here is not None
    }


def _unseen(measure: Measure) -> float:
    """Half a unit of the last printed digit, which counts as no difference."""
    return 0.5 * 10**-measure.digits


def _p_value(measure: Measure, then: list[float], now: list[float]) -> float | None:
    """Of Welch's test; 0 if it cannot be done since the seeds agree within but not between sides.

    Also 0 if only one side is finite.
    """
    compared = [[measure.compared(value) for value in side] for side in (now, then)]
    if (test := welch_t_test(compared[0], compared[1])) is not None:
        return test.p_value
    are_finite = [all(map(math.isfinite, side)) for side in compared]
    if are_finite == [False, False] or (all(are_finite) and min(len(then), len(now)) == 1):
        return None
    return 0.0 if not all(are_finite) or abs(then[0] - now[0]) > _unseen(measure) else None


def not_compared(workdir: Path, kept: Path) -> tuple[list[str], list[str]]:
    """Kept runs that are not finished in W, and kept runs that W was not asked for."""
    outcomes = _believed(workdir)
    done = {outcome.run.directory for outcome in outcomes if outcome.record is not None}
    begun = {outcome.run.directory for outcome in outcomes}
    wanted = (outcome.run.directory for outcome in _believed(kept) if outcome.record is not None)
    missing = [directory for directory in wanted if directory not in done]
    unfinished = [str(directory) for directory in missing if directory in begun]
    return unfinished, [str(directory) for directory in missing if directory not in begun]


def diverged_alone(workdir: Path, kept: Path) -> list[str]:
    """The rows of both that have no mean in only one of them, since a seed has diverged there."""
    before, now = _by_row(kept), _by_row(workdir)
    both = [place for place in now if place in before]
    name = _namer(both)
    rows = []
    for place in both:
        has = [any(outcome.has_diverged for outcome in side[place]) for side in (before, now)]
        if has[0] != has[1]:
            rows.append(f"{name(place)} ({'here' if has[1] else 'there'})")
    return rows


def _texts(measure: Measure, outcomes: Iterable[Outcome]) -> set[str]:
    """The files that a measure is of, by their checksums; those of the corpus have none."""
    scores = (each.get("scores", {}).get(measure.split, {}) for each in records_of(outcomes))
    return {str(each.get("sha256")) for each in scores if each}


def _namer(places: Iterable[tuple[str, str]]) -> Callable[[tuple[str, str]], str]:
    """What to call a row of a table: after its table too, if there are several."""
    is_one = len({table for table, _ in places}) == 1
    return lambda place: place[1] if is_one else "/".join(place)


def _believed(workdir: Path) -> list[Outcome]:
    """Raises ValueError if a run below `workdir` is damaged: it would be no evidence."""
    found = read_outcomes(workdir)
    if found.refused:
        raise ValueError("; ".join(found.refused))
    return found.runs


def _by_row(workdir: Path) -> dict[tuple[str, str], list[Outcome]]:
    """The runs that are over, by table and row, at the row's own values."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in _believed(workdir):
        is_over = outcome.record is not None or outcome.has_diverged
        if is_over and outcome.run.kind == "fixed":
            found.setdefault((outcome.run.table, outcome.run.row), []).append(outcome)
    return found


def _check_same_row(one: Outcome, other: Outcome) -> None:
    # A config without a key is of another version, which behaved as base.py says.
    base = record.settings(config_file("base"))
    here, there = (base | record.settings(outcome.run.config) for outcome in (one, other))
    differences = [
        f"{key} {value!r} there, {here[key]!r} here"
        for key, value in there.items()
        if key in here and here[key] != value and key != "data.directory"  # of another machine
    ]
    if differences:
        raise ValueError(f"row {one.run.row} has another config: {'; '.join(differences)}")
    this, that = ((outcome.record or {}).get("data_fingerprint") for outcome in (one, other))
    if this != that and one.record and other.record:
        raise ValueError(f"row {one.run.row} is of other data: {that} there, {this} here")


def agreement_text(found: list[Agreement]) -> str:
    """A line per number, and a sentence at the end."""

    def text(mean: Mean, digits: int) -> str:
        width = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
        return f"{mean.mean:.{digits}f}{width}"

    lines = [f"{'row':<16} {'':<12} {'kept':>16} {'now':>16}"]
    for each in found:
        kept, now = (text(mean, each.measure.digits) for mean in (each.kept, each.now))
        verdict = "DIFFERS" if each.differs else _PLACES[each.is_inside]
        lines.append(f"{each.row:<16} {each.measure.title:<12} {kept:>16} {now:>16}  {verdict}")
    places = [each.is_inside for each in found]
    num_intervals = len(found) - places.count(None)
    summary = (
        f"{places.count(True)} of {num_intervals} means lie within the intervals kept; "
        f"{sum(each.differs for each in found)} differ at the 5 % level (Welch over seeds, "
        "corrected by Holm)"
    )
    if None in places:
        summary += f"; {places.count(None)}, of one seed or of no finite numbers, have none"
    return "\n".join([*lines, "", summary])


def main(argv: list[str]) -> None:
    """Runs the command."""
    if len(argv) != 4 or argv[1] not in ("keep", "compare"):
        sys.exit("evidence: keep W DIRECTORY, or compare W DIRECTORY; see --help")
    _, verb, *directories = argv
    workdir, kept = map(Path, directories)
    try:
        if verb == "keep":
            print(f"kept {counted(len(keep(workdir, kept)), 'run')} in {kept}")
            return
        found = compare(workdir, kept)
        seeds = same_seeds(workdir, kept)
        unfinished, not_asked_for = not_compared(workdir, kept)
        diverged = diverged_alone(workdir, kept)
    except (OSError, ValueError) as error:
        sys.exit(f"evidence: {plain_text(error)}")
    print("\n".join([agreement_text(found), *seeds]))
    for what, names in (("not finished", unfinished), ("not asked for", not_asked_for)):
        if names:
            print(f"{what} in {workdir}:")
            for row, of_row in itertools.groupby(names, os.path.dirname):
                print(f"  {row}: {', '.join(map(os.path.basename, of_row))}")
    if diverged:
        print(f"not compared, since a seed has diverged: {', '.join(diverged)}")
    differs = any(each.differs for each in found)
    sys.exit(1 if unfinished or diverged or differs else 0)


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "evidence"))
