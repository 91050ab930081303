"""Corpus BLEU as computed by sacreBLEU, with the signature that makes it comparable (Post 2018).

Summing the counts of any sentences gives their BLEU.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer
from sacrebleu.metrics.bleu import BLEU

_ORDERS = 4  # the longest n-grams


class Bleu(NamedTuple):
    score: float  # percent
    signature: str  # sacreBLEU's: references, case, tokeniser, smoothing, version


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenizer: str = "13a",
    lowercase: bool = False,
) -> Bleu:
    """Corpus BLEU of `hypotheses` against one reference each; both are detokenised text.

    Raises:
      ValueError: there are no lines, or not as many hypotheses as references.
    """
    check_lines(hypotheses, references)
    # force: no warning that the text looks tokenised, as sentences of a toy grammar may.
    metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    return Bleu(score, str(metric.get_signature()))


def sentence_statistics(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenizer: str = "13a",
    lowercase: bool = False,
) -> Int[np.ndarray, "sentences 10"]:
    """BLEU's counts for each sentence: words of hypothesis and reference, matches, n-grams.

    Matches, and n-grams of the hypothesis, are four counts each, for n = 1 to 4.

    Raises:
      ValueError: as `bleu`.
    """
    check_lines(hypotheses, references)
    # effective_order: otherwise sacreBLEU warns about a score that is not used here.
    metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True, effective_order=True)
    statistics = np.zeros((len(hypotheses), 2 + 2 * _ORDERS), np.int64)
    for row, hypothesis, reference in zip(statistics, hypotheses, references, strict=True):
        found = metric.sentence_score(hypothesis, [reference])
        row[:] = [found.sys_len, found.ref_len, *found.counts, *found.totals]
    return statistics


def bleu_of(statistics: Integer[np.ndarray, " 10"]) -> float:
    """BLEU in percent, from `sentence_statistics` summed over sentences."""
    return _bleu_of(statistics, only_its_orders=False)


def sentence_bleu_of(statistics: Integer[np.ndarray, " 10"]) -> float:
    """Smoothed BLEU of one sentence in percent, for the orders it is long enough for."""
    return _bleu_of(statistics, only_its_orders=True)


def _bleu_of(statistics: Integer[np.ndarray, " 10"], *, only_its_orders: bool) -> float:
    hypothesis_words, reference_words, *counts = statistics.tolist()
    return BLEU.compute_bleu(
        counts[:_ORDERS],
        counts[_ORDERS:],
        hypothesis_words,
        reference_words,
        smooth_method="exp",
        effective_order=only_its_orders,
    ).score


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises ValueError unless there are lines, and equally many of both."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"BLEU needs a reference for each hypothesis, but there are {len(hypotheses)} "
            f"hypotheses and {len(references)} references"
        )
    if not hypotheses:
        raise ValueError("BLEU needs at least one line, but there are none")
