"""t2t-jax score: perplexity and BLEU of a trained model on a split of its corpus.

    t2t-jax score --workdir=W --split=test

Prints the scores as JSON, and leaves them in W/scores, the translations in W/translations.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict

from t2t_jax.cli import workdir as run_directory
from t2t_jax.cli.prepare import prepare
from t2t_jax.cli.train import make_evaluate
from t2t_jax.cli.translate import translate_with
from t2t_jax.cli.workdir_flags import define_workdir_flags
from t2t_jax.data.corpus import read_pairs
from t2t_jax.evaluation.bleu import bleu
from t2t_jax.json_files import write_json
from t2t_jax.training.loss import perplexity


def score(
    workdir: Path, split: str, config: ConfigDict | None = None, *, translates: bool = True
) -> dict[str, Any]:
    """Perplexity per token (unsmoothed) and BLEU (percent) on `split`, which are also written.

    Without `translates` there is no BLEU, which is most of the work.

    Raises:
      ValueError: there is no trained model, no such split, or the corpus does not give the
        vocabulary that the model was trained with.
    """
    started = time.monotonic()
    config = config or run_directory.read_config(workdir)
    trained = run_directory.load_trained(workdir, config)
    prepared = prepare(config)
    if prepared.vocabulary.fingerprint != trained.vocabulary.fingerprint:
        raise ValueError(
            f"the corpus now gives the vocabulary {prepared.vocabulary.fingerprint}, but {workdir} "
            f"was trained with {trained.vocabulary.fingerprint}: it cannot be scored on this corpus"
        )
    if split not in prepared.splits:
        raise ValueError(f"split {split!r} is none of {', '.join(prepared.splits)}")
    sections = trained.sections
    evaluate = make_evaluate(sections, trained.devices, trained.model, prepared.splits[split])
    total = evaluate(trained.params)

    scores = {
        "split": split,
        "direction": f"{sections.data.source_language}-{sections.data.target_language}",
        "step": trained.step,
        "perplexity": perplexity(total),
        "accuracy": float(total.correct / total.tokens),
        "tokens": int(total.tokens),
        "vocabulary_fingerprint": trained.vocabulary.fingerprint,
        "data_fingerprint": prepared.fingerprint,
    }
    if translates:
        scores |= _bleu_scores(trained, split, workdir / "translations" / f"{split}.txt")
        scores["decoding"] = dataclasses.asdict(trained.sections.decoding)
    scores["seconds"] = time.monotonic() - started
    write_json(workdir / "scores" / f"{split}.json", scores)
    return scores


def _bleu_scores(
    trained: run_directory.Trained, split: str, translations_path: Path
) -> dict[str, Any]:
    sections = trained.sections
    sources, references = map(list, zip(*read_pairs(sections.data, split), strict=True))
    translations = [best[0].text for best in translate_with(trained, sources)]
    translations_path.parent.mkdir(parents=True, exist_ok=True)
    translations_path.write_text("".join(line + "\n" for line in translations), encoding="utf-8")
    result = bleu(
        translations,
        references,
        tokenizer=sections.evaluation.bleu_tokenizer,
        lowercase=sections.evaluation.bleu_lowercase,
    )
    return {
        "bleu": result.score,
        "bleu_signature": result.signature,
        "sentences": len(sources),
    }


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    flags.DEFINE_string("split", "test", "train, dev or test; long too for the embedded corpus")


def main() -> None:
    """Runs the verb."""
    scores = score(Path(flags.FLAGS.workdir).expanduser(), flags.FLAGS.split, flags.FLAGS.config)
    json.dump(scores, sys.stdout, indent=2)
    print()
