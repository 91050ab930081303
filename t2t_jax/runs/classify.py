"""Classifies sentences with a loaded model."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from t2t_jax.compilation import ByRow
from t2t_jax.decoding.classify import Classification, SentenceClassifier
from t2t_jax.decoding.long_lines import refusing_long_lines
from t2t_jax.model.classifier import Classifier
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.limits import line_limit, long_line_advice, token_counter
from t2t_jax.runs.workdir import UsableModel
from t2t_jax.training.progress import Progress


def classify(trained: UsableModel, sentences: Sequence[str]) -> list[Classification | None]:
    """The class of each sentence, None for an empty one.

    Raises:
      ValueError: the model is no classifier, or a sentence is too long for it.
    """
    classifier = _classifier(trained)
    with Progress("classify", len(sentences)) as progress:
        return classifier(sentences, lambda done, _: progress.update(done, "sentences"))


def classify_lines(
    trained: UsableModel, windows: Iterable[Sequence[str]]
) -> Iterator[Classification | None]:
    """Yields the class of each line, in order; finishes a window before reading the next.

    Raises:
      ValueError: the model is no classifier; on reaching it, a line is longer than any the model
        was trained on.
    """
    classifier = _classifier(trained)
    count_tokens = token_counter(trained, num_added=2)  # start and end token
    limit = line_limit(trained)
    windows = refusing_long_lines(windows, count_tokens, limit, long_line_advice(limit))
    with Progress("classify", None) as progress:
        num_done = 0
        for lines in windows:
            yield from classifier(lines)
            num_done += len(lines)
            progress.update(num_done, "sentences")


def _classifier(trained: UsableModel) -> SentenceClassifier:
    if not isinstance(trained.model, Classifier):
        raise wrong_verb(trained.model, "classify")
    return SentenceClassifier(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.classes,
        compile=partial(ByRow, trained.devices),
        tokens_per_batch=trained.sections.decoding.tokens_per_batch,
        row_multiple=trained.devices.num_data,
    )
