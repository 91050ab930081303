"""Exports a trained translation model to another library's files."""

from pathlib import Path

import jax
import numpy as np

from t2t_jax.interop.ctranslate2_export import export_ctranslate2
from t2t_jax.interop.exporting import check_new
from t2t_jax.interop.marian_export import export_marian
from t2t_jax.model.interface import TranslationModel
from t2t_jax.runs.families import what_it_is
from t2t_jax.runs.workdir import Trained

FORMATS = ("marian", "ctranslate2")


def check_request(format: str, output: Path, max_positions: int) -> None:
    """Checks what needs no model.

    Raises:
      ValueError: an argument is not allowed, or `output` is not empty.
    """
    if format not in FORMATS:
        raise ValueError(f"--format={format} is none of {', '.join(FORMATS)}")
    if max_positions < 1:
        raise ValueError(f"--max_positions={max_positions} must be at least 1")
    check_new(output)


def export(trained: Trained, format: str, output: Path, max_positions: int) -> None:
    """Writes the model to the new directory `output`.

    Raises:
      ValueError: the model does not translate, the format cannot express it (says which key), a
        library is not installed, or `output` already exists.
    """
    check_request(format, output, max_positions)
    sections = trained.sections
    if not isinstance(trained.model, TranslationModel):
        raise ValueError(f"export is of translation models; {what_it_is(trained.model)}")
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
