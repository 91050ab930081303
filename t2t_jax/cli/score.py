"""t2t-jax score: how good a trained model is on a split of its corpus, or on other files.

    t2t-jax score --workdir=W --split=test
    t2t-jax score --workdir=W --source=test2017.en --reference=test2017.de --name=test2017
    t2t-jax score --workdir=W --split=dev --every_checkpoint

Prints the scores as JSON, and leaves them in W/scores: perplexity and accuracy, of a translation
model also BLEU, of all sentences and by their length, and "metrics", each with its signature, of
the same translations: sacreBLEU of 13a and intl tokens, cased and lower-cased, chrF2 and TER,
and the tokenised BLEU of Moses and of the paper. The translations are in W/translations, what is
counted of each sentence in W/scores/NAME.sentences.json and NAME.statistics.json. Of a classifier
the accuracy of each class, of a language model what a unigram and a bigram model reach.

A split is read where the run had its corpus, or --config.data.directory says. Files that are given
are test sets of their own, any number of them, each with its --name; the corpus need not be there.
--every_checkpoint prints a line for each, and keeps them in W/scores/NAME.checkpoints.jsonl.

Prepared data is kept in ~/.cache/t2t_jax, or where T2T_JAX_CACHE of the environment or
--config.data.cache says: in what directory the run kept it is not followed, since the run may be
somebody else's.
"""

import json
import sys
from pathlib import Path

from absl import flags

from t2t_jax.cli.workdir_flags import define_workdir_flags, say_whose_cache, value_of


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    if value_of(arguments, "source") is None:
        say_whose_cache(arguments)
    flags.DEFINE_string(
        "split", "test", "train, dev or test; long too for the embedded corpus, but not to classify"
    )
    flags.DEFINE_string("source", None, "a file of sentences to translate, in the place of --split")
    flags.DEFINE_string("reference", None, "the file of their translations, line by line")
    flags.DEFINE_string(
        "name", None, "what the scores of --source are kept as; by default its name without ending"
    )
    flags.DEFINE_bool("every_checkpoint", False, "score each checkpoint that there is: a curve")


def main() -> None:
    """Runs the verb."""
    from t2t_jax.runs.score import score, score_checkpoints, score_files
    from t2t_jax.runs.scored_text import read_given
    from t2t_jax.runs.sections import read_sections

    values = flags.FLAGS
    is_given = values.source is not None
    if is_given != (values.reference is not None) or (values.name is not None and not is_given):
        raise ValueError("--source, --reference and, if you like, --name go together")
    if is_given and values["split"].present:
        raise ValueError("--split is of the run's corpus: leave it out where --source is given")
    if values.every_checkpoint and values.checkpoint is not None:
        raise ValueError("--every_checkpoint and --checkpoint are two things: give one of them")
    given = None
    if is_given:
        given = read_given(Path(values.source), Path(values.reference), values.name)
    sections = read_sections(values.config)
    workdir = Path(values.workdir).expanduser()
    if values.every_checkpoint:
        score_checkpoints(workdir, given or values.split, sections, _print_line)
        return
    if given is not None:
        scores = score_files(workdir, given, sections, values.checkpoint)
    else:
        scores = score(workdir, values.split, sections, checkpoint=values.checkpoint)
    json.dump(scores, sys.stdout, indent=2)
    print()


def _print_line(scores: dict) -> None:
    shown = {name: scores[name] for name in ("perplexity", "accuracy", "bleu") if name in scores}
    for name, metric in scores.get("metrics", {}).items():
        shown[name] = metric["score"]
    numbers = "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
    print(f"step {scores['step']}: {numbers}", flush=True)
