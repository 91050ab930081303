"""t2t-jax compare: how far apart two runs are on the same sentences, and where.

    t2t-jax compare W1 W2
    t2t-jax compare W1 W2 --name=test2017 --sentences=5

Reads what `t2t-jax score` left in both. Prints each metric of W1 and W2, and W2 - W1 with its 95 %
interval and p value by a paired bootstrap over the sentences, which ignores the noise between
seeds; then BLEU by source length in words, and the sentences of each length that differ most.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

if TYPE_CHECKING:
    from t2t_jax.runs.compare import Compared

ARGUMENTS = ("W1", "W2")


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    flags.DEFINE_string("name", "test", "a split or test set scored in both runs")
    flags.DEFINE_integer("sentences", 2, "most different ones to show, per length", lower_bound=0)


def main(first: str, second: str) -> None:
    """Runs the verb."""
    from t2t_jax.buckets import directory_of, name_of
    from t2t_jax.cli.lines import text_output
    from t2t_jax.runs.compare import compare

    values = flags.FLAGS
    workdirs = directory_of(first, "W1"), directory_of(second, "W2")
    found = compare(*workdirs, values.name, values.sentences)
    with text_output() as output:
        for line in _lines(found, values.name, (name_of(workdirs[0]), name_of(workdirs[1]))):
            print(line, file=output)


def _lines(found: "Compared", name: str, workdirs: tuple[str, str]) -> Iterator[str]:
    files = f" of {', '.join(found.files)}" if found.files else ""
    yield _plain(f"{name}: {found.num_sentences:,} sentences{files}")
    for run, workdir, step in zip(ARGUMENTS, workdirs, found.steps, strict=True):
        yield _plain(f"{run}: {workdir}" + ("" if step is None else f", step {step}"))
    if found.search:
        values = ", ".join(f"{key} {one} and {other}" for key, one, other in found.search)
        yield _plain(
            f"W1 and W2 were decoded with different settings, which affects the scores: {values}"
        )
    yield ""
    yield from _metrics(found)
    yield ""
    yield from _by_length(found)
    for sentence in (sentence for each in found.by_length for sentence in each.most_different):
        one, other = sentence.bleu
        scores = f"BLEU {one:.1f} and {other:.1f}"
        yield f"\nsentence {sentence.number:,}, {sentence.words} words, {scores}"
        texts = (sentence.source, sentence.reference, *sentence.translations)
        for title, text in zip(("source", "reference", *ARGUMENTS), texts, strict=True):
            if text or title in ARGUMENTS:
                yield f"  {title:11}{_plain(text)}"


def _metrics(found: "Compared") -> Iterator[str]:
    rows = [("", "W1", "W2", "W2 - W1", "95 % interval", "p", "")]
    for metric in found.metrics:
        one, other = metric.scores
        difference, low, high, p_value = metric.comparison
        interval = f"{low:+.2f} to {high:+.2f}"
        numbers = f"{one:.2f}", f"{other:.2f}", f"{difference:+.2f}", interval, f"{p_value:.4f}"
        rows.append((metric.name, *numbers, _plain(metric.signature)))
    yield from _aligned(rows, "<>>><><")
    if any(metric.name == "ter" for metric in found.metrics):
        yield "for ter, lower is better"


def _by_length(found: "Compared") -> Iterator[str]:
    rows = [("words of source", "W1", "W2", "W2 - W1", "sentences")]
    for (one, other), _ in found.by_length:
        low, high = one.words
        words = f"{low} and more" if high is None else f"{low} to {high}"
        numbers = f"{one.bleu:.2f}", f"{other.bleu:.2f}", f"{other.bleu - one.bleu:+.2f}"
        rows.append((words, *numbers, f"{one.sentences:,}"))
    yield from _aligned(rows, "<>>><")


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Lines of columns, each as wide as its widest cell, aligned left or right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "   ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def _plain(text: str) -> str:
    """The text without terminal control characters: the runs may be anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
