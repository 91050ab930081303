"""t2t-jax translate: translates standard input, one sentence per line, to standard output.

    t2t-jax translate --workdir=W < sentences.en > sentences.de
    t2t-jax translate --workdir=W --config.decoding.beam_size=1 < sentences.en
    t2t-jax translate --model=hf:DIR < sentences.en    a MarianMT model in Hugging Face format

Lines keep their order; an empty line gives an empty line. With --config.decoding.n_best above 1,
each translation has its own line: sentence number, score, translation, separated by tabs.

Lines are translated and written some thousands at a time. A line longer than the model was trained
on, --config.data.max_length tokens, is translated sentence by sentence, with a message.
"""

from typing import get_args

from absl import flags

from t2t_jax.cli.workdir_flags import define_model_flags
from t2t_jax.decoding.long_lines import LongLines


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)
    flags.DEFINE_enum(
        "long_lines",
        "split",
        get_args(LongLines),
        "a line longer than data.max_length tokens: split it into sentences, or refuse it",
        module_name=__name__,
    )


def main() -> None:
    """Runs the verb."""
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.cli.lines import read_windows, text_output
    from t2t_jax.runs.translate import translate_lines

    with text_output() as output:
        windows = read_windows()
        trained = model_of_flags()
        found = translate_lines(trained, windows, flags.FLAGS.long_lines)
        for number, translations in enumerate(found, 1):
            if trained.sections.decoding.n_best == 1:
                print(translations[0].text, file=output)
                continue
            for translation in translations:
                print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=output)
