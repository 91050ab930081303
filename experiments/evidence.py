"""What is worth keeping of a sweep, and whether another one agrees with it.

    python -m experiments.evidence keep W experiments/results/table3_tiny
    python -m experiments.evidence compare W experiments/results/table3_tiny

`keep` copies records, configs and learning curves, without checkpoints, logs and translations, and
writes the report beside them. Where a row has one seed alone, and is compared sentence by sentence,
it copies what BLEU counts of each. `compare` says of every row and measure whether the mean of W
lies within the 95 % interval of the mean that was kept. Of three seeds a tenth does not, by chance
alone: exit code 1 means that a difference is significant.
"""

import functools
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, logging

from experiments import record, report
from experiments.effects import SIGNIFICANT
from experiments.leaves import Leaf, read_leaves
from experiments.measures import MEASURES, Mean, Measure, mean, values_of
from t2t_jax.cli.command import parse_flags
from t2t_jax.evaluation.significance import holm, welch_t_test

_KEPT = (record.RUN_FILE, record.RECORD_FILE, "metrics.jsonl")


class Agreement(NamedTuple):
    """One number of one row, as it was kept and as it is now."""

    row: str
    measure: Measure
    kept: Mean
    now: Mean
    is_inside: bool  # whether the mean now lies within the interval kept
    corrected_p: float | None  # Welch's test of the seeds kept against those now, by Holm

    @property
    def differs(self) -> bool:
        """Whether the two are taken as really different."""
        return self.corrected_p is not None and self.corrected_p < SIGNIFICANT


def keep(workdir: Path, destination: Path) -> list[Path]:
    """Copies the finished runs below `workdir`, and reports on them; the directories written.

    Raises:
      ValueError: there are none, or `destination` holds something else.
    """
    finished = sorted(path.parent for path in workdir.rglob(record.RECORD_FILE))
    if not finished:
        raise ValueError(f"there are no finished runs below {workdir}")
    if destination.exists() and any(destination.iterdir()):
        raise ValueError(f"{destination} is not empty: remove it, or choose another")
    # A row of one seed is compared sentence by sentence, which takes most of the room.
    bootstraps = 1 in Counter(directory.parent for directory in finished).values()
    written = []
    for directory in finished:
        target = destination / directory.relative_to(workdir)
        target.mkdir(parents=True)
        sentences = sorted((directory / "scores").glob("*.sentences.json"))
        for path in (*(directory / name for name in _KEPT), *(sentences if bootstraps else ())):
            if path.exists():
                copy = target / path.relative_to(directory)
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, copy)
        written.append(target)
    report.write_report(destination)
    return written


def compare(workdir: Path, kept: Path) -> list[Agreement]:
    """Every number of the rows that both have, by table, row and measure.

    Raises:
      ValueError: they have no row in common, or their base configs differ.
    """
    before = _by_row(kept)
    pairs = []
    for (table, row), leaves in _by_row(workdir).items():
        its_kept = before.get((table, row), [])
        for measure in MEASURES:
            sides = values_of(measure, its_kept), values_of(measure, leaves)
            if all(sides):
                _check_same_base(leaves[0], its_kept[0])
                pairs.append((row, measure, *sides))
    if not pairs:
        raise ValueError(f"{workdir} and {kept} have no finished row in common")
    tests = []
    for _, measure, then, now in pairs:
        compared = [[measure.compared(value) for value in side] for side in (now, then)]
        test = welch_t_test(compared[0], compared[1])
        tests.append(test and test.p_value)
    found = []
    for (row, measure, then, now), p_value in zip(pairs, holm(tests), strict=True):
        before_mean: Any = mean(then)
        now_mean: Any = mean(now)
        # Half a unit of the last digit that is shown is no difference.
        margin = max(before_mean.half_width or 0.0, 0.5 * 10**-measure.digits)
        is_inside = abs(now_mean.mean - before_mean.mean) <= margin
        found.append(Agreement(row, measure, before_mean, now_mean, is_inside, p_value))
    return found


def _by_row(workdir: Path) -> dict[tuple[str, str], list[Leaf]]:
    found: dict[tuple[str, str], list[Leaf]] = {}
    for leaf in read_leaves(workdir):
        if leaf.record is not None:
            found.setdefault((leaf.run.table, leaf.run.row), []).append(leaf)
    return found


def _check_same_base(one: Leaf, other: Leaf) -> None:
    elsewhere = ("seed", "data.directory", "data.cache")
    differences = [
        f"{key} {there!r} there, {here!r} here"
        for key, there, here in record.config_differences(other.run.base, one.run.base)
        if key not in elsewhere
    ]
    if differences:
        raise ValueError(f"the base configs differ: {'; '.join(differences)}")


def agreement_text(found: list[Agreement]) -> str:
    """A line for each number, and a sentence at the end."""

    def text(mean: Mean, digits: int) -> str:
        width = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
        return f"{mean.mean:.{digits}f}{width}"

    lines = [f"{'row':<16} {'':<12} {'kept':>16} {'now':>16}"]
    for each in found:
        kept, now = (text(mean, each.measure.digits) for mean in (each.kept, each.now))
        verdict = "DIFFERS" if each.differs else "within" if each.is_inside else "outside"
        lines.append(f"{each.row:<16} {each.measure.title:<12} {kept:>16} {now:>16}  {verdict}")
    num_inside = sum(each.is_inside for each in found)
    num_different = sum(each.differs for each in found)
    summary = (
        f"{num_inside} of {len(found)} means lie within the intervals kept; {num_different} differ "
        "at the 5 % level (Welch over seeds, corrected by Holm)"
    )
    return "\n".join([*lines, "", summary])


def main(argv: list[str]) -> None:
    """Runs the command."""
    logging.set_verbosity(logging.WARNING)  # the libraries tell a lot
    if len(argv) != 4 or argv[1] not in ("keep", "compare"):
        sys.exit("evidence: keep W DIRECTORY, or compare W DIRECTORY; see --help")
    _, verb, *directories = argv
    workdir, kept = map(Path, directories)
    try:
        if verb == "keep":
            print(f"kept {len(keep(workdir, kept))} runs in {kept}")
            return
        found = compare(workdir, kept)
    except (OSError, ValueError) as error:
        sys.exit(f"evidence: {error}")
    print(agreement_text(found))
    sys.exit(1 if any(each.differs for each in found) else 0)


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "evidence"))
