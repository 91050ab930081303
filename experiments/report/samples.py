"""Each row's translations of the same few test sentences.

In: files of `t2t-jax score` in directories of runs, possibly somebody else's. Out: plain text.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.report.effects import sentences_of
from experiments.run.outcomes import Outcome
from experiments.run.plain_text import plain_text
from t2t_jax.json_files import flat_dict
from t2t_jax.runs.keys import with_later_keys

SAMPLES = (
    "Test sentences as the first seed of each row translates them: the first, and those on which "
    "the rows differ most"
)
WHY_NONE = (
    "no finished run has translations and counts that match its record, and the text of its corpus"
)
# For the embedded corpus, whose text is this project's own.
_USUAL_NUMBER = 5


class Sample(NamedTuple):
    """A test sentence and its translations."""

    line: int
    source: str
    reference: str
    translations: dict[str, str]  # by row


class _Kept(NamedTuple):
    row: str
    source_words: list[int]
    statistics: np.ndarray
    lines: list[str]


def samples(outcomes: Sequence[Outcome], number: int | None) -> list[Sample]:
    """The first test sentence, and those whose BLEU differs most between rows, by line.

    Each row is represented by its first finished seed. A row whose translations are missing, or of
    other sentences, is left out.

    Args:
      outcomes: those of a table, the rows in its order.
      number: how many sentences, from any corpus, which is read from where the runs had it; None:
        some of the embedded corpus, none of others, whose text may not be shareable.
    """
    pairs: list[tuple[str, str]] = []
    kept: list[_Kept] = []
    for outcome in first_seeds(outcomes):
        is_ours = flat_dict(outcome.run.config).get("data.source") == "embedded"
        if number == 0 or (number is None and not is_ours) or not (found := _kept(outcome)):
            continue
        pairs = pairs or _pairs(outcome)
        if found.source_words == [len(source.split()) for source, _ in pairs]:
            kept.append(found)
    if not kept:
        return []
    places = _most_different(kept, _USUAL_NUMBER if number is None else number)
    return [
        Sample(
            line=place + 1,
            source=plain_text(pairs[place][0]),
            reference=plain_text(pairs[place][1]),
            translations={each.row: plain_text(each.lines[place]) for each in kept},
        )
        for place in places
    ]


def first_seeds(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The first finished seed of each row."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        its = found.get(outcome.run.row)
        if outcome.record is not None and (its is None or outcome.run.seed < its.run.seed):
            found[outcome.run.row] = outcome
    return list(found.values())


def _kept(outcome: Outcome) -> _Kept | None:
    """A run's translations and counts; None if any is missing or does not match its record."""
    counts = sentences_of(outcome, "test")
    path = outcome.directory / "translations" / "test.txt"
    try:
        # A link that leads out of the directory is not followed: it may be somebody else's.
        if not path.resolve().is_relative_to(outcome.directory.resolve()) or not path.is_file():
            return None
        lines = path.read_text("utf-8").split("\n")[:-1]
    except (OSError, ValueError):
        return None
    if counts is None or len(lines) != len(counts.source_words):
        return None
    return _Kept(outcome.run.row, counts.source_words, counts.statistics, lines)


def _pairs(outcome: Outcome) -> list[tuple[str, str]]:
    """Sources and references; empty if they can no longer be read."""
    from t2t_jax.data.config import DataConfig
    from t2t_jax.data.corpora.corpus import read_pairs

    values: Any = with_later_keys(outcome.run.config).get("data")
    try:
        return list(read_pairs(DataConfig(**values), "test"))
    except (OSError, TypeError, ValueError):
        return []


def _most_different(kept: Sequence[_Kept], number: int) -> list[int]:
    """The first place, and those where sentence BLEU varies most between rows, sorted."""
    from t2t_jax.evaluation.bleu import sentence_bleu_of

    spreads = {}
    for place, lines in enumerate(zip(*(each.lines for each in kept), strict=True)):
        if place > 0 and len(set(lines)) > 1:
            bleus = [sentence_bleu_of(each.statistics[place]) for each in kept]
            spreads[place] = float(np.std(bleus))
    ranked = sorted(spreads, key=lambda place: (-spreads[place], place))
    return sorted([0, *ranked[: number - 1]][:number])
