"""How good a trained model is on a split of its corpus; the scores are kept beside it."""

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from t2t_jax import hosts
from t2t_jax.compilation import compile_by_row
from t2t_jax.data.corpora.corpus import read_examples, read_pairs
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.evaluation.bleu import bleu, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import bleu_by_length, num_words
from t2t_jax.evaluation.likelihood import log_likelihoods
from t2t_jax.evaluation.ngram import Sentences, most_frequent_accuracy, ngram_perplexities
from t2t_jax.evaluation.probes import probe_scores
from t2t_jax.json_files import write_json
from t2t_jax.model.interface import TranslationModel
from t2t_jax.runs.classify import classify
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.pretrained import given_vocabulary
from t2t_jax.runs.sections import Sections
from t2t_jax.runs.steps import make_evaluate
from t2t_jax.runs.translate import translate
from t2t_jax.runs.workdir import Trained, load_trained
from t2t_jax.training.loss import perplexity


def score(
    workdir: Path,
    split: str,
    sections: Sections | None = None,
    *,
    translates: bool = True,
    checkpoint: int | None = None,
) -> dict[str, Any]:
    """The scores of the model of `workdir` on `split`, which are also written.

    With `checkpoint`, a step, of the model that it was then.

    Every task: perplexity (unsmoothed) and accuracy of what is to be predicted. Also, by task:

    translation                BLEU (percent), which is most of the work, if `translates`; and
                               with `test` of the embedded corpus the share of probes it gets right
    language_modelling         perplexity of a unigram and of a bigram model of the same text
    masked_language_modelling  accuracy of guessing the most frequent token
    classification             accuracy of each class

    Raises:
      ValueError: there is no trained model, no such split, or the corpus does not give the
        vocabulary or the classes that the model was trained with.
    """
    return score_splits(workdir, {split: translates}, sections, checkpoint)[split]


def score_splits(
    workdir: Path,
    splits: Mapping[str, bool],
    sections: Sections | None = None,
    checkpoint: int | None = None,
) -> dict[str, dict[str, Any]]:
    """`score` for several splits, each with its `translates`, by a model that is loaded once.

    Raises:
      ValueError: as `score`.
    """
    trained = load_trained(workdir, sections, checkpoint)
    prepared = corpus_of(workdir, trained, splits)
    return {
        split: _score(workdir, trained, prepared, split, translates)
        for split, translates in splits.items()
    }


def corpus_of(workdir: Path, trained: Trained, splits: Iterable[str]) -> Prepared:
    """The prepared corpus that the model of `workdir` was trained on.

    Raises:
      ValueError: it lacks one of `splits`, or has another vocabulary or classes than in training.
    """
    prepared = prepare(trained.sections, given_vocabulary(workdir / "vocabulary.model"))
    if prepared.vocabulary.fingerprint != trained.vocabulary.fingerprint:
        raise ValueError(
            f"the corpus now gives the vocabulary {prepared.vocabulary.fingerprint}, but {workdir} "
            f"was trained with {trained.vocabulary.fingerprint}: it cannot be scored on this corpus"
        )
    if prepared.classes != trained.classes:
        raise ValueError(
            f"the corpus now has the classes {', '.join(prepared.classes)}, but {workdir} was "
            f"trained with {', '.join(trained.classes)}: it cannot be scored on this corpus"
        )
    for split in splits:
        if split not in prepared.splits:
            raise ValueError(f"split {split!r} is none of {', '.join(prepared.splits)}")
    return prepared


def _score(
    workdir: Path,
    trained: Trained,
    prepared: Prepared,
    split: str,
    translates: bool,
) -> dict[str, Any]:
    started = time.monotonic()
    sections = trained.sections
    evaluate = make_evaluate(sections, trained.devices, trained.model, prepared, split)
    total = evaluate(trained.params)
    scores = {
        "split": split,
        "task": sections.data.task,
        "direction": sections.data.direction,
        "step": trained.step,
        "perplexity": perplexity(total),
        "accuracy": float(total.correct / total.tokens),
        "tokens": int(total.tokens),
        "vocabulary_fingerprint": trained.vocabulary.fingerprint,
        "data_fingerprint": prepared.fingerprint,
    }
    match sections.data.task:
        case "translation" if translates:
            scores |= _bleu_scores(trained, split, workdir)
            if split == "test" and (probes := _probe_scores(trained)):
                scores["probes"] = probes
        case "language_modelling":
            scores |= _ngram_scores(prepared, split)
        case "masked_language_modelling":
            scores |= _most_frequent_scores(prepared, split)
        case "classification":
            scores |= _class_scores(trained, split)
        case "translation":
            pass
    scores["seconds"] = time.monotonic() - started
    if hosts.is_first():
        write_json(workdir / "scores" / f"{split}.json", scores)
    return scores


def _bleu_scores(trained: Trained, split: str, workdir: Path) -> dict[str, Any]:
    sections = trained.sections
    sources, references = map(list, zip(*read_pairs(sections.data, split), strict=True))
    translations = [best[0].text for best in translate(trained, sources)]
    options: dict[str, Any] = {
        "tokenizer": sections.evaluation.bleu_tokenizer,
        "lowercase": sections.evaluation.bleu_lowercase,
    }
    result = bleu(translations, references, **options)
    statistics = sentence_statistics(translations, references, **options)
    words = num_words(sources)
    of_sentences = {
        "bleu_signature": result.signature,
        "source_words": words,
        "statistics": statistics.tolist(),
    }
    if hosts.is_first():
        translations_path = workdir / "translations" / f"{split}.txt"
        translations_path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(line + "\n" for line in translations)
        translations_path.write_text(lines, encoding="utf-8")
        write_json(workdir / "scores" / f"{split}.sentences.json", of_sentences, indent=None)
    return {
        "bleu": result.score,
        "bleu_signature": result.signature,
        "bleu_by_length": [score._asdict() for score in bleu_by_length(statistics, words)],
        "sentences": len(sources),
        "decoding": dataclasses.asdict(sections.decoding),
    }


def _probe_scores(trained: Trained) -> dict[str, float]:
    """The share of each kind of probes that the model gets right; none of other corpora."""
    data, model = trained.sections.data, trained.model
    if data.source != "embedded" or not isinstance(model, TranslationModel):
        return {}

    def of_pairs(sources: Sequence[str], targets: Sequence[str]):
        return log_likelihoods(
            sources,
            targets,
            model,
            trained.params,
            trained.vocabulary,
            compile=partial(compile_by_row, trained.devices),
            row_multiple=trained.devices.num_data,
        )

    languages = (data.source_language, data.target_language)
    return probe_scores(languages, trained.sections.evaluation.num_probes, of_pairs)


def _ngram_scores(prepared: Prepared, split: str) -> dict[str, Any]:
    train, text = (
        Sentences(each.target_ids, each.target_offsets)
        for each in (prepared.splits["train"], prepared.splits[split])
    )
    found = ngram_perplexities(train, text, prepared.vocabulary.size)
    return {"unigram_perplexity": found.unigram, "bigram_perplexity": found.bigram}


def _most_frequent_scores(prepared: Prepared, split: str) -> dict[str, Any]:
    train, text = (prepared.splits[name].target_ids for name in ("train", split))
    return {"most_frequent_accuracy": most_frequent_accuracy(train, text)}


def _class_scores(trained: Trained, split: str) -> dict[str, Any]:
    texts, names = map(list, zip(*read_examples(trained.sections.data, split), strict=True))
    right: dict[str, list[bool]] = {}
    for found, name in zip(classify(trained, texts), names, strict=True):
        if found is not None:
            right.setdefault(name, []).append(found.name == name)
    by_class = {name: sum(right[name]) / len(right[name]) for name in sorted(right)}
    return {"accuracy_by_class": by_class}
