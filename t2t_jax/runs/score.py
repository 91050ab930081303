"""Scores a trained model on a split of its corpus, or on given files.

The scores are kept in its directory.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from t2t_jax import hosts
from t2t_jax.compilation import ByRow
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.decoding.config import CHANGE_NO_TRANSLATION
from t2t_jax.evaluation.bleu import bleu, sentence_statistics
from t2t_jax.evaluation.bleu_by_length import bleu_by_length, num_words
from t2t_jax.evaluation.likelihood import log_likelihoods
from t2t_jax.evaluation.metrics import counted
from t2t_jax.evaluation.ngram import Sentences, most_frequent_accuracy, ngram_perplexities
from t2t_jax.evaluation.probes import probe_scores
from t2t_jax.json_files import finite, json_text, write_bytes, write_json
from t2t_jax.model.interface import TranslationModel
from t2t_jax.runs.batches import check_lengths
from t2t_jax.runs.classify import classify
from t2t_jax.runs.keys import search_of
from t2t_jax.runs.prepare import prepare
from t2t_jax.runs.pretrained import given_vocabulary
from t2t_jax.runs.scored_text import (
    GivenFiles,
    ScoredText,
    check_kept,
    check_kept_split,
    check_split,
    curve_file,
    given_text,
    read_curve,
    split_of,
)
from t2t_jax.runs.sections import Sections, read_sections
from t2t_jax.runs.steps import make_evaluate
from t2t_jax.runs.translate import translate
from t2t_jax.runs.workdir import (
    Trained,
    check_place,
    checkpoint_steps,
    load_trained,
    read_config,
)
from t2t_jax.training.about import DamagedError
from t2t_jax.training.loss import perplexity


def score(
    workdir: Path,
    split: str,
    sections: Sections | None = None,
    *,
    translates: bool = True,
    checkpoint: int | None = None,
) -> dict[str, Any]:
    """Computes and writes the scores of the model of `workdir` on `split`.

    `checkpoint`, a step, selects the model at that step.

    Every task: perplexity (unsmoothed) and accuracy of the predicted tokens; the files that were
    read and the number of sentences. Also, by task:

    translation                if `translates`, BLEU and other metrics (percent) of one decode,
                               which is most of the work; on `test` of the embedded corpus, also
                               the share of probes it gets right
    language_modelling         perplexity of a unigram and a bigram model of the same text
    masked_language_modelling  accuracy of guessing the most frequent token
    classification             accuracy of each class

    Raises:
      ValueError: there is no trained model or no such split, the split differs from training, or
        the corpus gives another vocabulary or other classes than in training, or scores of another
        text are kept for the split.
    """
    return score_splits(workdir, {split: translates}, sections, checkpoint)[split]


def score_splits(
    workdir: Path,
    splits: Mapping[str, bool],
    sections: Sections | None = None,
    checkpoint: int | None = None,
) -> dict[str, dict[str, Any]]:
    """`score` for several splits, each with its `translates`; the model is loaded once.

    Raises:
      ValueError: as `score`.
    """
    _check_splits(workdir, sections, splits)
    trained = load_trained(workdir, sections, checkpoint)
    _check_may_write(workdir)
    prepared = corpus_of(workdir, trained, splits)
    scored = {split: _split(workdir, trained, prepared, split) for split in splits}
    return {
        split: _kept(workdir, trained, scored[split], translates)
        for split, translates in splits.items()
    }


def score_files(
    workdir: Path,
    given: GivenFiles,
    sections: Sections | None = None,
    checkpoint: int | None = None,
) -> dict[str, Any]:
    """`score` on two given files; the corpus of the run is not needed.

    Raises:
      ValueError: there is no trained model, it does not translate, a line is too long for it, or
        scores of other files are kept under this name.
    """
    check_kept(workdir, given)
    trained = load_trained(workdir, sections, checkpoint)
    _check_may_write(workdir)
    return _kept(workdir, trained, _given_text(trained, given))


def score_checkpoints(
    workdir: Path,
    text: str | GivenFiles,
    sections: Sections | None = None,
    show: Callable[[dict[str, Any]], None] = lambda scores: None,
) -> list[dict[str, Any]]:
    """The scores of every checkpoint on a split or on given files, in order.

    They are written to a JSON lines file of their own, where those of checkpoints that are gone
    stay if search and BLEU are the same. With `decoding.average_checkpoints` above 1, the first
    checkpoints are left out, since too few precede them; so are, with a word, those that are
    damaged, or removed meanwhile by a run in progress.

    Args:
      show: called with the scores of each as soon as they are there.

    Raises:
      ValueError: as `score` and `score_files`; or there are no whole checkpoints.
    """
    if isinstance(text, str):
        _check_splits(workdir, sections, [text])
    else:
        check_kept(workdir, text)
    scored: ScoredText | None = None
    curve: list[dict[str, Any]] = []
    for trained in _each_checkpoint(workdir, sections):
        if scored is None:
            _check_may_write(workdir)
            scored = (
                _split(workdir, trained, corpus_of(workdir, trained, [text]), text)
                if isinstance(text, str)
                else _given_text(trained, text)
            )
        curve.append(_found(trained, scored, True).scores)
        if hosts.is_first():
            _keep_in_curve(curve_file(workdir, scored.name), finite(curve[-1]))
        show(curve[-1])
    if not curve:
        raise ValueError(f"none of the checkpoints in {workdir} can be scored")
    return curve


def _check_may_write(workdir: Path) -> None:
    """Raises OSError if scores could not be written: before an hour goes into them."""
    if hosts.is_first():
        for name in ("scores", "translations"):
            check_place(workdir / name)


def _each_checkpoint(workdir: Path, sections: Sections | None) -> Iterator[Trained]:
    """The model at each checkpoint, in order; leaves out, with a word, those that are not whole."""
    average = (sections or read_sections(read_config(workdir))).decoding.average_checkpoints
    steps = checkpoint_steps(workdir)
    if len(steps) < average:
        yield load_trained(workdir, sections)  # raises: it says what is missing
    for last in range(average, len(steps) + 1):
        step, of_mean = steps[last - 1], steps[last - average : last]
        try:
            trained = load_trained(workdir, sections, step)
        except ValueError as error:
            if isinstance(error.__cause__, DamagedError):
                hosts.log(f"{error.__cause__}: left out")
            elif gone := {*of_mean} - {*checkpoint_steps(workdir)}:  # by a run in progress
                what = "left out" if average == 1 else f"no mean up to step {step}"
                hosts.log(f"the checkpoint at step {min(gone)} is gone: {what}")
            else:
                raise
        else:
            yield trained


def _keep_in_curve(path: Path, scores: dict[str, Any]) -> None:
    """Writes a checkpoint's scores to their place in a file; those of another search or BLEU go."""

    def is_of_this_curve(each: dict[str, Any]) -> bool:
        ours, theirs = search_of(scores), search_of(each)
        read = ours.keys() & theirs.keys() - {*CHANGE_NO_TRANSLATION}
        same = ("bleu_signature", "data_fingerprint")
        return all(ours[key] == theirs[key] for key in read) and all(
            scores.get(name) == each.get(name) for name in same
        )

    kept = [each for each in read_curve(path) if is_of_this_curve(each)]
    by_step = {each["step"]: each for each in [*kept, scores]}
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, "".join(json_text(by_step[s]) + "\n" for s in sorted(by_step)).encode())


def _check_splits(workdir: Path, sections: Sections | None, splits: Iterable[str]) -> None:
    """Raises ValueError if a split differs from the run's."""
    if sections is not None:
        before = read_config(workdir).to_dict()
        for split in splits:
            check_split(workdir, before, sections, split)


def _split(workdir: Path, trained: Trained, prepared: Prepared, split: str) -> ScoredText:
    scored = split_of(trained.sections, prepared, split)
    check_kept_split(workdir, trained.sections.data.direction, scored)
    return scored


def _given_text(trained: Trained, given: GivenFiles) -> ScoredText:
    scored = given_text(trained.sections, trained.vocabulary, given)
    check_lengths(scored.prepared, trained.sections, trained.devices)
    return scored


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
            files = "; to score a file, give it and its translations as --source and --reference"
            raise ValueError(
                f"split {split!r} is none of {', '.join(prepared.splits)}"
                f"{files if trained.sections.data.task == 'translation' else ''}"
            )
    return prepared


class _Found(NamedTuple):
    """Scores, and for translation what they were computed from."""

    scores: dict[str, Any]
    translations: list[str]
    beside: dict[str, dict[str, Any]]  # counts of each sentence, by file ending


def _kept(
    workdir: Path, trained: Trained, scored: ScoredText, translates: bool = True
) -> dict[str, Any]:
    """The scores; writes them with what they were computed from.

    If they cannot be written, they are at least told.
    """
    found = _found(trained, scored, translates)
    if hosts.is_first():
        try:
            _write(workdir, scored.name, found)
        except OSError:
            hosts.log(json_text(finite(found.scores), indent=2))
            raise
    return found.scores


def _write(workdir: Path, name: str, found: _Found) -> None:
    if found.translations:
        path = workdir / "translations" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, "".join(line + "\n" for line in found.translations).encode())
    for ending, values in found.beside.items():
        write_json(workdir / "scores" / f"{name}.{ending}.json", values, indent=None)
    write_json(workdir / "scores" / f"{name}.json", found.scores)


def _found(trained: Trained, scored: ScoredText, translates: bool) -> _Found:
    started = time.monotonic()
    sections, prepared, name = trained.sections, scored.prepared, scored.name
    evaluate = make_evaluate(sections, trained.devices, trained.model, prepared, name)
    total = evaluate(trained.params)
    scores = {
        **scored.facts,
        "task": sections.data.task,
        "direction": sections.data.direction,
        "step": trained.step,
        "perplexity": perplexity(total),
        "accuracy": float(total.correct / total.tokens),
        "tokens": int(total.tokens),
        "vocabulary_fingerprint": trained.vocabulary.fingerprint,
        "data_fingerprint": prepared.fingerprint,
    }
    found = _Found(scores, [], {})
    match sections.data.task:
        case "translation" if translates:
            found = _of_translations(trained, scored.pairs())
            found = found._replace(scores=scores | found.scores)
            if name == "test" and (probes := _probe_scores(trained)):
                found.scores["probes"] = probes
        case "language_modelling":
            scores |= _ngram_scores(prepared, name)
        case "masked_language_modelling":
            scores |= _most_frequent_scores(prepared, name)
        case "classification":
            scores |= _class_scores(trained, scored.pairs())
        case "translation":
            pass
    found.scores["seconds"] = time.monotonic() - started
    return found


def _of_translations(trained: Trained, pairs: Sequence[tuple[str, str]]) -> _Found:
    sections = trained.sections
    sources, references = map(list, zip(*pairs, strict=True))
    translations = [best[0].text for best in translate(trained, sources)]
    options: dict[str, Any] = {
        "tokenizer": sections.evaluation.bleu_tokenizer,
        "lowercase": sections.evaluation.bleu_lowercase,
    }
    result = bleu(translations, references, **options)
    statistics = sentence_statistics(translations, references, **options)
    words = num_words(sources)
    metrics = counted(translations, references, sections.data.target_language)
    scores = {
        "bleu": result.score,
        "bleu_signature": result.signature,
        "bleu_by_length": [score._asdict() for score in bleu_by_length(statistics, words)],
        "metrics": {
            name: {"score": metric.score, "signature": metric.signature}
            for name, metric in metrics.items()
        },
        "sentences": len(sources),
        "decoding": dataclasses.asdict(sections.decoding),
    }
    beside = {
        "sentences": {
            "bleu_signature": result.signature,
            "source_words": words,
            "statistics": statistics.tolist(),
        },
        "statistics": {
            name: {"signature": metric.signature, "statistics": metric.statistics.tolist()}
            for name, metric in metrics.items()
        },
    }
    return _Found(scores, translations, beside)


def _probe_scores(trained: Trained) -> dict[str, float]:
    """The share of each kind of probes that the model gets right; none for other corpora."""
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
            compile=partial(ByRow, trained.devices),
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


def _class_scores(trained: Trained, examples: Sequence[tuple[str, str]]) -> dict[str, Any]:
    texts, names = map(list, zip(*examples, strict=True))
    right: dict[str, list[bool]] = {}
    for found, name in zip(classify(trained, texts), names, strict=True):
        if found is not None:
            right.setdefault(name, []).append(found.name == name)
    by_class = {name: sum(right[name]) / len(right[name]) for name in sorted(right)}
    return {"accuracy_by_class": by_class}
