"""Compares the scores of two runs on the same sentences: how far apart they are, and where.

In: what `score` left in both directories. Nothing is translated again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from t2t_jax.data.corpora.corpus import read_pairs
from t2t_jax.decoding.config import CHANGE_NO_TRANSLATION
from t2t_jax.evaluation.bleu import bleu_of, sentence_bleu_of
from t2t_jax.evaluation.bleu_by_length import (
    LengthScore,
    bleu_by_length,
    num_words,
    places_by_length,
)
from t2t_jax.evaluation.metrics import METRICS, score_of
from t2t_jax.evaluation.significance import Comparison, paired_bootstrap
from t2t_jax.json_files import read_json
from t2t_jax.runs.effect import unmet
from t2t_jax.runs.keys import search_of
from t2t_jax.runs.scored_text import read_given
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.workdir import read_config

_OF_NO_MATTER = {f"decoding.{key}" for key in CHANGE_NO_TRANSLATION}


class MetricOfBoth(NamedTuple):
    """One metric of both runs, in percent."""

    name: str
    signature: str
    scores: tuple[float, float]
    comparison: Comparison  # the second minus the first


class Sentence(NamedTuple):
    """A sentence that both runs translated."""

    number: int  # its place among those scored, from 1
    words: int  # of the source
    source: str  # "" if the text is not available, like the reference
    reference: str
    translations: tuple[str, str]
    bleu: tuple[float, float]  # of this sentence alone, in percent


class OfLength(NamedTuple):
    """The scores of one bin, and its sentences that differ most."""

    scores: tuple[LengthScore, LengthScore]
    most_different: list[Sentence]


class Compared(NamedTuple):
    """Two runs on the same sentences."""

    num_sentences: int
    files: list[str]
    search: list[tuple[str, Any, Any]]  # keys in which their searches differ, with both values
    metrics: list[MetricOfBoth]
    by_length: list[OfLength]
    steps: tuple[Any, Any] = (None, None)  # of the checkpoints that were scored; None: not known


class _Kept(NamedTuple):
    """What `score` left for one run."""

    scores: dict[str, Any]
    words: list[int]
    bleu: Int[np.ndarray, "sentences 10"]
    metrics: dict[str, dict[str, Any]]
    translations: list[str]


def compare(first: Path, second: Path, name: str, num_shown: int = 2) -> Compared:
    """Compares the scores of two runs on the split or test set called `name`.

    Args:
      num_shown: sentences of each length, those with the largest difference in BLEU first.

    Raises:
      ValueError: a run has no such scores, or they are damaged or of other sentences.
    """
    ours, theirs = _kept(first, name), _kept(second, name)
    _check_same(first, ours, second, theirs)
    metrics = [
        _compared("bleu", ours.scores["bleu_signature"], ours.bleu, theirs.bleu, bleu_of),
        *(
            _compared(
                each,
                ours.metrics[each]["signature"],
                np.array(ours.metrics[each]["statistics"]),
                np.array(theirs.metrics[each]["statistics"]),
                score_of(each),
            )
            for each in METRICS
            if _signature(ours, each) == _signature(theirs, each) is not None
        ),
    ]
    if any(each.signature == metrics[0].signature for each in metrics[1:]):
        del metrics[0]
    pairs = _pairs(first, ours, name)
    return Compared(
        num_sentences=len(ours.words),
        files=ours.scores.get("files") or [],
        search=_search_differences(ours, theirs),
        metrics=metrics,
        by_length=_by_length(ours, theirs, pairs, num_shown),
        steps=(ours.scores.get("step"), theirs.scores.get("step")),
    )


def _kept(workdir: Path, name: str) -> _Kept:
    path = workdir / "scores" / f"{name}.json"
    if not path.exists():
        raise ValueError(
            f"{workdir} has no scores of {name!r}: t2t-jax score --workdir={workdir} makes them, "
            "with --split, or with --source, --reference and --name"
        )
    scores = read_json(path)
    if (task := scores.get("task", "translation")) != "translation":
        raise ValueError(f"{workdir} has learned data.task={task!r}: compare is for translations")
    beside, statistics = (path.with_name(f"{name}.{e}.json") for e in ("sentences", "statistics"))
    lines = workdir / "translations" / f"{name}.txt"
    sentence = f"the translations or counts that belong to {path} are missing or damaged"
    try:
        of_sentences = read_json(beside)
        kept = _Kept(
            scores,
            of_sentences["source_words"],
            np.array(of_sentences["statistics"]),
            read_json(statistics) if statistics.exists() else {},
            lines.read_text("utf-8").split("\n")[:-1],
        )
        is_whole = kept.bleu.shape == (len(kept.words), 10) and scores["bleu_signature"]
        is_whole = is_whole and len(kept.translations) == len(kept.words)
        for entry in kept.metrics.values():
            is_whole = is_whole and len(entry["statistics"]) == len(kept.words)
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"{sentence} ({error}): score it again") from error
    if not is_whole:
        raise ValueError(f"{sentence}: score it again")
    return kept


def _check_same(first: Path, ours: _Kept, second: Path, theirs: _Kept) -> None:
    """Raises ValueError unless both translated the same sentences and are scored alike."""
    for what, of_one, of_other in (
        ("files", ours.scores.get("sha256"), theirs.scores.get("sha256")),
        ("direction", ours.scores.get("direction"), theirs.scores.get("direction")),
        ("BLEU", ours.scores["bleu_signature"], theirs.scores["bleu_signature"]),
        ("number of sentences", len(ours.words), len(theirs.words)),
        ("sources", ours.words, theirs.words),
        ("references", ours.bleu[:, 1].tolist(), theirs.bleu[:, 1].tolist()),
    ):
        if of_one != of_other:
            which = "" if isinstance(of_one, list) else f", {of_one} and {of_other}"
            raise ValueError(f"{first} and {second} do not have the same {what}{which}")


def _search_differences(ours: _Kept, theirs: _Kept) -> list[tuple[str, Any, Any]]:
    """The keys in which two searches differ, if both read them; old scores may lack keys."""
    searches = []
    for kept in (ours, theirs):
        search = search_of(kept.scores)
        searches.append({f"decoding.{key}": value for key, value in search.items()})
    one, other = searches
    return [
        (key, one[key], other[key])
        for key in sorted(one.keys() & other.keys() - _OF_NO_MATTER)
        if one[key] != other[key] and not unmet(key, one) and not unmet(key, other)
    ]


def _signature(kept: _Kept, metric: str) -> str | None:
    return kept.metrics.get(metric, {}).get("signature")


def _compared(
    name: str,
    signature: str,
    ours: np.ndarray,
    theirs: np.ndarray,
    score: Callable[[np.ndarray], float],
) -> MetricOfBoth:
    scores = score(ours.sum(0)), score(theirs.sum(0))
    return MetricOfBoth(name, signature, scores, paired_bootstrap(theirs, ours, score))


def _pairs(workdir: Path, kept: _Kept, name: str) -> list[tuple[str, str]]:
    """Sources and references as text, if still there and unchanged; else blanks.

    Blanks too for train if a pair was too long for it.
    """
    try:
        if "sha256" in kept.scores:
            source, reference = map(Path, kept.scores["files"])
            given = read_given(source, reference, name)
            pairs = given.pairs if given.sha256 == kept.scores["sha256"] else []
        else:
            pairs = list(read_pairs(read_sections(read_config(workdir)).data, name))
    except (OSError, TypeError, ValueError):
        pairs = []
    is_same = num_words([source for source, _ in pairs]) == kept.words
    return pairs if is_same else [("", "")] * len(kept.words)


def _by_length(
    ours: _Kept, theirs: _Kept, pairs: list[tuple[str, str]], num_shown: int
) -> list[OfLength]:
    bleus = [
        (sentence_bleu_of(one), sentence_bleu_of(other))
        for one, other in zip(ours.bleu, theirs.bleu, strict=True)
    ]
    found = []
    both = (bleu_by_length(kept.bleu, kept.words) for kept in (ours, theirs))
    for scores, (_, places) in zip(
        zip(*both, strict=True), places_by_length(ours.words), strict=True
    ):
        places = [
            place for place in places if ours.translations[place] != theirs.translations[place]
        ]
        places.sort(key=lambda place: -abs(bleus[place][1] - bleus[place][0]))
        shown = [
            Sentence(
                place + 1,
                ours.words[place],
                *pairs[place],
                (ours.translations[place], theirs.translations[place]),
                bleus[place],
            )
            for place in places[:num_shown]
        ]
        found.append(OfLength(scores, shown))
    return found
