"""t2t-jax export: writes a trained translation model as another library's files.

    t2t-jax export --workdir=W --format=marian --output=DIR --config.model.norm_epsilon=1e-5
    t2t-jax export --workdir=W --format=ctranslate2 --output=DIR

"marian": `transformers` loads DIR as MarianMTModel and MarianTokenizer. "ctranslate2": DIR is for
`ctranslate2.Translator`, which takes and returns pieces of DIR/vocabulary.model, or of the
tokenizer in DIR/tokenizer if the run began with --init. A directory that is not empty is not
written to. Needs the `interop` extra. MarianMT has its own layer norm epsilon,
1e-5, which moves a logit by some 1e-5; a run begun from one of its models has it already.
"""

from absl import flags

from t2t_jax.cli.workdir_flags import define_workdir_flags


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    flags.DEFINE_string("format", None, "marian or ctranslate2")
    flags.DEFINE_string("output", None, "the directory to create")
    flags.DEFINE_integer(
        "max_positions",
        512,
        "longest sentence it will accept, in tokens; learned positions: as many as there are",
    )
    flags.mark_flags_as_required(["format", "output"])


def main() -> None:
    """Runs the verb."""
    from t2t_jax import hosts
    from t2t_jax.buckets import local_path
    from t2t_jax.cli.chosen_model import trained_of_flags
    from t2t_jax.runs.export import check_request, export

    if hosts.are_several():
        raise ValueError("export writes one directory: run it on one host")
    values = flags.FLAGS
    output = local_path(values.output, "--output")
    check_request(values.format, output, values.max_positions)  # before the model is loaded
    export(trained_of_flags(), values.format, output, values.max_positions)
