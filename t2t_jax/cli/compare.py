"""t2t-jax compare: two runs on the same sentences, how far apart they are and where.

    t2t-jax compare W1 W2
    t2t-jax compare W1 W2 --name=test2017 --sentences=5

Of what `t2t-jax score` has left in both: each metric of W1, of W2, W2 - W1 with its 95 % interval
and p value by a paired bootstrap over the sentences, which knows nothing of the noise between
seeds; then BLEU by words of the source, and of each length the sentences that differ most.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

if TYPE_CHECKING:
    from t2t_jax.runs.compare import Compared

ARGUMENTS = ("W1", "W2")


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    flags.DEFINE_string("name", "test", "a split or a test set that both have scores of")
    flags.DEFINE_integer("sentences", 2, "of each length, those that differ most", lower_bound=0)


def main(first: str, second: str) -> None:
    """Runs the verb."""
    from t2t_jax.cli.lines import text_output
    from t2t_jax.runs.compare import compare

    values = flags.FLAGS
    workdirs = Path(first).expanduser(), Path(second).expanduser()
    found = compare(*workdirs, values.name, values.sentences)
    with text_output() as output:
        for line in _lines(found, values.name, workdirs):
            print(line, file=output)


def _lines(found: "Compared", name: str, workdirs: tuple[Path, Path]) -> Iterator[str]:
    files = f" of {', '.join(found.files)}" if found.files else ""
    yield _plain(f"{name}: {found.num_sentences:,} sentences{files}")
    for run, workdir in zip(ARGUMENTS, workdirs, strict=True):
        yield f"{run}: {workdir}"
    yield f"\n{'':16}{'W1':>8}{'W2':>8}{'W2 - W1':>9}   {'95 % interval':17}{'p':>6}"
    for metric in found.metrics:
        one, other = metric.scores
        difference, low, high, p_value = metric.comparison
        yield (
            f"{metric.name:16}{one:8.2f}{other:8.2f}{difference:+9.2f}   "
            f"{f'{low:+.2f} to {high:+.2f}':17}{p_value:6.4f}  {_plain(metric.signature)}"
        )
    if any(metric.name == "ter" for metric in found.metrics):
        yield "of ter less is better"
    yield f"\n{'words of source':16}{'W1':>8}{'W2':>8}{'W2 - W1':>9}   sentences"
    for (one, other), _ in found.by_length:
        low, high = one.words
        words = f"{low} and more" if high is None else f"{low} to {high}"
        yield (
            f"{words:16}{one.bleu:8.2f}{other.bleu:8.2f}{other.bleu - one.bleu:+9.2f}   "
            f"{one.sentences:,}"
        )
    for sentence in (sentence for each in found.by_length for sentence in each.most_different):
        one, other = sentence.bleu
        yield f"\nline {sentence.number:,}, {sentence.words} words, BLEU {one:.1f} and {other:.1f}"
        texts = (sentence.source, sentence.reference, *sentence.translations)
        for title, text in zip(("source", "reference", *ARGUMENTS), texts, strict=True):
            if text or title in ARGUMENTS:
                yield f"  {title:11}{_plain(text)}"


def _plain(text: str) -> str:
    """The text without what would move a terminal's cursor: the runs may be anybody's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
