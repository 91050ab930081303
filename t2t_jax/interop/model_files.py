"""What the readers of all families have in common: a directory's config.json, and their result."""

from pathlib import Path
from typing import Any, NamedTuple

from t2t_jax.interop.layers import Params
from t2t_jax.interop.libraries import in_one_line, library
from t2t_jax.interop.vocabulary import Rows
from t2t_jax.json_files import read_json
from t2t_jax.model.config import TransformerConfig

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
}


class ModelFiles(NamedTuple):
    """A model as read from a directory."""

    config: TransformerConfig
    params: Params
    rows: Rows
    opens_with_start: bool = True
    class_names: tuple[str, ...] = ()


class TheirConfig:
    """`config.json`, with missing values filled in by the `transformers` library.

    Raises:
      ValueError: there is none, or it cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        transformers = library("transformers")
        self.path = directory / "config.json"
        try:
            self._values = transformers.AutoConfig.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            ).to_dict()
        except Exception as error:  # it has its own exceptions, which are no ValueError
            raise ValueError(f"{self.path} cannot be read: {in_one_line(error)}") from error

    def __getitem__(self, key: str) -> Any:
        return self._values.get(key)

    def require(self, key: str, *allowed: Any) -> None:
        """Raises ValueError unless the value of `key` is one that our models support."""
        if self[key] not in allowed:
            told = " or ".join(map(repr, allowed))
            raise ValueError(f"{self.path}: {key}={self[key]!r}; only {told} can be read")

    def activation(self, key: str) -> str:
        """Our name of an activation."""
        self.require(key, *_ACTIVATIONS)
        return _ACTIVATIONS[self[key]]

    def head_width(self, d_model: int, num_heads: int) -> int:
        """d_k and d_v, which are equal in their models."""
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"{self.path}: {num_heads} heads cannot share a width of {d_model}")
        return d_model // num_heads


def model_type(directory: Path) -> str:
    """The family named in `config.json`.

    Raises:
      ValueError: there is no such file, or it does not say.
    """
    path = directory / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{directory} has no {path.name}, so it is not a model in Hugging Face format"
        )
    found = read_json(path).get("model_type")
    if not isinstance(found, str):
        raise ValueError(f"{path} has no model_type")
    return found
