"""Finds the text files of train, dev and test in a directory, under their usual names."""

import os
import re
from collections.abc import Collection, Iterable

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import text_files

# The usual file stems of each split.
_USUAL = {"train": "train", "dev": "val|valid|validation|dev", "test": "test.*"}
_LABELS = "labels"  # ending of files with one class name per line


def endings(config: DataConfig) -> tuple[str, ...]:
    """The endings of a split's files, one for each string of an example."""
    labels = [_LABELS] if config.task == "classification" else []
    return (*config.languages, *labels)


def holds_text(config: DataConfig) -> bool:
    """Whether a directory of training text has a file with an ending of the config."""
    ends = tuple(f".{ending}{gz}" for ending in endings(config) for gz in ("", ".gz"))
    return any(
        name.endswith(ends)
        for directory in _of_train(config)
        for name in text_files.names_in(directory)
    )


def find_names(config: DataConfig, given: Collection[str], section: str) -> dict[str, str]:
    """The stem of each split whose files have a usual name, not the one in the config.

    A split that is `given`, or has no files with a usual name, stays as in the config.

    Args:
      section: how an error names the section, such as "--config.data".

    Raises:
      ValueError: several stems could be meant.
    """
    found = {}
    for split, usual in _USUAL.items():
        directories = _of_train(config) if split == "train" else [config.directory]
        name = getattr(config, split)
        if split in given or any(_has_part(name, config, each) for each in directories):
            continue
        files = map(text_files.names_in, directories)
        stems = set.intersection(*(_whole_stems(config, names) for names in files))
        meant = sorted(stem for stem in stems if re.fullmatch(usual, stem))
        if len(meant) > 1:
            raise ValueError(
                f"{directories[0]} has no {name}.{endings(config)[0]} for {split}, but "
                f"{', '.join(meant)}: say which, such as {section}.{split}={meant[0]}"
            )
        if meant:
            found[split] = meant[0]
    return found


def _of_train(config: DataConfig) -> list[str]:
    """The directories with files of train."""
    return [name for name, _ in config.corpora] or [config.directory]


def _has_part(stem: str, config: DataConfig, directory: str) -> bool:
    """Whether a file of the split is there; its stem may name a folder too."""
    path = os.path.join(os.path.expanduser(directory), stem)
    ends = [f".{ending}{gz}" for ending in endings(config) for gz in ("", ".gz")]
    return any(os.path.isfile(path + end) for end in ends)


def _whole_stems(config: DataConfig, names: Iterable[str]) -> set[str]:
    """The stems that have a file with every ending."""
    plain = [name.removesuffix(".gz") for name in names]
    by_ending = [
        {name.removesuffix(f".{ending}") for name in plain if name.endswith(f".{ending}")}
        for ending in endings(config)
    ]
    return set.intersection(*by_ending)
