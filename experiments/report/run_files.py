"""A run's files besides its record, for curves and tests.

In: the directory of a run, possibly somebody else's. Out: its numbers, checked.
"""

import contextlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from experiments.report.measures import test_sets
from experiments.run.outcomes import Outcome
from experiments.run.plain_text import plain_text
from experiments.run.record import is_number
from t2t_jax.json_files import read_json
from t2t_jax.training.metrics_file import read_metrics

# In the directory of a run, if requested.
PAGE = "explain.html"


class Sentences(NamedTuple):
    """The BLEU counts of each sentence of a split."""

    bleu_signature: str
    source_words: list[int]
    statistics: Int[np.ndarray, "sentences 10"]


def dev_curve(directory: Path) -> dict[int, float]:
    """Step -> dev perplexity while training, finite values only.

    Raises:
      ValueError: the file is damaged; the message names it.
    """
    path = directory / "metrics.jsonl"
    found = {}
    for entry in read_metrics(path):
        if entry["split"] != "dev":
            continue
        step, perplexity = entry["step"], entry.get("perplexity", 0)
        if perplexity is None:
            continue  # it was not a number
        if type(step) is not int or not is_number(perplexity) or perplexity <= 0:
            raise ValueError(f"{path} has a dev entry without a step and a perplexity above 0")
        if math.isfinite(perplexity):
            found[step] = perplexity
    return found


def sentences(directory: Path, split: str) -> Sentences | None:
    """The counts that `t2t-jax score` wrote for each sentence of a split; None without a file.

    Raises:
      ValueError: the file is damaged; the message names it.
    """
    path = directory / "scores" / f"{split}.sentences.json"
    if not path.exists():
        return None
    values = read_json(path)
    try:
        found = Sentences(**{field: values[field] for field in Sentences._fields})
        statistics = np.array(found.statistics, np.int64)
        is_whole = statistics.shape == (len(found.source_words), 10) and (statistics >= 0).all()
    except (KeyError, OverflowError, TypeError, ValueError):
        raise ValueError(f"{path} lacks what BLEU counts of each sentence") from None
    if not is_whole:
        raise ValueError(f"{path} lacks what BLEU counts of each sentence")
    return found._replace(statistics=statistics)


def no_curve(outcomes: Iterable[Outcome]) -> list[str]:
    """A note if no run has evaluated dev more than once, so that no curve is drawn."""
    lengths = set()
    for outcome in outcomes:
        if outcome.record is not None:
            with contextlib.suppress(OSError, ValueError):  # a note reports damaged files
                lengths.add(len(dev_curve(outcome.directory)))
    if max(lengths, default=0) != 1:
        return []
    return [
        "There are no learning curves: dev was evaluated once in each run, see "
        "training.evaluate_every_steps."
    ]


def page_of(outcome: Outcome) -> Path | None:
    """The page of a run's model, if it has one in which no script but ours can run."""
    # Imported here, since it loads JAX.
    path = outcome.directory / PAGE
    try:
        if not path.resolve().is_relative_to(outcome.directory.resolve()) or not path.is_file():
            return None
        from t2t_jax.explain.page import is_page

        return path if is_page(path) else None
    except OSError:
        return None


def damage(outcomes: Iterable[Outcome]) -> list[str]:
    """A sentence for each damaged file of a finished run: what the run lacks without it."""
    found = []
    for outcome in outcomes:
        if outcome.record is None:
            continue
        reads: list[tuple[str, Any, tuple]] = [("curve", dev_curve, (outcome.directory,))]
        for split in ("dev", "test", "long", *test_sets(outcome.record)):
            reads.append(("paired bootstrap", sentences, (outcome.directory, split)))
        for use, read, arguments in reads:
            try:
                read(*arguments)
            except (OSError, ValueError) as error:
                which = f"{outcome.run.row} {outcome.run.name.replace('-', ' ')}"
                sentence = f"{which} has no {use}: {error}"
                found.append(plain_text(sentence))
    return found
