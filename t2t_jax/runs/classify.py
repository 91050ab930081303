"""Sentences into classes, by a model that is loaded."""

from collections.abc import Sequence
from functools import partial

from t2t_jax.compilation import compile_by_row
from t2t_jax.decoding.classify import Classification, SentenceClassifier
from t2t_jax.model.classifier import Classifier
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.workdir import UsableModel
from t2t_jax.training.progress import Progress


def classify(trained: UsableModel, sentences: Sequence[str]) -> list[Classification | None]:
    """The class of each sentence, None for an empty one, by a model that is loaded.

    Raises:
      ValueError: the model is no classifier, or a sentence is too long for it.
    """
    if not isinstance(trained.model, Classifier):
        raise wrong_verb(trained.model, "classify")
    classifier = SentenceClassifier(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.classes,
        compile=partial(compile_by_row, trained.devices),
        tokens_per_batch=trained.sections.decoding.tokens_per_batch,
        row_multiple=trained.devices.num_data,
    )
    with Progress("classify", len(sentences)) as progress:
        return classifier(sentences, lambda done, _: progress.update(done, "sentences"))
