"""Test files, and what `t2t-jax score` writes for given translations."""

from t2t_jax.evaluation.bleu import bleu, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import num_words
from t2t_jax.evaluation.metrics import counted
from t2t_jax.json_files import write_json
from t2t_jax.runs.scored_text import read_given

SHORT = [(f"the {noun} is small", f"die Sache {noun} ist klein") for noun in "abcdefgh"]
LONG = [
    (f"{source} and {source}", f"{target} und {target}, sagt {target}") for source, target in SHORT
]
PAIRS = SHORT + LONG


def write_files(directory, name, pairs):
    for side, ending in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (directory / f"{name}.{ending}").write_text(text, encoding="utf-8")
    return directory / f"{name}.en", directory / f"{name}.de"


def write_run(workdir, translations, *, with_metrics=True):
    """What `score` leaves of files with PAIRS."""
    files = write_files(workdir.parent, "mine", PAIRS)
    given = read_given(*files)
    sources, references = map(list, zip(*PAIRS, strict=True))
    result, metrics = bleu(translations, references), counted(translations, references, "de")
    scores = {
        "name": "mine",
        "files": given.files,
        "sha256": given.sha256,
        "direction": "en-de",
        "bleu": result.score,
        "bleu_signature": result.signature,
    }
    write_json(workdir / "scores" / "mine.json", scores)
    of_sentences = {
        "bleu_signature": result.signature,
        "source_words": num_words(sources),
        "statistics": sentence_statistics(translations, references).tolist(),
    }
    write_json(workdir / "scores" / "mine.sentences.json", of_sentences)
    if with_metrics:
        found = {
            name: {"signature": each.signature, "statistics": each.statistics.tolist()}
            for name, each in metrics.items()
        }
        write_json(workdir / "scores" / "mine.statistics.json", found)
    (workdir / "translations").mkdir(exist_ok=True)
    text = "".join(line + "\n" for line in translations)
    (workdir / "translations" / "mine.txt").write_text(text, encoding="utf-8")
    return workdir


RIGHT = [target for _, target in PAIRS]
# Line 3, of 4 words, has one wrong word; line 12, of 9 words, is all wrong.
WRONG = [*RIGHT]
WRONG[2] = WRONG[2].replace("klein", "groß")
WRONG[11] = "nichts davon"
