"""Whether a difference between two models is more than noise.

In: scores of several seeds, or counts of two models, sentence by sentence. Out: differences with
95 % intervals and two-sided p values, and a one-sided p value for exceeding a target. Needs only
numpy and scipy; scipy.stats takes a second to load, so the t distribution comes from scipy.special.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

_CONFIDENCE = 0.95
# The smallest p value, 1 / 2001, is then still below 5 % after correction over 20 rows.
_NUM_RESAMPLES = 2_000


class Comparison(NamedTuple):
    """The difference between two models, in the unit of what was compared."""

    difference: float
    low: float  # of its confidence interval
    high: float
    p_value: float  # two-sided, for the null hypothesis of no difference


def mean_interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of a mean, by Student's t.

    None if there is none: fewer than two values, or one that is not finite.
    """
    if not _can_be_compared(values):
        return None
    if _are_equal(values):
        return 0.0  # even if rounding of their mean would give another result
    return _half_width(float(len(values) - 1), math.sqrt(_squared_error(values)))


def p_value_above(values: Sequence[float], target: float) -> float | None:
    """One-sided p value that the mean behind `values` is `target` or less, by Student's t.

    None if no test is possible: fewer than two values, one that is not finite, or values that do
    not vary.
    """
    if not _can_be_compared(values) or _are_equal(values):
        return None
    from scipy import special

    t = (float(np.mean(values)) - target) / math.sqrt(_squared_error(values))
    return float(special.stdtr(len(values) - 1, -t))


def welch_t_test(
    values: Sequence[float], base: Sequence[float], *, level: float = 1 - _CONFIDENCE
) -> Comparison | None:
    """The mean of `values` minus that of `base`, for independent runs of unequal variance.

    The interval has confidence 1 - `level`.
    None if no test is possible: fewer than two values on a side, one that is not finite, or sides
    that differ and do not vary. If both sides are constant and equal, p is 1.
    """
    if not (_can_be_compared(values) and _can_be_compared(base)):
        return None
    if _are_equal(values) and _are_equal(base):
        return Comparison(0.0, 0.0, 0.0, 1.0) if values[0] == base[0] else None
    from scipy import special

    squares = _squared_error(values), _squared_error(base)
    error = math.sqrt(sum(squares))
    if error == 0:
        return None  # the squares of their deviations underflow
    difference = float(np.mean(values) - np.mean(base))
    # Welch-Satterthwaite, with shares, since squares of squares may underflow.
    shares = (square / sum(squares) for square in squares)
    sizes = len(values), len(base)
    degrees = 1 / sum(share**2 / (size - 1) for share, size in zip(shares, sizes, strict=True))
    half_width = _half_width(degrees, error, level)
    p_value = 2 * float(special.stdtr(degrees, -abs(difference) / error))
    return Comparison(difference, difference - half_width, difference + half_width, p_value)


def paired_bootstrap(
    statistics: Integer[np.ndarray, "sentences counts"],
    base: Integer[np.ndarray, "base_sentences counts"],
    score: Callable[[Integer[np.ndarray, " counts"]], float],
    *,
    seed: int = 0,
) -> Comparison:
    """The score of one model minus that of another on the same sentences, by paired bootstrap.

    The interval is given by percentiles (Koehn 2004); p is the share of samples whose difference
    is at least as far from their mean as the observed one from zero (Riezler and Maxwell 2005).
    It measures the effect of the choice of sentences, not the noise between seeds.

    Args:
      statistics: counts of each sentence, such as `bleu.sentence_statistics`.
      base: the same for the other model, sentence by sentence.
      score: of counts summed over sentences, such as `bleu.bleu_of`.
      seed: of the samples.

    Raises:
      ValueError: there are no sentences, or not equally many.
    """
    observed, samples = _bootstrap(statistics, base, score, seed)
    if not np.ptp(samples) and observed:  # they do not vary, and say nothing
        return Comparison(observed, -math.inf, math.inf, 1.0)
    tail = 100 * (1 - _CONFIDENCE) / 2
    low, high = np.percentile(samples, [tail, 100 - tail])
    as_far = np.count_nonzero(abs(samples - samples.mean()) >= abs(observed))
    return Comparison(observed, float(low), float(high), (as_far + 1) / (_NUM_RESAMPLES + 1))


def simultaneous_bootstrap(
    pairs: Sequence[tuple[Integer[np.ndarray, "sentences counts"], Integer[np.ndarray, "_ _"]]],
    score: Callable[[Integer[np.ndarray, " counts"]], float],
    level: float = 1 - _CONFIDENCE,
) -> list[Comparison | None]:
    """Several models, each against a base on the same sentences, drawn as in `paired_bootstrap`.

    Intervals and p values hold for all models at once: a difference, in standard deviations of its
    samples, is compared with the largest over all models in each sample (Westfall and Young 1993).
    A p value is below `level` if the interval excludes zero. None for a model that differs by as
    much in every sample, as where there is only one sentence.

    Raises:
      ValueError: as `paired_bootstrap`.
    """
    found = [_bootstrap(ours, theirs, score, seed=0) for ours, theirs in pairs]
    # Of equal numbers it may be rounded to more than 0.
    deviations = [float(samples.std()) if np.ptp(samples) else 0.0 for _, samples in found]
    largest = np.zeros(_NUM_RESAMPLES)
    for (_, samples), deviation in zip(found, deviations, strict=True):
        if deviation > 0:
            largest = np.maximum(largest, abs(samples - samples.mean()) / deviation)
    # The observed sample counts as one of them, in the p value and hence in the interval.
    rank = math.ceil((_NUM_RESAMPLES + 1) * level) - 2
    ratio = float(np.sort(largest)[::-1][rank]) if rank >= 0 else math.inf
    made: list[Comparison | None] = []
    for (observed, _), deviation in zip(found, deviations, strict=True):
        if deviation == 0:
            made.append(None if observed else Comparison(0.0, 0.0, 0.0, 1.0))
            continue
        half_width = ratio * deviation
        as_far = np.count_nonzero(largest >= abs(observed) / deviation)
        p_value = (as_far + 1) / (_NUM_RESAMPLES + 1)
        made.append(Comparison(observed, observed - half_width, observed + half_width, p_value))
    return made


def _bootstrap(
    statistics: Integer[np.ndarray, "sentences counts"],
    base: Integer[np.ndarray, "base_sentences counts"],
    score: Callable[[Integer[np.ndarray, " counts"]], float],
    seed: int,
) -> tuple[float, Float[np.ndarray, " samples"]]:
    """The difference of two scores, observed and for each sample of the sentences."""
    num_sentences = len(statistics)
    if num_sentences == 0 or num_sentences != len(base):
        raise ValueError(
            f"a paired bootstrap needs the same sentences of both models, but there are "
            f"{num_sentences} and {len(base)}"
        )
    observed = score(statistics.sum(0)) - score(base.sum(0))
    random = np.random.default_rng(seed)
    samples = np.empty(_NUM_RESAMPLES)
    for place in range(_NUM_RESAMPLES):
        sample = random.integers(num_sentences, size=num_sentences)
        times = np.bincount(sample, minlength=num_sentences)  # how often each sentence is drawn
        samples[place] = score(times @ statistics) - score(times @ base)
    return observed, samples


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for multiple testing, each at most 1 (Holm 1979); None stays None.

    If those below 5 % count as real, the chance of any false alarm is below 5 %.
    """
    tested = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (value, place) in enumerate(tested):
        largest = max(largest, (len(tested) - rank) * value)
        corrected[place] = min(1.0, largest)
    return corrected


def _squared_error(values: Sequence[float]) -> float:
    """The squared standard error of the mean."""
    return float(np.var(values, ddof=1)) / len(values)


def _half_width(degrees: float, error: float, level: float = 1 - _CONFIDENCE) -> float:
    """Half the width of the interval, by Student's t, for this standard error."""
    from scipy import special

    return float(special.stdtrit(degrees, 1 - level / 2)) * error


def _can_be_compared(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(map(math.isfinite, values))


def _are_equal(values: Sequence[float]) -> bool:
    return min(values) == max(values)
