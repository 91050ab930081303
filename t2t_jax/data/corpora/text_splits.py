"""Which text files a directory has for train, dev and test, whatever they are called there."""

import re
from collections.abc import Collection, Iterable

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import text_files

# Stems of files that can be nothing else.
_USUAL = {"train": "train", "dev": "val|valid|validation|dev", "test": "test.*"}
_LABELS = "labels"  # ending of the files with a class name a line


def endings(config: DataConfig) -> tuple[str, ...]:
    """Of the files of a split, one for each string of an example."""
    labels = [_LABELS] if config.task == "classification" else []
    return (*config.languages, *labels)


def holds_train(config: DataConfig) -> bool:
    """Whether text to learn from, called as is usual, lies in the directory."""
    stems = _whole_stems(config, text_files.names_in(config.directory))
    return any(re.fullmatch(_USUAL["train"], stem) for stem in stems)


def find_names(config: DataConfig, given: Collection[str], section: str) -> dict[str, str]:
    """The stem of each split whose files are not called as the config says, but as is usual.

    A split that is `given`, and one of which nothing usual is there, stays as the config has it.

    Args:
      section: how an error names the section, such as "--config.data".

    Raises:
      ValueError: several could be meant.
    """
    found = {}
    for split, usual in _USUAL.items():
        corpora = [name for name, _ in config.corpora] if split == "train" else []
        directories = corpora or [config.directory]
        name = getattr(config, split)
        files = [text_files.names_in(directory) for directory in directories]
        if split in given or any(_has_part(name, config, names) for names in files):
            continue
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


def _has_part(stem: str, config: DataConfig, names: Collection[str]) -> bool:
    return any(f"{stem}.{ending}{gz}" in names for ending in endings(config) for gz in ("", ".gz"))


def _whole_stems(config: DataConfig, names: Iterable[str]) -> set[str]:
    """The stems of which there is a file with every ending."""
    plain = [name.removesuffix(".gz") for name in names]
    by_ending = [
        {name.removesuffix(f".{ending}") for name in plain if name.endswith(f".{ending}")}
        for ending in endings(config)
    ]
    return set.intersection(*by_ending)
