"""How far the rows of a table are from its base row, and whether that is more than noise.

Where both have two seeds or more, Welch's test over seeds; else, of BLEU, a paired bootstrap over
the sentences that both translated. The p values of a measure are corrected over all rows (Holm).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.report.measures import Measure, mean, values_of
from experiments.report.run_files import Sentences, sentences
from experiments.run.outcomes import Outcome, records_of
from t2t_jax.evaluation.significance import Comparison, holm, paired_bootstrap, welch_t_test

SIGNIFICANT = 0.05
WELCH, BOOTSTRAP = "Welch", "bootstrap"


class Effect(NamedTuple):
    """A row against the base row, in one measure."""

    # Of the means, in the unit of the table; by a bootstrap, of two runs of one seed.
    difference: float
    test: str = ""  # WELCH | BOOTSTRAP | "" for none
    # Of the logarithms where the measure says so.
    comparison: Comparison | None = None
    corrected_p: float | None = None  # over the rows of the table

    @property
    def is_significant(self) -> bool:
        """Whether the difference is taken as real."""
        return self.corrected_p is not None and self.corrected_p < SIGNIFICANT


def effects(measure: Measure, rows: Mapping[str, Sequence[Outcome]]) -> dict[str, Effect]:
    """The effect of each row that was measured, by name; none without a base row."""
    base = rows.get("base", ())
    found = {}
    for name, outcomes in rows.items():
        if name != "base" and (effect := _effect(measure, outcomes, base)) is not None:
            found[name] = effect
    p_values = [effect.comparison and effect.comparison.p_value for effect in found.values()]
    return {
        name: effect._replace(corrected_p=p_value)
        for (name, effect), p_value in zip(found.items(), holm(p_values), strict=True)
    }


def _effect(
    measure: Measure, outcomes: Sequence[Outcome], base: Sequence[Outcome]
) -> Effect | None:
    here, there = values_of(measure, outcomes), values_of(measure, base)
    this_mean, base_mean = mean(here), mean(there)
    if this_mean is None or base_mean is None:
        return None
    if len({_kind(measure, values) for values in records_of([*outcomes, *base])}) > 1:
        return None  # the note below the table says why
    difference = this_mean.mean - base_mean.mean
    compared, with_base = ([measure.compared(value) for value in side] for side in (here, there))
    if (comparison := welch_t_test(compared, with_base)) is not None:
        return Effect(difference, WELCH, comparison)
    has_one_seed = min(len(here), len(there)) == 1
    if measure.is_bleu and has_one_seed:
        if (comparison := _bootstrap(measure.split, outcomes, base)) is not None:
            return Effect(comparison.difference, BOOTSTRAP, comparison)
    return Effect(difference)


def _kind(measure: Measure, values: dict[str, Any]) -> Any:
    """What must be the same for two numbers to be compared."""
    direction = values.get("direction")
    if measure.is_bleu:
        scores = values.get("scores", {}).get(measure.split, {})
        return direction, scores.get("bleu_signature"), str(scores.get("sha256"))  # of its files
    return direction, None if measure.any_vocabulary else values.get("vocabulary_fingerprint")


def _bootstrap(
    split: str, outcomes: Sequence[Outcome], base: Sequence[Outcome]
) -> Comparison | None:
    """With the first seed for which both have left what BLEU counts of their sentences."""
    from t2t_jax.evaluation.bleu import bleu_of  # it brings sacreBLEU

    of_base = {outcome.run.seed: outcome for outcome in base}
    for outcome in outcomes:
        if outcome.run.seed not in of_base:
            continue
        this, other = (sentences_of(each, split) for each in (outcome, of_base[outcome.run.seed]))
        if this and other and _same_sentences(this, other):
            return paired_bootstrap(this.statistics, other.statistics, bleu_of)
    return None


def sentences_of(outcome: Outcome, split: str) -> Sentences | None:
    """What `t2t-jax score` left of each sentence, unless of other translations than on record."""
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
