"""Corpus BLEU as sacreBLEU counts it, with the signature that makes it comparable (Post 2018)."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU


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
    """Corpus BLEU of `hypotheses` against one reference each, both detokenised text.

    Raises:
      ValueError: there are no lines, or not as many hypotheses as references.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"BLEU needs a reference for each hypothesis, but there are {len(hypotheses)} "
            f"hypotheses and {len(references)} references"
        )
    if not hypotheses:
        raise ValueError("BLEU needs at least one line, but there are none")
    # force: no warning that the text looks tokenised; captions of a toy grammar may well.
    metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    return Bleu(score, str(metric.get_signature()))
