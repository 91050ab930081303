"""The usual metrics of the same translations, each with its signature.

bleu_13a, bleu_intl          sacreBLEU's, case-sensitive
bleu_13a_lower, ...          the same, lower-cased
chrf2, ter                   sacreBLEU's; for TER less is better
bleu_moses                   on Moses' tokens, as multi-bleu.perl computes it: not smoothed
bleu_moses_lower             the same, lower-cased, as in the literature on Multi30k
bleu_paper                   what the paper reports: bleu_moses with Unicode punctuation replaced
                             before, and compounds split at hyphens, ##AT##-##AT##, after it

All are in percent. Summing the counts of any sentences gives their score.
"""

import importlib.metadata
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from t2t_jax.evaluation.bleu import check_lines

# As in the paper's script, get_ende_bleu.sh; hence only the first hyphen of "a-b-c" splits.
_HYPHEN = re.compile(r"(\S)-(\S)")
_SPLIT_HYPHEN = r"\1 ##AT##-##AT## \2"


class Counted(NamedTuple):
    """The result of a metric on some translations."""

    score: float  # percent
    signature: str
    statistics: Int[np.ndarray, "sentences counts"]


def _multi_bleu(lowercase: bool = False) -> BLEU:
    return BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)


_METRICS: dict[str, Callable[[], Metric]] = {
    "bleu_13a": lambda: BLEU(tokenize="13a", force=True),
    "bleu_13a_lower": lambda: BLEU(tokenize="13a", lowercase=True, force=True),
    "bleu_intl": lambda: BLEU(tokenize="intl", force=True),
    "bleu_intl_lower": lambda: BLEU(tokenize="intl", lowercase=True, force=True),
    "chrf2": CHRF,
    "ter": TER,
    "bleu_moses": _multi_bleu,
    "bleu_moses_lower": lambda: _multi_bleu(lowercase=True),
    "bleu_paper": _multi_bleu,
}
METRICS = tuple(_METRICS)


def counted(
    hypotheses: Sequence[str], references: Sequence[str], language: str
) -> dict[str, Counted]:
    """Every metric of `hypotheses` against one reference each; both are detokenised text.

    Args:
      language: of both, for Moses: "de".

    Raises:
      ValueError: there are no lines, or not as many hypotheses as references.
    """
    check_lines(hypotheses, references)
    lines = list(hypotheses), list(references)
    made_with = f"{language}-{_moses_version()}"
    of_moses = tuple(moses_tokens(side, language) for side in lines)
    of_paper = tuple(paper_tokens(side, language) for side in lines)
    # Metrics on tokens of our own: these, and what the signature says of them.
    tokenised = {
        "bleu_moses": (of_moses, f"tok:moses-{made_with}"),
        "bleu_moses_lower": (of_moses, f"tok:moses-{made_with}"),
        "bleu_paper": (of_paper, f"tok:paper-{made_with}"),
    }
    found = {}
    for name, make in _METRICS.items():
        metric = make()
        (ours, theirs), tokens = tokenised.get(name, (lines, "tok:none"))
        # As in sacreBLEU's own significance tests; whole numbers with one reference.
        statistics = np.array(metric._extract_corpus_statistics(ours, [theirs])).astype(np.int64)
        signature = str(metric.get_signature()).replace("tok:none", tokens)
        found[name] = Counted(score_of(name)(statistics.sum(0)), signature, statistics)
    return found


def score_of(name: str) -> Callable[[Integer[np.ndarray, " counts"]], float]:
    """`score(counts)` of one of METRICS, in percent, for summed `Counted.statistics`."""
    metric = _METRICS[name]()
    return lambda counts: float(metric._compute_score_from_stats(counts.tolist()).score)


def moses_tokens(lines: Sequence[str], language: str) -> list[str]:
    """The lines as tokenised by Moses' tokenizer.perl, with spaces between tokens."""
    from sacremoses import MosesTokenizer  # takes half a second to load

    tokenizer = MosesTokenizer(lang=language)
    return [str(tokenizer.tokenize(line, return_str=True)) for line in lines]


def paper_tokens(lines: Sequence[str], language: str) -> list[str]:
    """The lines as the paper's script counts them: see above."""
    from sacremoses import MosesPunctNormalizer

    plain = MosesPunctNormalizer(lang=language).replace_unicode_punct
    tokens = moses_tokens([plain(line) for line in lines], language)
    return [_HYPHEN.sub(_SPLIT_HYPHEN, line) for line in tokens]


def _moses_version() -> str:
    return f"sacremoses-{importlib.metadata.version('sacremoses')}"
