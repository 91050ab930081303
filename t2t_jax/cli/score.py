"""t2t-jax score: how good a trained model is on a split of its corpus.

    t2t-jax score --workdir=W --split=test

Prints the scores as JSON, and leaves them in W/scores: perplexity and accuracy, of a translation
model also BLEU, of all sentences and by their length (the translations are in W/translations, what
BLEU counts of each in W/scores/SPLIT.sentences.json), of a classifier the accuracy of each class,
of a language model what a unigram and a bigram model reach.

The corpus is read where the run had it, or --config.data.directory says. Prepared data is kept in
~/.cache/t2t_jax, or where T2T_JAX_CACHE of the environment or --config.data.cache says: in what
directory the run kept it is not followed, since the run may be somebody else's.
"""

import json
import sys
from pathlib import Path

from absl import flags

from t2t_jax.cli.workdir_flags import define_workdir_flags, say_whose_cache


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    say_whose_cache(arguments)
    flags.DEFINE_string(
        "split", "test", "train, dev or test; long too for the embedded corpus, but not to classify"
    )


def main() -> None:
    """Runs the verb."""
    from t2t_jax.runs.score import score
    from t2t_jax.runs.sections import read_sections

    values = flags.FLAGS
    sections = read_sections(values.config)
    workdir = Path(values.workdir).expanduser()
    scores = score(workdir, values.split, sections, checkpoint=values.checkpoint)
    json.dump(scores, sys.stdout, indent=2)
    print()
