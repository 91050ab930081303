"""How far the rows of a table are from its base row, and whether that is more than noise.

docs/STATISTICS.md has the rule. Rows that share the same seeds with base are compared seed by seed,
all together; others by Welch's test each; BLEU at one seed by a paired bootstrap over sentences.
Intervals and p values of a measure hold for all rows at once. A row is taken to differ if its
interval does not contain zero.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.report import against_base
from experiments.report.measures import Measure, by_seed
from experiments.report.run_files import Sentences, sentences
from experiments.run.outcomes import Outcome, records_of
from t2t_jax.evaluation.significance import Comparison, simultaneous_bootstrap, welch_t_test

SIGNIFICANT = 0.05
SEEDS, WELCH, BOOTSTRAP = "seeds", "Welch", "bootstrap"
# Over seeds, the rows differ; over sentences, two models of one seed do.
MARK, MODELS_MARK = "*", "†"


class Effect(NamedTuple):
    """A row against the base row, in one measure."""

    # Between the means over the compared seeds, in the unit of the table; in a bootstrap, between
    # two runs of one seed.
    difference: float
    test: str = ""  # SEEDS | WELCH | BOOTSTRAP | "" for none
    # Simultaneous over the rows of the table; of logarithms if the measure is logarithmic.
    comparison: Comparison | None = None
    # In the unit of the table: the ends of its interval, and the smallest detectable difference.
    ends: tuple[float, float] | None = None
    smallest: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is taken as real."""
        return self.comparison is not None and not (
            self.comparison.low <= 0 <= self.comparison.high
        )

    @property
    def mark(self) -> str:
        """The mark of a difference taken as real, between rows or between two models."""
        return (MODELS_MARK if self.test == BOOTSTRAP else MARK) if self.is_significant else ""

    def is_within(self, margin: float) -> bool:
        """Whether it is shown to be less than `margin`, in the unit of the table.

        Two one-sided tests, done by whether the interval lies inside, and so corrected like it.
        """
        return self.ends is not None and -margin < self.ends[0] and self.ends[1] < margin


class _Side(NamedTuple):
    """A row and base."""

    here: dict[int, float]  # by seed, in the unit of the table
    there: dict[int, float]
    pair: tuple[Sentences, Sentences] | None  # of one seed, if there is only one

    @property
    def shared(self) -> tuple[int, ...]:
        """The seeds that both sides have."""
        return tuple(sorted(self.here.keys() & self.there.keys()))

    @property
    def compared(self) -> Sequence[Mapping[int, float]]:
        """Both, at the shared seeds or, if there are none, at all."""
        return _at(self.shared, *self[:2]) if self.shared else self[:2]


def effects(measure: Measure, rows: Mapping[str, Sequence[Outcome]]) -> dict[str, Effect]:
    """The effect of each measured row, by name; empty without a base row."""
    base = rows.get("base", ())
    sides = {
        name: side
        for name, outcomes in rows.items()
        if name != "base" and (side := _side(measure, outcomes, base)) is not None
    }
    found = {name: Effect(_difference(*side.compared)) for name, side in sides.items()}
    groups: dict[tuple, dict[str, _Side]] = {}
    for name, side in sides.items():
        if (test := _test(measure, side)) is not None:
            groups.setdefault(test, {})[name] = side
    num_tested = sum(map(len, groups.values()))
    for (test, *_), its_sides in groups.items():
        # Each group gets its share of the level, so that all together have the whole.
        share = len(its_sides) / num_tested
        compare = {SEEDS: _by_seeds, WELCH: _by_welch, BOOTSTRAP: _by_sentences}[test]
        for name, comparison in compare(measure, its_sides, SIGNIFICANT * share).items():
            comparison = comparison._replace(p_value=min(1.0, comparison.p_value / share))
            found[name] = _effect(measure, its_sides[name], test, comparison)
    return found


def _effect(measure: Measure, side: _Side, test: str, comparison: Comparison) -> Effect:
    here, there = side.compared if test == SEEDS else side[:2]
    is_bootstrap = test == BOOTSTRAP
    difference = comparison.difference if is_bootstrap else _difference(here, there)
    base = statistics.fmean(map(measure.compared, there.values()))
    half_width = (comparison.high - comparison.low) / 2
    low, high, smallest = (
        measure.as_difference(each, base) for each in (comparison.low, comparison.high, half_width)
    )
    return Effect(difference, test, comparison, (low, high), smallest)


def _side(measure: Measure, outcomes: Sequence[Outcome], base: Sequence[Outcome]) -> _Side | None:
    here, there = by_seed(measure, outcomes), by_seed(measure, base)
    if not here or not there:
        return None
    measured = (v for v in records_of([*outcomes, *base]) if measure.value(v) is not None)
    if len({_kind(measure, values) for values in measured}) > 1:
        return None  # the note below the table says why
    has_one_seed = measure.is_bleu and min(len(here), len(there)) == 1
    return _Side(here, there, _pair(measure.split, outcomes, base) if has_one_seed else None)


def _difference(here: Mapping[int, float], there: Mapping[int, float]) -> float:
    return statistics.fmean(here.values()) - statistics.fmean(there.values())


def _at(seeds: Sequence[int], *sides: Mapping[int, float]) -> list[dict[int, float]]:
    return [{seed: side[seed] for seed in seeds} for side in sides]


def _test(measure: Measure, side: _Side) -> tuple | None:
    """A row's test, and the seeds it shares with those tested together; None without a test."""
    if side.pair is not None:
        return (BOOTSTRAP,)
    values = [measure.compared(value) for value in (*side.here.values(), *side.there.values())]
    if min(len(side.here), len(side.there)) < 2 or not all(map(math.isfinite, values)):
        return None
    if len(side.shared) < 2:
        return (WELCH,)
    here, there = (set(values.values()) for values in _at(side.shared, side.here, side.there))
    # At a ceiling, as with probes: that nothing varied is chance, not proof.
    return None if len(here) == len(there) == 1 and here != there else (SEEDS, side.shared)


def _by_seeds(measure: Measure, sides: Mapping[str, _Side], level: float) -> dict[str, Comparison]:
    """All rows together; none for a row without noise, unless it is base to the last digit."""
    base = next(iter(sides.values()))
    rows = [base.there, *(side.here for side in sides.values())]
    values = [[measure.compared(row[seed]) for seed in base.shared] for row in rows]
    found = against_base.contrasts(np.array([values]))
    halves = against_base.half_widths(found, level)[0]
    p_values = against_base.p_values(found)[0]
    made = {}
    for place, name in enumerate(sides):
        difference, half = found.differences[0, place], halves[place]
        if found.have_noise[0, place]:
            ends = difference, difference - half, difference + half, p_values[place]
            made[name] = Comparison(*map(float, ends))
        elif difference == 0:
            made[name] = Comparison(0.0, 0.0, 0.0, 1.0)
    return made


def _by_welch(measure: Measure, sides: Mapping[str, _Side], level: float) -> dict[str, Comparison]:
    """Rows with other seeds than base, each at its share of the level."""
    made = {}
    for name, side in sides.items():
        values = [[measure.compared(value) for value in row.values()] for row in side[:2]]
        if (found := welch_t_test(*values, level=level / len(sides))) is not None:
            made[name] = found._replace(p_value=min(1.0, found.p_value * len(sides)))
    return made


def _by_sentences(
    measure: Measure, sides: Mapping[str, _Side], level: float
) -> dict[str, Comparison]:
    """Rows of one seed, on the same samples of sentences."""
    from t2t_jax.evaluation.bleu import bleu_of  # imports sacreBLEU

    pairs = [
        (this.statistics, other.statistics)
        for this, other in (side.pair for side in sides.values() if side.pair)
    ]
    found = zip(sides, simultaneous_bootstrap(pairs, bleu_of, level), strict=True)
    return {name: comparison for name, comparison in found if comparison is not None}


def _kind(measure: Measure, values: dict[str, Any]) -> Any:
    """What must be the same for two numbers to be compared."""
    direction = values.get("direction")
    if measure.is_bleu:
        scores = values.get("scores", {}).get(measure.split, {})
        return direction, scores.get("bleu_signature"), str(scores.get("sha256"))  # of its files
    return direction, None if measure.any_vocabulary else values.get("vocabulary_fingerprint")


def _pair(
    split: str, outcomes: Sequence[Outcome], base: Sequence[Outcome]
) -> tuple[Sentences, Sentences] | None:
    """The sentences of the first seed for which both have BLEU counts of the same ones."""
    of_base = {outcome.run.seed: outcome for outcome in base}
    for outcome in outcomes:
        if outcome.run.seed not in of_base:
            continue
        this, other = (sentences_of(each, split) for each in (outcome, of_base[outcome.run.seed]))
        if this and other and _same_sentences(this, other):
            return this, other
    return None


def sentences_of(outcome: Outcome, split: str) -> Sentences | None:
    """The counts of each sentence, unless they are of other translations than the record's."""
    from t2t_jax.evaluation.bleu import bleu_of

    if outcome.record is None:
        return None
    try:
        found = sentences(outcome.directory, split)
    except (OSError, ValueError):
        return None  # a note below the table says so
    bleu = outcome.record.get("scores", {}).get(split, {}).get("bleu")
    if found is None or bleu is None:
        return None
    # Somebody may have scored the run again, with another beam.
    return found if math.isclose(bleu_of(found.statistics.sum(0)), bleu) else None


def _same_sentences(this: Sentences, other: Sentences) -> bool:
    return this[:2] == other[:2]
