"""The user's own corpus: text files in a directory given on the command line."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.text_splits import find_names, holds_text
from t2t_jax.runs.sections import read_section


def with_own_corpus(
    config: ConfigDict, flag: str, given: Collection[str], log: Callable[[str], None]
) -> ConfigDict:
    """The config with the text files of a given directory, by the names they have there.

    Changes are logged, and are part of the run's config.

    Args:
      flag: the flag that sets the keys, "config" or "base".
      given: the keys that the user set.

    Raises:
      ValueError, TypeError: several files could be meant, the directory holds neither text nor the
        dataset, or the section `data` is wrong.
    """
    values: dict[str, Any] = config.to_dict().get("data", {})
    if not values.get("directory"):
        return config
    changes = {}
    source, as_text = values.get("source"), {**values, "source": "text"}
    may_be_text = "data.directory" in given and "data.source" not in given
    if may_be_text and source == "tfds" and "data.name" not in given:
        # A directory with text is not one of TFDS.
        if holds_text(read_section(as_text, "data", DataConfig)):
            changes["source"] = "text"
        else:
            _check_is_of_tfds(read_section(values, "data", DataConfig), flag)
    elif may_be_text and source == "embedded":
        changes["source"] = "text"
    data = read_section({**values, **changes}, "data", DataConfig)
    if data.source == "text":
        splits = {key.removeprefix("data.") for key in given}
        changes |= find_names(data, splits, f"--{flag}.data")
    config = config.copy_and_resolve_references().lock()
    if changes:
        config.update_from_flattened_dict({f"data.{key}": each for key, each in changes.items()})
        said = " ".join(f"data.{key}={value}" for key, value in changes.items())
        log(f"the corpus is in {data.directory}, hence {said}")
    return config


def _check_is_of_tfds(data: DataConfig, flag: str) -> None:
    """Raises ValueError if a directory is there for something else: TFDS would download into it."""
    place = Path(data.directory).expanduser()
    dataset = data.name.partition("/")[0].partition(":")[0]
    if "://" in data.directory or (place / dataset).exists():
        return
    if place.is_dir() and not any(place.iterdir()):
        return
    what = "is not an existing directory"
    if place.is_dir():
        endings = " and ".join(f".{language}" for language in data.languages)
        what = f"holds neither text files that end in {endings} nor TFDS's folder {dataset}"
    raise ValueError(
        f"--{flag}.data.directory={data.directory} {what}: if it is TFDS's, here or on another "
        f"machine, give --{flag}.data.source=tfds too"
    )
