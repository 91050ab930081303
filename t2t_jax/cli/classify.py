"""t2t-jax classify: the class of every line of standard input, and its probability.

    t2t-jax classify --workdir=W < sentences > classes
    t2t-jax classify --model=hf:DIR < sentences    a BERT or DistilBERT in Hugging Face format

A line each, in their order: class, tab, probability; an empty line gives an empty line. The
names of the classes are those of W/classes.txt, or of DIR/config.json.
"""

from collections.abc import Sequence

from t2t_jax.cli.lines import read_lines, text_output
from t2t_jax.cli.workdir_flags import UsableModel, define_model_flags, model_of_flags
from t2t_jax.decoding.classify import Classification, SentenceClassifier
from t2t_jax.model.classifier import Classifier
from t2t_jax.runs.families import check_family
from t2t_jax.training.progress import Progress


def classify_with(trained: UsableModel, sentences: Sequence[str]) -> list[Classification | None]:
    """The class of each sentence, None for an empty one, by a model that is loaded.

    Raises:
      ValueError: the model is no classifier, or a sentence is too long for it.
    """
    check_family(trained.sections.model, "classify")
    assert isinstance(trained.model, Classifier)
    classifier = SentenceClassifier(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.classes,
        compile=trained.devices.compile_by_row,
        tokens_per_batch=trained.sections.decoding.tokens_per_batch,
        row_multiple=trained.devices.num_data,
    )
    with Progress("classify", len(sentences)) as progress:
        return classifier(sentences, lambda done, _: progress.update(done, "sentences"))


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)


def main() -> None:
    """Runs the verb."""
    output = text_output()
    for found in classify_with(model_of_flags(), read_lines()):
        print(f"{found.name}\t{found.probability:.4f}" if found else "", file=output)
