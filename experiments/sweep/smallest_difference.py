"""The smallest difference to base that a number of seeds can detect, from the noise of known runs.

In: kept records, those below a workdir, or a number. Out: sentences of a dry run.
"""

import math
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

import experiments
from experiments.report import against_base
from experiments.report.effects import SIGNIFICANT
from experiments.report.measures import (
    DEV_BLEU,
    PERPLEXITY,
    TEST_BLEU,
    Measure,
    by_seed,
    perplexity_at,
)
from experiments.report.notes import matters
from experiments.run import record
from experiments.run.outcomes import Outcome, read_outcomes
from experiments.sweep.dry_run import WIDTH
from experiments.tables.ablation import as_dict
from experiments.tables.paper_base import config_file

KEPT = Path(experiments.__path__[0]) / "results"
_SEEDS = (2, 3, 5, 10)
# Enough for a median within a few percent, in a second or two.
_NUM_TABLES = 60


class Noise(NamedTuple):
    """How far apart the seeds of a row are."""

    deviation: float  # of the compared values, without what all rows share at a seed
    num_rows: int  # that it was measured on; 0 if the user gave it
    typical: float  # a typical value of the measure, as it is compared


def smallest(num_rows: int, num_seeds: int) -> float:
    """Half of a row's simultaneous interval, in standard deviations of the noise between seeds.

    The median over simulated tables with equal variances.
    """
    random = np.random.default_rng(0)
    values = random.normal(size=(_NUM_TABLES, num_rows + 1, num_seeds))
    halves = against_base.half_widths(against_base.contrasts(values), SIGNIFICANT)
    return float(np.median(halves))


def text(
    base: ConfigDict, num_rows: int, num_seeds: int, *, bleu: float | None, workdir: Path | None
) -> str:
    """The smallest differences in BLEU and perplexity that 2, 3, 5, 10 and `num_seeds` detect.

    Args:
      num_rows: besides base.
      bleu: the standard deviation of BLEU between the seeds of a row, if the user gives it.
      workdir: its runs come before the kept ones.

    Raises:
      ValueError: `bleu` is not positive and finite.
    """
    if bleu is not None:
        if not 0 < bleu < math.inf:
            raise ValueError(f"--noise={bleu:g}; it must be positive and finite")
        found = {TEST_BLEU: Noise(bleu, 0, 0.0)}
        source = f"--noise={bleu:g} BLEU between the seeds of a row"
    else:
        found, source = _of_records(as_dict(base), workdir)
    if num_rows < 1:
        return "Smallest difference: no row is compared with base."
    if not found:
        return _wrapped(
            "Smallest difference: not known; give --noise=S, the standard deviation of BLEU "
            "between the seeds of a row, or a --workdir with two seeds of this base."
        )
    head = _wrapped(
        f"Smallest difference to base that is told from noise (docs/STATISTICS.md), by {source}; a "
        "real one of this size is seen half the time:"
    )
    lines = [head]
    shown: set[int] = {*_SEEDS, num_seeds} - {1}
    for seeds in sorted(shown):
        size = smallest(num_rows, seeds)
        its = [_text(measure, noise, size) for measure, noise in found.items()]
        lines.append(f"  {seeds} seeds: {', '.join(its)}")
    return "\n".join(lines)


def _text(measure: Measure, noise: Noise, size: float) -> str:
    if measure == PERPLEXITY:
        measure = perplexity_at(math.exp(noise.typical))
    found = measure.as_difference(noise.deviation * size, noise.typical)
    return f"{found:.{measure.digits}f} {measure.short}"


def _of_records(base: dict[str, Any], workdir: Path | None) -> tuple[dict[Measure, Noise], str]:
    """The noise at this base, from the first place that has any, and the name of that place."""
    for place in (workdir, KEPT):
        if place is not None and place.is_dir() and (found := _noise(_of_base(place, base))):
            num_rows = max(noise.num_rows for noise in found.values())
            where = "experiments/results" if place == KEPT else place
            return found, f"the {num_rows} rows of this base in {where}"
    return {}, ""


def _wrapped(words: str) -> str:
    return textwrap.fill(words, WIDTH, break_long_words=False, break_on_hyphens=False)


def _of_base(workdir: Path, base: dict[str, Any]) -> list[Outcome]:
    """The finished runs of tables with this base; missing keys have their value in base.py."""
    defaults = record.settings(config_file("base"))
    wanted = defaults | record.settings(base)

    def is_wanted(run: record.Run) -> bool:
        if run.kind != "fixed":
            return False
        its = defaults | record.settings(run.base)
        return its.keys() == wanted.keys() and not any(
            its[key] != wanted[key] and matters(key, wanted) for key in its
        )

    found = read_outcomes(workdir, is_wanted).runs
    return [outcome for outcome in found if outcome.record is not None]


def _noise(outcomes: Sequence[Outcome]) -> dict[Measure, Noise]:
    """Noise by measure, with only one BLEU: the residuals of rows and seeds in each table."""
    found = {}
    tables: dict[tuple[str, Path], dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        place = outcome.run.table, outcome.directory.parent.parent
        tables.setdefault(place, {}).setdefault(outcome.run.row, []).append(outcome)
    for measure in (TEST_BLEU, DEV_BLEU, PERPLEXITY):
        if measure is DEV_BLEU and TEST_BLEU in found:
            continue
        squares, degrees, num_rows, of_base = 0.0, 0, 0, []
        for rows in tables.values():
            values = {name: by_seed(measure, its) for name, its in rows.items()}
            base = values.get("base", {})
            compared = {
                name: [measure.compared(x) for _, x in sorted(its.items())]
                for name, its in values.items()
                if its.keys() == base.keys()
            }
            # None that diverged, nor a wild row: the others are judged without it.
            same = {name: its for name, its in compared.items() if np.isfinite(its).all()}
            if len(base) < 2 or len(same) < 2:
                continue
            others = np.array([its for name, its in same.items() if name != "base"])
            tame = others[~against_base.are_wild(others[None])[0]]
            table = np.array([*([same["base"]] if "base" in same else []), *tame])
            left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
            squares += float((left**2).sum())
            degrees += (table.shape[0] - 1) * (table.shape[1] - 1)
            num_rows += len(table)
            of_base += [x for x in map(measure.compared, base.values()) if math.isfinite(x)]
        if degrees and squares > 0 and of_base:
            typical = statistics.fmean(of_base)
            found[measure] = Noise((squares / degrees) ** 0.5, num_rows, typical)
    return found
