"""t2t-jax translate: translates standard input, a sentence a line, to standard output.

    t2t-jax translate --workdir=W < sentences.en > sentences.de
    t2t-jax translate --workdir=W --config.decoding.beam_size=1 < sentences.en

Lines stay in their order; an empty line gives an empty line. With --config.decoding.n_best above
1, each translation is a line of its own: number of the sentence, score, translation, tabs between.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict

from t2t_jax.cli import workdir as run_directory
from t2t_jax.cli.workdir_flags import define_workdir_flags
from t2t_jax.decoding.translate import Translation, Translator
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


def translate_with(
    trained: run_directory.Trained, sentences: Sequence[str]
) -> list[list[Translation]]:
    """The n best translations of each sentence, by a model that is loaded."""
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
    define_workdir_flags(arguments, __name__)


def main() -> None:
    """Runs the verb."""
    output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
    data = sys.stdin.buffer.read()
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {number} of the input is not UTF-8") from error
    sentences = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    workdir = Path(flags.FLAGS.workdir).expanduser()
    for number, translations in enumerate(translate(workdir, sentences, flags.FLAGS.config), 1):
        if flags.FLAGS.config.decoding.n_best == 1:
            print(translations[0].text, file=output)
            continue
        for translation in translations:
            print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=output)
