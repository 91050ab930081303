"""t2t-jax translate: translates standard input, a sentence a line, to standard output.

    t2t-jax translate --workdir=W < sentences.en > sentences.de
    t2t-jax translate --workdir=W --config.decoding.beam_size=1 < sentences.en
    t2t-jax translate --model=hf:DIR < sentences.en    a MarianMT model in Hugging Face format

Lines stay in their order; an empty line gives an empty line. With --config.decoding.n_best above
1, each translation is a line of its own: number of the sentence, score, translation, tabs between.
"""

from t2t_jax.cli.workdir_flags import define_model_flags


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)


def main() -> None:
    """Runs the verb."""
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.cli.lines import read_lines, text_output
    from t2t_jax.runs.translate import translate

    output = text_output()
    trained = model_of_flags()
    for number, translations in enumerate(translate(trained, read_lines()), 1):
        if trained.sections.decoding.n_best == 1:
            print(translations[0].text, file=output)
            continue
        for translation in translations:
            print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=output)
