"""The numbers of a table: where each is found in a record, and its mean over seeds.

An entry in `MEASURES` or `COSTS` gives a number of the records its columns, its tests and its place
in the CSV.
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
    keys: tuple[str, ...]  # its path in the scores of the split
    digits: int  # after the decimal point
    difference: str = ""  # title of the column of differences; without one the mean is marked
    paper: str = ""  # end of the titles of the paper's columns, if the paper reports it
    more_is_better: bool = True
    factor: float = 1.0  # from the record's unit to the table's
    is_logarithmic: bool = False  # whether its logarithm is compared
    is_bleu: bool = False  # and so can be recomputed from the counts of any sentences
    any_vocabulary: bool = False  # comparable between different vocabularies, as BLEU is
    unless: str = ""  # a score of the split; a record with it does not have this measure

    def value(self, record: dict[str, Any]) -> float | None:
        """The number in a record; None if it was not measured."""
        found: Any = record.get("scores", {}).get(self.split, {})
        if self.unless in found:
            return None
        for key in self.keys:
            found = found.get(key) if isinstance(found, dict) else None
        return None if found is None else self.factor * found

    def compared(self, value: float) -> float:
        """The number that tests and intervals of differences use."""
        if not self.is_logarithmic:
            return value
        return math.log(value) if value > 0 else math.nan

    def as_difference(self, difference: float, base: float) -> float:
        """A difference of compared numbers in the unit of the table; `base` is compared too."""
        if not self.is_logarithmic:
            return difference
        try:
            return math.exp(base) * math.expm1(difference)
        except OverflowError:  # an interval of two seeds may be as wide
            return math.inf


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
    """The names of the test sets that a run was scored on besides its own."""
    return [
        name for name, its in record.get("scores", {}).items() if "name" in its and is_name(name)
    ]


_NEAR_1 = 1.5


def perplexity_at(value: float) -> Measure:
    """PERPLEXITY, with a digit more near 1: there, rows differ by hundredths."""
    more = 1 if value < _NEAR_1 else 0
    return PERPLEXITY._replace(digits=PERPLEXITY.digits + more)


def measures_of(outcomes: Iterable[Outcome]) -> list[Measure]:
    """MEASURES, and BLEU on every test set that a run was scored on besides its own.

    If there are any, BLEU on its own test set is named after the file, if all runs have the same.
    The lowest perplexity decides the digits of all.
    """
    records = records_of(outcomes)
    names = {name for values in records for name in test_sets(values)}
    own = {flat_dict(values["config"]).get("data.test") for values in records}
    known = list(MEASURES)
    perplexities = [value for each in records if (value := PERPLEXITY.value(each)) is not None]
    known[known.index(PERPLEXITY)] = perplexity_at(min(perplexities, default=math.inf))
    if names and len(own) == 1 and own.isdisjoint({None, *names}):
        title = f"BLEU ({own.pop()})"
        place = known.index(TEST_BLEU)
        known[place] = TEST_BLEU._replace(title=title, difference=f"Δ{title}")
    return [*known, *(_bleu(name, f"{name} BLEU", f"ΔBLEU ({name})") for name in sorted(names))]


class Cost(NamedTuple):
    """A cost of a run; its mean over seeds has no interval and is not tested."""

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
    """The paper's number for a row; None if there is none."""
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
    half_width: float | None  # of the 95 % interval (Student's t); None for one seed


def by_seed(measure: Measure, outcomes: Iterable[Outcome]) -> dict[int, float]:
    """The measure of every finished run that has it; empty if any run has diverged.

    The seeds that did not diverge say nothing about the row.
    """
    outcomes = list(outcomes)
    if any(outcome.has_diverged for outcome in outcomes):
        return {}
    finished = ((each.run.seed, each.record) for each in outcomes if each.record is not None)
    found = {seed: measure.value(record) for seed, record in finished}
    return {seed: value for seed, value in found.items() if value is not None}


def values_of(measure: Measure, outcomes: Iterable[Outcome]) -> list[float]:
    """The values of `by_seed`, without the seeds."""
    return [*by_seed(measure, outcomes).values()]


def mean(values: Sequence[float]) -> Mean | None:
    """Mean and interval over the seeds; None without values."""
    if not values:
        return None
    return Mean(statistics.fmean(values), mean_interval(values))
