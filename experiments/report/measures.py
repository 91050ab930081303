"""What a table says of its rows in numbers: where each lies in a record, and its mean over seeds.

An entry of `MEASURES` or of `COSTS` is all that a number needs to get its columns, its tests and
its place in the CSV.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from experiments.run.outcomes import Outcome, records_of
from experiments.tables.ablation import Score
from t2t_jax.evaluation.significance import mean_interval
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.name_of_test_set import is_name


class Measure(NamedTuple):
    """A score that every finished run has, or may have."""

    name: str  # of its columns in CSV
    title: str  # of its column in print
    short: str  # the same in a sentence
    split: str
    keys: tuple[str, ...]  # where it lies in the scores of the split
    digits: int  # after the decimal point
    difference: str = ""  # title of the column of differences; without one the mean is marked
    paper: str = ""  # ends the titles of what the paper reports of it, if it does
    more_is_better: bool = True
    factor: float = 1.0  # from the record's unit to that of the table
    is_logarithmic: bool = False  # whether its logarithm is what is compared
    is_bleu: bool = False  # and so can be made anew from the counts of any sentences
    any_vocabulary: bool = False  # whether it compares runs of different vocabularies, as BLEU does
    unless: str = ""  # a score of the split; where a record has it, this measure is left out

    def value(self, record: dict[str, Any]) -> float | None:
        """The number in a record; None where it was not measured."""
        found: Any = record.get("scores", {}).get(self.split, {})
        if self.unless in found:
            return None
        for key in self.keys:
            found = found.get(key) if isinstance(found, dict) else None
        return None if found is None else self.factor * found

    def compared(self, value: float) -> float:
        """The number that tests and intervals of differences are about."""
        if not self.is_logarithmic:
            return value
        return math.log(value) if value > 0 else math.nan

    def as_difference(self, difference: float, base: float) -> float:
        """In the unit of the table, a difference of what is compared to a base of what is."""
        return math.exp(base) * math.expm1(difference) if self.is_logarithmic else difference


def _bleu(split: str, short: str, difference: str, paper: str = "") -> Measure:
    title = f"BLEU ({split})"
    keys = ("bleu",)
    return Measure(f"{split}_bleu", title, short, split, keys, 1, difference, paper, is_bleu=True)


PERPLEXITY = Measure(
    name="dev_perplexity",
    title="PPL (dev)",
    short="PPL",
    split="dev",
    keys=("perplexity",),
    digits=2,
    difference="ΔPPL",
    paper="PPL",
    more_is_better=False,
    is_logarithmic=True,
)
DEV_BLEU = _bleu("dev", "dev BLEU", "ΔBLEU (dev)", "BLEU")
TEST_BLEU = _bleu("test", "BLEU", "ΔBLEU", "BLEU (test)")
LONG_BLEU = _bleu("long", "long BLEU", "ΔBLEU (long)")
ACCURACY = Measure(
    name="test_accuracy",
    title="accuracy (test, %)",
    short="accuracy",
    split="test",
    keys=("accuracy",),
    digits=1,
    difference="Δaccuracy",
    factor=100.0,
    unless="bleu",
)
_PROBES = tuple(
    Measure(
        name=f"probe_{kind}",
        title=f"{kind} (%)",
        short=f"{kind} probes",
        split="test",
        keys=("probes", kind),
        digits=1,
        factor=100.0,
        any_vocabulary=True,
    )
    for kind in ("order", "pronoun", "sense")
)
MEASURES = (PERPLEXITY, DEV_BLEU, TEST_BLEU, LONG_BLEU, ACCURACY, *_PROBES)


def test_sets(record: dict[str, Any]) -> list[str]:
    """The names of test sets that a run was scored on after its own."""
    return [
        name for name, its in record.get("scores", {}).items() if "name" in its and is_name(name)
    ]


def measures_of(outcomes: Iterable[Outcome]) -> list[Measure]:
    """MEASURES, and BLEU of every test set that a run was scored on after its own.

    Where there are such, that of its own is called after the file, if it is the same in all runs.
    """
    records = records_of(outcomes)
    names = {name for values in records for name in test_sets(values)}
    own = {flat_dict(values["config"]).get("data.test") for values in records}
    known = list(MEASURES)
    if names and len(own) == 1 and own.isdisjoint({None, *names}):
        title = f"BLEU ({own.pop()})"
        place = known.index(TEST_BLEU)
        known[place] = TEST_BLEU._replace(title=title, difference=f"Δ{title}")
    return [*known, *(_bleu(name, f"{name} BLEU", f"ΔBLEU ({name})") for name in sorted(names))]


class Cost(NamedTuple):
    """What a run took; its mean over seeds has no interval and is not tested."""

    name: str  # of its column in CSV
    title: str  # of its column in print
    digits: int  # after the decimal point
    value: Callable[[dict[str, Any]], float]  # of a record


def _training_speed(record: dict[str, Any]) -> float:
    return record["target_tokens"] / record["seconds"]["train"]


def _operations(record: dict[str, Any], which: str) -> float:
    return record["operations"][which] / 1e12


COSTS = (
    Cost("seconds", "seconds", 0, lambda record: sum(record["seconds"].values())),
    Cost(
        "target_tokens_millions", "tokens (10^6)", 2, lambda record: record["target_tokens"] / 1e6
    ),
    Cost("teraflop", "TFLOP", 2, lambda record: _operations(record, "without_padding")),
    Cost("teraflop_padded", "with padding", 2, lambda record: _operations(record, "with_padding")),
    Cost("target_tokens_per_second", "tokens/s", 0, _training_speed),
)


def reported(paper: Score | None, measure: Measure) -> float | None:
    """What the paper says of a row; None where it says nothing."""
    if paper is None:
        return None
    by_name = {
        PERPLEXITY.name: paper.perplexity,
        DEV_BLEU.name: paper.bleu,
        TEST_BLEU.name: paper.test_bleu,
    }
    return by_name.get(measure.name)


class Mean(NamedTuple):
    """Over seeds, in the unit of the table."""

    mean: float
    half_width: float | None  # of the 95 % interval (Student's t), which one seed lacks


def by_seed(measure: Measure, outcomes: Iterable[Outcome]) -> dict[int, float]:
    """The measure of every finished run that has it; of none if one of the runs has diverged.

    What is left then is of the seeds that did not, and says nothing of the row.
    """
    outcomes = list(outcomes)
    if any(outcome.has_diverged for outcome in outcomes):
        return {}
    finished = ((each.run.seed, each.record) for each in outcomes if each.record is not None)
    found = {seed: measure.value(record) for seed, record in finished}
    return {seed: value for seed, value in found.items() if value is not None}


def values_of(measure: Measure, outcomes: Iterable[Outcome]) -> list[float]:
    """What `by_seed` gives, without the seeds."""
    return [*by_seed(measure, outcomes).values()]


def mean(values: Sequence[float]) -> Mean | None:
    """Mean and interval of the seeds; None of no values."""
    if not values:
        return None
    return Mean(statistics.fmean(values), mean_interval(values))
