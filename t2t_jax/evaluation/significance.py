"""Whether a difference between two models is more than noise.

In: what several seeds scored, or what two models did sentence by sentence. Out: differences with
their 95 % intervals and two-sided p values. Numpy and scipy alone; scipy.stats takes a second to
load, which a command that tests nothing need not wait for.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Integer

_CONFIDENCE = 0.95
# So that the smallest p value, 1 / 2001, is still below 5 % after correction over 20 rows.
_NUM_RESAMPLES = 2_000


class Comparison(NamedTuple):
    """How far one model is from another, in the unit of what was compared."""

    difference: float
    low: float  # of its confidence interval
    high: float
    p_value: float  # two-sided, that there is no difference


def mean_interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of a mean, by Student's t.

    None where there is none to tell: fewer than two values, or one that is no finite number.
    """
    if not _can_be_compared(values):
        return None
    if _are_equal(values):
        return 0.0  # also where the rounding of their mean would say otherwise
    from scipy import stats

    half_width = stats.t.ppf((1 + _CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return float(half_width)


def welch_t_test(values: Sequence[float], base: Sequence[float]) -> Comparison | None:
    """The mean of `values` less that of `base`, of independent runs of unequal variance.

    None where no test can be made: fewer than two values on a side, or one that is no finite
    number, or sides that differ and do not vary at all. Where both are constant and equal, p is 1.
    """
    if not (_can_be_compared(values) and _can_be_compared(base)):
        return None
    if _are_equal(values) and _are_equal(base):
        return Comparison(0.0, 0.0, 0.0, 1.0) if values[0] == base[0] else None
    from scipy import stats

    with warnings.catch_warnings():
        # That one side hardly varies is no mistake here.
        warnings.simplefilter("ignore", RuntimeWarning)
        test: Any = stats.ttest_ind(values, base, equal_var=False)
        interval = test.confidence_interval(_CONFIDENCE)
    difference = float(np.mean(values) - np.mean(base))
    return Comparison(difference, float(interval.low), float(interval.high), float(test.pvalue))


def paired_bootstrap(
    statistics: Integer[np.ndarray, "sentences counts"],
    base: Integer[np.ndarray, "base_sentences counts"],
    score: Callable[[Integer[np.ndarray, " counts"]], float],
    *,
    seed: int = 0,
) -> Comparison:
    """The score of one model less that of another on the same sentences, drawn with replacement.

    The interval is that of the percentiles (Koehn 2004); p is the share of samples whose
    difference is as far from their mean as the observed one from zero (Riezler and Maxwell 2005).
    It knows how much the choice of sentences matters, and nothing of the noise between seeds.

    Args:
      statistics: counts of each sentence, such as `bleu.sentence_statistics`.
      base: the same of the other model, sentence by sentence.
      score: of counts summed over sentences, such as `bleu.bleu_of`.
      seed: of the samples.

    Raises:
      ValueError: there are no sentences, or not the same number of them.
    """
    num_sentences = len(statistics)
    if num_sentences == 0 or num_sentences != len(base):
        raise ValueError(
            f"a paired bootstrap needs the same sentences of both models, but there are "
            f"{num_sentences} and {len(base)}"
        )
    observed = score(statistics.sum(0)) - score(base.sum(0))
    random = np.random.default_rng(seed)
    drawn = np.zeros((_NUM_RESAMPLES, num_sentences), np.int64)  # how often each sentence is
    for times in drawn:
        sample = random.integers(num_sentences, size=num_sentences)
        times[:] = np.bincount(sample, minlength=num_sentences)
    samples = np.array(
        [
            score(ours) - score(theirs)
            for ours, theirs in zip(drawn @ statistics, drawn @ base, strict=True)
        ]
    )
    tail = 100 * (1 - _CONFIDENCE) / 2
    low, high = np.percentile(samples, [tail, 100 - tail])
    as_far = np.count_nonzero(abs(samples - samples.mean()) >= abs(observed))
    return Comparison(observed, float(low), float(high), (as_far + 1) / (_NUM_RESAMPLES + 1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for their number, each at most 1 (Holm 1979); None stays None.

    With those below 5 % taken as real, the chance of one false alarm among all is below 5 %.
    """
    tested = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (value, place) in enumerate(tested):
        largest = max(largest, (len(tested) - rank) * value)
        corrected[place] = min(1.0, largest)
    return corrected


def _can_be_compared(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(map(math.isfinite, values))


def _are_equal(values: Sequence[float]) -> bool:
    return min(values) == max(values)
