"""What all exports have in common: tensors in their layout, names of tokens, a new directory.

Axes: D d_model, H heads, K width of a head, F d_ff, I and O inputs and outputs of a linear map.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from t2t_jax.data.vocabulary.vocabulary import PAD_ID, START_ID, Vocabulary
from t2t_jax.interop.layers import Params
from t2t_jax.interop.vocabulary import PretrainedVocabulary
from t2t_jax.json_files import full_disk_told
from t2t_jax.model.config import TransformerConfig


class Linear(NamedTuple):
    """A linear map in the layout of PyTorch and CTranslate2."""

    weight: Float[np.ndarray, "O I"]
    bias: Float[np.ndarray, " O"]


def linear(params: Params, num_in: int, num_out: int) -> Linear:
    """One of our linear maps, with its heads merged; a missing bias is 0."""
    weight = np.asarray(params["kernel"]).reshape(num_in, num_out).T
    bias = params.get("bias", np.zeros(num_out, np.float32))
    return Linear(np.ascontiguousarray(weight), np.asarray(bias).reshape(num_out))


def attention_maps(params: Params, d_model: int) -> dict[str, Linear]:
    """Query, key, value and output of an attention whose heads divide the model's width."""
    return {name: linear(params[name], d_model, d_model) for name in params}


def tables(config: TransformerConfig, params: Params) -> dict[str, Float[np.ndarray, "rows D"]]:
    """The embeddings of source and target and the output table, which may be the same."""

    def table(name: str) -> Float[np.ndarray, "rows D"]:
        return np.asarray(params[name]["table"])

    target = table("embedding")
    match config.tied_embeddings:
        case "all":
            return dict(source=target, target=target, output=target)
        case "decoder":
            return dict(source=table("source_embedding"), target=target, output=target)
        case "none":
            output = table("output_embedding")
            return dict(source=table("source_embedding"), target=target, output=output)


def output_bias(config: TransformerConfig, params: Params) -> Float[np.ndarray, " rows"]:
    """The bias of the logits, 0 if the model has none."""
    if config.output_bias:
        return np.asarray(params["output"]["bias"])
    return np.zeros(config.vocabulary_rows, np.float32)


def never_generated(vocabulary: Vocabulary, num_rows: int) -> list[int]:
    """Padding, start, and rows without a token: ids that no search of ours chooses."""
    return [PAD_ID, START_ID, *range(vocabulary.size, num_rows)]


def token_names(vocabulary: Vocabulary, num_rows: int) -> list[str]:
    """A unique name for the token of each row."""
    is_silent = np.zeros(num_rows, bool)
    if isinstance(vocabulary, PretrainedVocabulary):
        is_silent = vocabulary.rows.is_silent
    return [
        vocabulary.piece(row) if row < vocabulary.size and not is_silent[row] else f"<unused_{row}>"
        for row in range(num_rows)
    ]


def check_new(output: Path) -> None:
    """Raises ValueError if `output` exists and is not empty."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file: name a new directory")
    if output.exists() and any(output.iterdir()):
        raise ValueError(
            f"{output} already exists and is not empty: name a new directory, or empty it first"
        )


@contextlib.contextmanager
def new_directory(output: Path) -> Iterator[Path]:
    """A directory to write to, which becomes `output` once everything is written.

    Raises:
      ValueError: `output` exists and is not empty.
    """
    output = output.resolve()  # "." has no name
    check_new(output)
    with full_disk_told(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as aside:
            whole = Path(aside) / output.name
            whole.mkdir()
            yield whole
            whole.rename(output)
