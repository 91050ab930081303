"""t2t-jax classify: the class of each line of standard input, with its probability.

    t2t-jax classify --workdir=W < sentences > classes
    t2t-jax classify --model=hf:DIR < sentences    a BERT or DistilBERT in Hugging Face format

Writes one line per input line, in order: class, tab, probability; an empty line gives an empty
line. The class names come from W/classes.txt or DIR/config.json. A line longer than
--config.data.max_length tokens is an error; the lines before it are written first.
"""

from t2t_jax.cli.workdir_flags import define_model_flags


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)


def main() -> None:
    """Runs the verb."""
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.cli.lines import read_windows, text_output
    from t2t_jax.runs.classify import classify_lines

    with text_output() as output:
        windows = read_windows()
        for found in classify_lines(model_of_flags(), windows):
            print(f"{found.name}\t{found.probability:.4f}" if found else "", file=output)
