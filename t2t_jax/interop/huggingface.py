"""Imports a model in Hugging Face format as our config, parameters and vocabulary.

In: a directory with config.json, *.safetensors and the tokenizer's files. Nothing is downloaded or
unpickled. Reads MarianMT, GPT-2, BERT and DistilBERT.
"""

from pathlib import Path
from typing import NamedTuple

from t2t_jax.interop import bert, gpt2, marian
from t2t_jax.interop.bert import Head
from t2t_jax.interop.layers import Params
from t2t_jax.interop.model_files import ModelFiles, model_type
from t2t_jax.interop.vocabulary import PretrainedVocabulary
from t2t_jax.model.config import TransformerConfig


class Pretrained(NamedTuple):
    """A model of another library as one of ours."""

    config: TransformerConfig
    params: Params  # of `make_model(config)`, without those of a new head
    vocabulary: PretrainedVocabulary
    opens_with_start: bool  # whether a language model reads START before a prompt
    class_names: tuple[str, ...]  # of a classifier


def load_pretrained(
    directory: Path, *, head: Head | None = None, num_classes: int | None = None
) -> Pretrained:
    """The model in `directory`.

    Args:
      directory: in Hugging Face format.
      head: BERT and DistilBERT only: what to learn, "masked" tokens or "classes". The parameters
        of a head that the directory does not have are left out. None: the head that is there.
      num_classes: with head="classes", the number of classes.

    Raises:
      ValueError: the directory holds no readable model; says what is missing or wrong.
    """
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is not a directory: models are read from disk, never fetched"
        )
    files = _read(directory, model_type(directory), head, num_classes)
    vocabulary = PretrainedVocabulary(directory, files.rows)
    return Pretrained(
        files.config, files.params, vocabulary, files.opens_with_start, files.class_names
    )


def _read(directory: Path, kind: str, head: Head | None, num_classes: int | None) -> ModelFiles:
    match kind:
        case "marian":
            return marian.read(directory)
        case "gpt2":
            return gpt2.read(directory)
        case "bert":
            return bert.read_bert(directory, head, num_classes)
        case "distilbert":
            return bert.read_distilbert(directory, head, num_classes)
        case _:
            raise ValueError(
                f"{directory / 'config.json'}: model_type={kind!r} cannot be read; marian, gpt2, "
                "bert and distilbert can"
            )
