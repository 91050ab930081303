"""Sentences into translations, by a model that is loaded."""

from collections.abc import Sequence
from functools import partial

from t2t_jax.compilation import compile_by_row
from t2t_jax.decoding.translate import Translation, Translator
from t2t_jax.model.interface import TranslationModel
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.workdir import UsableModel
from t2t_jax.training.progress import Progress


def translate(trained: UsableModel, sentences: Sequence[str]) -> list[list[Translation]]:
    """The n best translations of each sentence, by a model that is loaded.

    Raises:
      ValueError: the model does not translate, or a sentence is too long for it.
    """
    if not isinstance(trained.model, TranslationModel):
        raise wrong_verb(trained.model, "translate")
    translator = Translator(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.sections.decoding,
        compile=partial(compile_by_row, trained.devices),
        row_multiple=trained.devices.num_data,
    )
    with Progress("translate", len(sentences)) as progress:
        return translator(sentences, lambda done, _: progress.update(done, "sentences"))
