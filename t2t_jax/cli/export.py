"""t2t-jax export: a trained translation model as files of another library.

    t2t-jax export --workdir=W --format=marian --output=DIR
    t2t-jax export --workdir=W --format=ctranslate2 --output=DIR

"marian": DIR is what `transformers` loads as MarianMTModel and MarianTokenizer. "ctranslate2": DIR
is for `ctranslate2.Translator`, which takes and gives pieces of DIR/vocabulary.model. A directory
that is there already is not written to. Needs the `interop` extra. MarianMT has an epsilon of its
own in layer norms: --config.model.norm_epsilon=1e-5 moves a logit by some 1e-5.
"""

from pathlib import Path

import jax
import numpy as np
from absl import flags

from t2t_jax import hosts
from t2t_jax.cli.workdir_flags import define_workdir_flags, trained_of_flags
from t2t_jax.interop.ctranslate2_export import export_ctranslate2
from t2t_jax.interop.marian_export import export_marian
from t2t_jax.runs.families import check_family
from t2t_jax.runs.workdir import Trained

_FORMATS = ("marian", "ctranslate2")


def export(trained: Trained, format: str, output: Path, max_positions: int) -> None:
    """Writes the model to the new directory `output`.

    Raises:
      ValueError: the model does not translate, the format cannot express it (says which key), a
        library is not installed, or `output` is there already.
    """
    if format not in _FORMATS:
        raise ValueError(f"--format={format} is none of {', '.join(_FORMATS)}")
    if max_positions < 1:
        raise ValueError(f"--max_positions={max_positions} must be at least 1")
    sections = trained.sections
    check_family(sections.model, "translate")
    params = jax.tree.map(np.asarray, trained.params)
    model = (sections.model, params, trained.vocabulary, output)
    if format == "ctranslate2":
        export_ctranslate2(*model, max_positions=max_positions)
    else:
        languages = (sections.data.source_language, sections.data.target_language)
        export_marian(
            *model,
            decoding=sections.decoding,
            languages=languages,
            max_positions=max_positions,
        )


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_workdir_flags(arguments, __name__)
    flags.DEFINE_string("format", None, " or ".join(_FORMATS))
    flags.DEFINE_string("output", None, "the directory to make")
    flags.DEFINE_integer("max_positions", 512, "longest sentence it will take, tokens")
    flags.mark_flags_as_required(["format", "output"])


def main() -> None:
    """Runs the verb."""
    if hosts.are_several():
        raise ValueError("export writes one directory: run it on one host")
    values = flags.FLAGS
    output = Path(values.output).expanduser()
    export(trained_of_flags(), values.format, output, values.max_positions)
