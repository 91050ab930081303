"""A corpus of a person's own: text files in a directory that the command line names."""

from collections.abc import Callable, Collection

from ml_collections import ConfigDict

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora.text_splits import find_names, holds_train


def with_own_corpus(
    config: ConfigDict, flag: str, given: Collection[str], log: Callable[[str], None]
) -> ConfigDict:
    """The config with the text files of a directory that was given, by the names they have there.

    What is changed is said to `log`, and stands in the config of the run.

    Args:
      flag: what the keys are set with, "config" or "base".
      given: the keys that the person has set.

    Raises:
      ValueError, TypeError: several files could be meant, or the section `data` is wrong.
    """
    config = config.copy_and_resolve_references().lock()
    values = config.to_dict()["data"]
    changes = {}
    if values["directory"] and "data.directory" in given and "data.source" not in given:
        is_tfds = values["source"] == "tfds"  # a directory with text in it is none of TFDS's
        if not is_tfds or ("data.name" not in given and holds_train(DataConfig(**values))):
            values["source"] = "text"
    if values["source"] != config.data.source:
        changes["source"] = values["source"]
    if values["source"] == "text" and values["directory"]:
        splits = {key.removeprefix("data.") for key in given}
        changes |= find_names(DataConfig(**values), splits, f"--{flag}.data")
    if changes:
        config.update_from_flattened_dict({f"data.{key}": each for key, each in changes.items()})
        said = " ".join(f"data.{key}={value}" for key, value in changes.items())
        log(f"the corpus is in {values['directory']}, hence {said}")
    return config
