"""What tuning found for each row: the chosen values, and whether its difference to base remains.

In: outcomes of trials and of runs at the chosen values, and the effects of runs at a row's own
values. Out: numbers and sentences.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.report.effects import BOOTSTRAP, MARK, MODELS_MARK, Effect, effects
from experiments.report.measures import (
    ACCURACY,
    DEV_BLEU,
    PERPLEXITY,
    TEST_BLEU,
    Mean,
    Measure,
    mean,
    measures_of,
    perplexity_at,
    reported,
    values_of,
)
from experiments.report.notes import how_tested, not_all_seeds, smallest
from experiments.run import record
from experiments.run.outcomes import Outcome, records_of
from experiments.run.plain_text import counted
from experiments.run.trials import Trial, best, trials_of
from experiments.tables.ablation import Row, Score, changes_text
from experiments.tables.registry import find_table
from experiments.tables.tuning import is_number
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.keys import with_later_keys

ROBUST, VANISHES, APPEARS, REVERSES = "robust", "vanishes", "appears", "reverses"
NOT_SEEN, NOT_TESTED = "not seen", "not tested"


class TunedRow(NamedTuple):
    """The tuned side of a row of a tuned table."""

    trials: list[Trial]  # that are over
    chosen: dict[str, Any]  # key -> value; empty until known, or if all diverged
    outcomes: list[Outcome]  # at the chosen values
    is_own: bool  # whether those are the row's own runs, since it has the chosen values
    means: Mapping[str, Mean]  # by name of the measure
    effects: Mapping[str, Effect]  # against the tuned base; empty for the base row
    verdict: str  # on its difference to base, fixed and tuned
    direction: str  # whether the direction in the paper holds; "" if the paper has none
    edges: list[str]  # of the space that its chosen values are at
    losses: tuple[float | None, float | None]  # see `losses`

    @property
    def chosen_text(self) -> str:
        """The chosen values, as the text of a cell."""
        values = {key: f"{v:.4g}" if type(v) is float else v for key, v in self.chosen.items()}
        if not self.chosen and self.trials and best(self.trials) is None:
            return "each trial diverged"
        return changes_text(values) + (" (at the edge)" if self.edges else "")


class Tuning(NamedTuple):
    """What tuning found for a table."""

    words: list[str]  # of --tune
    num_trials: int
    rows: dict[str, TunedRow]
    method: list[str]
    notes: list[str]


def tuning(
    outcomes: Sequence[Outcome],
    fixed: Mapping[str, Sequence[Outcome]],
    fixed_effects: Mapping[str, Mapping[str, Effect]],
) -> Tuning | None:
    """The tuning of a table, from all its runs; None if nothing was tuned.

    Args:
      fixed: the runs at a row's own values, by row.
      fixed_effects: their effects, by name of the measure and of the row.
    """
    others = [outcome for outcome in outcomes if outcome.run.tuning is not None]
    if not others:
        return None
    by_row = {name: [each for each in others if each.run.row == name] for name in fixed}
    facts = _facts(others)
    numbers = {name: _facts(its)["trials"] for name, its in by_row.items() if its}
    trials = {name: trials_of(its, numbers.get(name, 0)) for name, its in by_row.items()}
    chosen = {name: _chosen(by_row[name], trials[name], numbers[name]) for name in numbers}
    tuned, own = {}, set()
    for name in chosen:
        tuned[name] = [each for each in by_row[name] if each.run.kind == "tuned" and each.run.point]
        if not tuned[name] and chosen[name] and _has(fixed[name], chosen[name]):
            tuned[name] = list(fixed[name])
            own.add(name)
    measures = measures_of([each for its in fixed.values() for each in its])
    by_measure = {measure.name: effects(measure, tuned) for measure in measures}
    papers = _paper_scores(others[0])
    rows = {}
    for name, its in tuned.items():
        means = {measure.name: mean(values_of(measure, its)) for measure in measures}
        its_fixed, its_tuned = (
            {measure: found[name] for measure, found in of.items() if name in found}
            for of in (fixed_effects, by_measure)
        )
        rows[name] = TunedRow(
            trials=trials[name],
            chosen=chosen[name],
            outcomes=its,
            is_own=name in own,
            means={measure: found for measure, found in means.items() if found is not None},
            effects=its_tuned,
            verdict=_divergence("tuned", its)
            or _divergence("fixed", fixed[name])
            or _verdict(its_fixed, its_tuned),
            direction=_direction(
                measures, its_fixed, its_tuned, papers.get(name), papers.get("base")
            ),
            edges=_edges(trials[name], chosen[name]),
            losses=losses(trials[name], chosen[name]),
        )
    return Tuning(
        words=facts["space"],
        num_trials=facts["trials"],
        rows=rows,
        method=_method(by_row, trials),
        notes=[
            *_HOW_TO_READ,
            *(_DIRECTION for _ in [0] if any(row.direction for row in rows.values())),
            *smallest(measures, by_measure, "between tuned rows"),
            *_of_tests(by_measure, fixed_effects),
            *(f"Tuned: {each}" for each in not_all_seeds(_records_of(tuned), by_measure)),
            *_said_of_rows(rows, fixed),
            *_cost(outcomes),
        ],
    )


def _facts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The space and the number of trials: those of the runs that are at a value chosen by them."""
    tuned = [outcome for outcome in outcomes if outcome.run.kind == "tuned"]
    tunings: list[Any] = [outcome.run.tuning for outcome in tuned or outcomes]
    return max(tunings, key=lambda tuning: tuning["trials"])


def _chosen(outcomes: Iterable[Outcome], trials: Sequence[Trial], number: int) -> dict[str, Any]:
    points = [each.run.point for each in outcomes if each.run.kind == "tuned" and each.run.point]
    if points:
        return points[0]
    return (best(trials) or {}) if len(trials) >= number else {}


def _has(outcomes: Iterable[Outcome], point: Mapping[str, Any]) -> bool:
    configs = [flat_dict(outcome.run.config) for outcome in outcomes]
    return all(config.get(key) == value for config in configs for key, value in point.items())


def verdict_of(fixed: Effect | None, tuned: Effect | None) -> str:
    """Whether there is a difference at the rows' own values, and at those chosen for each."""
    if fixed is None or tuned is None or not fixed.comparison or not tuned.comparison:
        return NOT_TESTED
    same_sign = fixed.comparison.difference * tuned.comparison.difference > 0
    word = {
        (True, True): ROBUST if same_sign else REVERSES,
        (True, False): VANISHES,
        (False, True): APPEARS,
        (False, False): NOT_SEEN,
    }[fixed.is_significant, tuned.is_significant]
    if BOOTSTRAP in (fixed.test, tuned.test) and word != NOT_SEEN:
        return f"{word} (two models of one seed)"
    return word


def losses(trials: Sequence[Trial], chosen: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The loss in dev perplexity at half, and at twice, the chosen value of a single tuned key.

    Between trials, the logarithm of perplexity is taken to be linear in that of the value. None
    outside the range of the trials, or if several keys are tuned; infinite next to one that
    diverged.
    """
    if len(chosen) != 1:
        return None, None
    [(key, value)] = chosen.items()
    if not is_number(value) or value <= 0:
        return None, None
    places = sorted(
        (math.log(trial.point[key]), trial.perplexity)
        for trial in trials
        if is_number(trial.point.get(key)) and trial.point[key] > 0
    )
    here = next((p for place, p in places if math.isclose(place, math.log(value))), None)
    if here is None:
        return None, None
    half, twice = (_between(places, math.log(value * factor)) for factor in (0.5, 2.0))
    return (
        None if half is None else half - here,
        None if twice is None else twice - here,
    )


def _between(places: Sequence[tuple[float, float]], at: float) -> float | None:
    for (low, before), (high, after) in zip(places, places[1:], strict=False):
        if low <= at <= high and low < high:
            share = (at - low) / (high - low)
            if not (math.isfinite(before) and math.isfinite(after)):
                return math.inf
            return math.exp((1 - share) * math.log(before) + share * math.log(after))
    return None


def _edges(trials: Sequence[Trial], chosen: Mapping[str, Any]) -> list[str]:
    """The chosen value if it is the lowest or the highest of all trials; of a single key."""
    if len(chosen) != 1:  # of points scattered over several axes, most are near some edge
        return []
    [(key, value)] = chosen.items()
    values = {trial.point.get(key) for trial in trials}
    if not all(map(is_number, (value, *values))) or len(values) < 2:
        return []
    ends = {min(values): "lowest", max(values): "highest"}  # pyright: ignore
    return [f"{ends[value]} {changes_text(chosen)}"] if value in ends else []


def _divergence(which: str, outcomes: Sequence[Outcome]) -> str:
    number = sum(outcome.has_diverged for outcome in outcomes)
    return f"{which}, {number} of {len(outcomes)} seeds diverged" if number else ""


def _verdict(fixed: Mapping[str, Effect], tuned: Mapping[str, Effect]) -> str:
    either = {*fixed, *tuned}  # only one of them, if base has diverged in the other
    bleu = TEST_BLEU if TEST_BLEU.name in either else DEV_BLEU
    return _by_measure(
        (measure, verdict_of(fixed.get(measure.name), tuned.get(measure.name)))
        for measure in (PERPLEXITY, bleu, ACCURACY)
        if measure.name in either
    )


def _by_measure(words: Iterable[tuple[Measure, str]]) -> str:
    """Such as "PPL robust; BLEU vanishes", or one word for both."""
    found = list(words)
    if len(found) > 1 and len({word for _, word in found}) == 1:
        return found[0][1]
    return "; ".join(f"{measure.short} {word}" for measure, word in found)


def _direction(
    measures: Iterable[Measure],
    fixed: Mapping[str, Effect],
    tuned: Mapping[str, Effect],
    paper: Score | None,
    paper_base: Score | None,
) -> str:
    """Whether our differences have the sign of the paper's, by measure."""
    words = []
    # That which the paper has numbers of, if it has any.
    has_dev = paper_base is None or reported(paper_base, DEV_BLEU) is not None
    bleu = DEV_BLEU if DEV_BLEU.name in {*fixed, *tuned} and has_dev else TEST_BLEU
    for measure in (each for each in measures if each.name in (PERPLEXITY.name, bleu.name)):
        # The paper reports BLEU on dev, unless a table has none.
        of = DEV_BLEU if measure.is_bleu and reported(paper, measure) is None else measure
        this, base = reported(paper, of), reported(paper_base, of)
        if measure.name in tuned and this is not None and base is not None and this != base:
            sign = this - base
            word = holds(sign, fixed.get(measure.name), tuned[measure.name], measure)
            words.append((measure, word))
    return _by_measure(words)


def holds(sign: float, fixed: Effect | None, tuned: Effect, measure: Measure) -> str:
    """Whether a difference has the reported sign, above all the tuned one."""
    if tuned.comparison is None:
        return NOT_TESTED
    signs = [
        0.0 if each is None or not each.is_significant else sign * each.difference
        for each in (fixed, tuned)
    ]
    if signs[1] > 0:
        return "holds" if signs[0] > 0 else "holds only tuned"
    if signs[1] < 0:
        return "does not hold"
    under = "" if tuned.smallest is None else f" under {tuned.smallest:.{measure.digits}f}"
    return f"{NOT_SEEN}{under}" + (", holds untuned" if signs[0] > 0 else "")


def _paper_scores(outcome: Outcome) -> dict[str, Score]:
    """The paper's scores of the rows known to this code, also at another base.

    There its numbers are not comparable with ours, but the signs of its differences are.
    """
    try:
        base = ConfigDict(with_later_keys(outcome.run.base))
        rows = find_table(outcome.run.table).make_rows(base)
        return {row.name: row.paper for row in rows if isinstance(row, Row) and row.paper}
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return {}  # the runs are older or newer than this code


_HOW_TO_READ = (
    "Tuned: each row at the values that were best for it, against base at those best for base, "
    f"tested as the others are. {ROBUST}: differs from base, to the same side, fixed and tuned; "
    f"{VANISHES}: fixed alone; {APPEARS}: tuned alone; {REVERSES}: both, to different sides; "
    f"{NOT_SEEN}: neither.",
    "ΔPPL at half, at twice: how much higher dev perplexity is at half or twice the chosen value, "
    "interpolated between trials in the logarithm of the value; blank beyond the trials. Trials "
    "are of one seed: small differences are within its noise.",
)
_DIRECTION = (
    "The paper's direction: whether the sign of its difference, at its own size and data, is that "
    "of ours here."
)


def _of_tests(
    tuned: Mapping[str, Mapping[str, Effect]], fixed: Mapping[str, Mapping[str, Effect]]
) -> list[str]:
    """What the marks of tuned rows mean, if no other row has them."""
    here, there = (
        how_tested([effect for its in of.values() for effect in its.values()])
        for of in (tuned, fixed)
    )
    return [each for each in here if each.startswith((MARK, MODELS_MARK)) and each not in there]


def _records_of(rows: Mapping[str, Sequence[Outcome]]) -> list[dict[str, Any]]:
    return [values for its in rows.values() for values in records_of(its)]


def _method(
    by_row: Mapping[str, Sequence[Outcome]], trials: Mapping[str, Sequence[Trial]]
) -> list[str]:
    outcomes = [each for its in by_row.values() for each in its]
    spaces: dict[tuple, list[str]] = {}
    for row, its in by_row.items():
        if its:
            facts = _facts(its)
            spaces.setdefault((*facts["space"], facts["trials"]), []).append(row)
    found = []
    for (*words, number), rows in spaces.items():
        which = "each row" if len(spaces) == 1 else " and ".join(rows)
        points = [each.point for each in max((trials[row] for row in rows), key=len)]
        shown = [", ".join(f"{value}" for value in point.values()) for point in points]
        its = [each for row in rows for each in by_row[row]]
        seeds = sorted({each.run.seed for each in its if each.run.kind == "trial"})
        found.append(
            f"Tuning: {which} was trained at the same {number} points of "
            f"{' and '.join(words)} ({'; '.join(shown)}), with seed "
            f"{' and '.join(map(str, seeds))}, and at that of the lowest dev perplexity again with "
            "the seeds of the table."
        )
    if len(spaces) > 1:
        found.append("Rows tuned at other points than base had other chances than base.")
    keys = {key for each in outcomes for key in each.run.point}
    own = {
        each.run.row: changes_text({k: v for k, v in each.run.changes.items() if k in keys})
        for each in outcomes
    }
    if any(own.values()):
        rows = ", ".join(f"{row} ({words})" for row, words in own.items() if words)
        found.append(f"Tuned values replace those the row itself sets: {rows}.")
    return found


def _said_of_rows(
    rows: Mapping[str, TunedRow], fixed: Mapping[str, Sequence[Outcome]]
) -> list[str]:
    found = []
    better = []
    for name, row in rows.items():
        own, tuned = mean(values_of(PERPLEXITY, fixed[name])), row.means.get(PERPLEXITY.name)
        if own is not None and tuned is not None and own.mean < tuned.mean:
            digits = perplexity_at(own.mean).digits
            better.append(f"{name} ({own.mean:.{digits}f}, tuned {tuned.mean:.{digits}f})")
    if better:
        found.append(
            "Of lower dev perplexity at its own value than at the one chosen, so that the space "
            f"has none as good or its trial had luck: {', '.join(better)}."
        )
    others = {
        name: len(records_of(row.outcomes))
        for name, row in rows.items()
        if row.outcomes and len(records_of(row.outcomes)) != len(records_of(fixed[name]))
    }
    if others:
        shown = ", ".join(f"{name} {number}" for name, number in others.items())
        found.append(f"At chosen values, the number of seeds is not n: {shown}.")
    edges = [f"{name} ({', '.join(row.edges)})" for name, row in rows.items() if row.edges]
    if edges:
        found.append(
            "At the edge of the space, so that a better value may lie beyond it: widen it. "
            f"{', '.join(edges)}."
        )
    own = [name for name, row in rows.items() if row.is_own]
    if own:
        found.append(
            f"What was chosen is what the row has anyway, so that its own runs serve: "
            f"{', '.join(own)}."
        )
    return found


def _cost(outcomes: Sequence[Outcome]) -> list[str]:
    """How many runs and hours tuning took, and what share of the total."""
    trials = [each for each in outcomes if each.run.kind == "trial" and _seconds(each) is not None]
    tuned = [each for each in outcomes if each.run.kind == "tuned" and _seconds(each) is not None]
    spent = sum(_seconds(each) or 0.0 for each in [*trials, *tuned])
    whole = sum(_seconds(each) or 0.0 for each in outcomes)
    diverged = sum(each.has_diverged for each in trials)
    lost = f", of which {diverged} diverged," if diverged else ""
    if not whole:
        return []
    return [
        f"Tuning took {counted(len(trials), 'trial')}{lost} and "
        f"{counted(len(tuned), 'run')} at chosen values: {_hours(spent)} of "
        f"{_hours(whole)} hours, {100 * spent / whole:.0f} % of all."
    ]


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"


def _seconds(outcome: Outcome) -> float | None:
    """Seconds of a run, also of a diverged trial; None if it is not over."""
    try:
        values = outcome.record or record.read_record(outcome.directory)
        return sum(values["seconds"].values())
    except (OSError, KeyError, TypeError, ValueError):
        return None
