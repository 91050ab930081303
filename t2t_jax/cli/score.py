"""t2t-jax score: how good a trained model is on a split of its corpus or on other files.

    t2t-jax score --workdir=W --split=test
    t2t-jax score --workdir=W --source=test2017.en --reference=test2017.de --name=test2017
    t2t-jax score --workdir=W --split=dev --every_checkpoint

Prints the scores as JSON and writes them to W/scores. Every model gets perplexity and accuracy; a
classifier also the accuracy of each class, a language model also the perplexity of a unigram and a
bigram model. A translation model gets BLEU, overall and by sentence length, and "metrics" of the
same translations, each with its signature: sacreBLEU with 13a and intl tokens, cased and
lower-cased, chrF2, TER, and the tokenised BLEU of Moses and of the paper. Translations go to
W/translations, the counts of each sentence to W/scores/NAME.sentences.json and
NAME.statistics.json.

Give either --split or files. A split is read from the run's corpus, or from
--config.data.directory. --source and --reference are a test set of their own, whose scores are
stored under its --name; you can score any number of them, and the run's corpus is not needed.
--every_checkpoint prints one line per checkpoint and writes W/scores/NAME.checkpoints.jsonl.

Prepared data is kept in --config.data.cache, else in T2T_JAX_CACHE of the environment, else in
~/.cache/t2t_jax. The run's own cache is ignored: the run may be somebody else's.
"""

from absl import flags

from t2t_jax.cli.workdir_flags import define_workdir_flags, say_whose_cache, value_of


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    if value_of(arguments, "source") is None:
        say_whose_cache(arguments)
    flags.DEFINE_string(
        "split",
        "test",
        "train, dev or test; the embedded corpus also has long, unless it is for classification",
    )
    flags.DEFINE_string("source", None, "a file of sentences to translate, instead of --split")
    flags.DEFINE_string("reference", None, "the file of their translations, line by line")
    flags.DEFINE_string(
        "name",
        None,
        "name of the test set, for W/scores/NAME.json; default: --source without its ending",
    )
    flags.DEFINE_bool("every_checkpoint", False, "score every checkpoint: a curve")


def main() -> None:
    """Runs the verb."""
    from t2t_jax.buckets import directory_of, local_path
    from t2t_jax.json_files import finite, json_text
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
        given = read_given(
            local_path(values.source, "--source"),
            local_path(values.reference, "--reference"),
            values.name,
        )
    sections = read_sections(values.config)
    workdir = directory_of(values.workdir)
    if values.every_checkpoint:
        score_checkpoints(workdir, given or values.split, sections, _print_line)
        return
    if given is not None:
        scores = score_files(workdir, given, sections, values.checkpoint)
    else:
        scores = score(workdir, values.split, sections, checkpoint=values.checkpoint)
    print(json_text(finite(scores), indent=2))


def _print_line(scores: dict) -> None:
    shown = {name: scores[name] for name in ("perplexity", "accuracy", "bleu") if name in scores}
    for name, metric in scores.get("metrics", {}).items():
        shown[name] = metric["score"]
    numbers = "  ".join(f"{name} {value:.3f}" for name, value in shown.items())
    print(f"step {scores['step']}: {numbers}", flush=True)
