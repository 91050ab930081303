"""What is worth keeping of a sweep, and whether another one agrees with it.

    python -m experiments.evidence keep W experiments/results/table3_tiny
    python -m experiments.evidence compare W experiments/results/table3_tiny

`keep` copies records, configs and learning curves, without checkpoints, logs and translations, and
writes the report beside them. `compare` asks of every row and measure whether the mean of W lies
within the 95 % interval of the mean that was kept; exit code 1 if one does not.
"""

import functools
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from absl import app, logging

from experiments import record, report
from experiments.measures import MEASURES, Mean, Measure
from experiments.summary import summaries
from t2t_jax.cli.command import parse_flags

_KEPT = (record.RUN_FILE, record.RECORD_FILE, "metrics.jsonl")


class Agreement(NamedTuple):
    """One number of one row, as it was kept and as it is now."""

    row: str
    measure: Measure
    kept: Mean
    now: float

    @property
    def is_inside(self) -> bool:
        """Whether the mean lies within the interval; with one seed there is none: the same."""
        distance = abs(self.now - self.kept.mean)
        # Half a unit of the last digit that is shown is no difference.
        return distance <= max(self.kept.half_width or 0.0, 0.5 * 10**-self.measure.digits)


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
    written = []
    for directory in finished:
        target = destination / directory.relative_to(workdir)
        target.mkdir(parents=True)
        for name in filter(lambda name: (directory / name).exists(), _KEPT):
            shutil.copyfile(directory / name, target / name)
        written.append(target)
    report.write_report(destination)
    return written


def compare(workdir: Path, kept: Path) -> list[Agreement]:
    """The means of rows that both have, by table, row and measure.

    Raises:
      ValueError: they have no row in common.
    """
    before = {table.name: {row.name: row for row in table.rows} for table in summaries(kept)}
    found = []
    for table in summaries(workdir):
        for row in table.rows:
            its_kept = before.get(table.name, {}).get(row.name)
            if its_kept is None:
                continue
            for measure in MEASURES:
                if measure.name in row.means and measure.name in its_kept.means:
                    mean = its_kept.means[measure.name]
                    found.append(Agreement(row.name, measure, mean, row.means[measure.name].mean))
    if not found:
        raise ValueError(f"{workdir} and {kept} have no finished row in common")
    return found


def agreement_text(found: list[Agreement]) -> str:
    """A line for each number, and a sentence at the end."""
    lines = []
    for each in found:
        digits = each.measure.digits
        half_width = each.kept.half_width
        kept = f"{each.kept.mean:.{digits}f}" + (
            "" if half_width is None else f" ± {half_width:.{digits}f}"
        )
        verdict = "within" if each.is_inside else "OUTSIDE"
        lines.append(
            f"{each.row:<16} {each.measure.title:<12} {kept:>16} {each.now:>9.{digits}f}  {verdict}"
        )
    num_inside = sum(each.is_inside for each in found)
    return "\n".join([*lines, "", f"{num_inside} of {len(found)} means lie within those kept"])


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
    sys.exit(0 if all(each.is_inside for each in found) else 1)


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse_flags, "evidence"))
