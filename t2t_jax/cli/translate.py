"""t2t-jax translate: translates standard input, a sentence a line, to standard output.

    t2t-jax translate --workdir=W < sentences.en > sentences.de
    t2t-jax translate --workdir=W --config.decoding.beam_size=1 < sentences.en
    t2t-jax translate --model=hf:DIR < sentences.en    a MarianMT model in Hugging Face format

Lines stay in their order; an empty line gives an empty line. With --config.decoding.n_best above
1, each translation is a line of its own: number of the sentence, score, translation, tabs between.
"""

from collections.abc import Sequence
from pathlib import Path

from ml_collections import ConfigDict

from t2t_jax.cli.lines import read_lines, text_output
from t2t_jax.cli.workdir_flags import UsableModel, define_model_flags, model_of_flags
from t2t_jax.decoding.translate import Translation, Translator
from t2t_jax.runs import workdir as run_directory
from t2t_jax.runs.families import check_family
from t2t_jax.training.progress import Progress


def translate(
    workdir: Path, sentences: Sequence[str], config: ConfigDict | None = None
) -> list[list[Translation]]:
    """The n best translations of each sentence, by the model of `workdir`.

    Raises:
      ValueError: `workdir` holds no trained model, or a sentence is too long for it.
    """
    config = config or run_directory.read_config(workdir)
    return translate_with(run_directory.load_trained(workdir, config), sentences)


def translate_with(trained: UsableModel, sentences: Sequence[str]) -> list[list[Translation]]:
    """The n best translations of each sentence, by a model that is loaded.

    Raises:
      ValueError: the model does not translate, or a sentence is too long for it.
    """
    check_family(trained.sections.model, "translate")
    translator = Translator(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.sections.decoding,
        compile=trained.devices.compile_by_row,
        row_multiple=trained.devices.num_data,
    )
    with Progress("translate", len(sentences)) as progress:
        return translator(sentences, lambda done, _: progress.update(done, "sentences"))


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)


def main() -> None:
    """Runs the verb."""
    output = text_output()
    trained = model_of_flags()
    for number, translations in enumerate(translate_with(trained, read_lines()), 1):
        if trained.sections.decoding.n_best == 1:
            print(translations[0].text, file=output)
            continue
        for translation in translations:
            print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=output)
