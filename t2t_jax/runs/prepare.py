"""The prepared corpus of a run: token ids on disk, and the vocabulary."""

from t2t_jax import hosts
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.data.prepare.prepared import prepare as prepare_data
from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.runs.sections import Sections, check_classes_fit, check_vocabulary_fits
from t2t_jax.training.progress import Progress


def prepare(sections: Sections, vocabulary: Vocabulary | None = None) -> Prepared:
    """The corpus of `sections.data`, built if missing; with several hosts, by the first.

    A given `vocabulary` is used instead of learning one.

    Raises:
      ValueError: the corpus is wrong or does not fit the model, or hosts see different ones.
      OSError: a file cannot be written.
    """
    prepared = hosts.first_then_others(
        lambda: prepare_data(sections.data, hosts.log, vocabulary, make_bar=Progress)
    )
    check_vocabulary_fits(sections.model, prepared.vocabulary.size)
    check_classes_fit(sections.model, prepared.classes)
    hosts.check_same("the prepared corpus", prepared.fingerprint.encode(), "give all the same text")
    return prepared
