"""Writes datasets as TFDS does, under its names, with our own sentences."""

import importlib
from pathlib import Path
from typing import Any

WMT14 = "wmt14_translate/de-en"

Text = str | bytes


def write_tfds(
    directory: Path,
    pairs_by_split: dict[str, list[tuple[Text, Text]]],
    name: str = WMT14,
    *,
    languages: tuple[str, str] = ("en", "de"),
    num_shards: int = 3,
) -> None:
    """Pairs of texts, each in the order of `languages`; the dataset keeps the order of the pairs.

    Read it with `directory` as TFDS's data_dir.
    """
    import tensorflow_datasets as tfds

    importlib.import_module("tensorflow_datasets.translate")
    examples = {
        split: [dict(zip(languages, pair, strict=True)) for pair in pairs]
        for split, pairs in pairs_by_split.items()
    }
    dataset, _, config = name.partition("/")
    _write(tfds.builder_cls(dataset), directory, config, examples, num_shards)


def write_own(directory: Path, name: str, examples: list[Any]) -> None:
    """A split train of a dataset that TFDS has no code for: ids and texts in three languages."""
    import tensorflow_datasets as tfds

    translation = tfds.features.Translation(("de", "en", "fr"))
    own_name = name

    class Own(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = own_name
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {"id": tfds.features.Text(), "translation": translation}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

    _write(Own, directory, "", {"train": examples}, num_shards=1)


def _write(
    original: Any,
    directory: Path,
    config: str,
    examples_by_split: dict[str, list[Any]],
    num_shards: int,
) -> None:
    """TFDS's own code writes, its builder `original` less the download."""
    import tensorflow_datasets as tfds

    class Builder(original, skip_registration=True):
        name = original.name

        def _info(self):
            # Else TFDS shuffles what it writes.
            return tfds.core.DatasetInfo(
                builder=self, features=super()._info().features, disable_shuffling=True
            )

        def _split_generators(self, dl_manager):
            return {split: enumerate(examples) for split, examples in examples_by_split.items()}

        def _generate_examples(self):
            raise AssertionError("_split_generators gives the examples themselves")

    tfds.disable_progress_bar()
    Builder(config=config or None, data_dir=directory).download_and_prepare(
        file_format="array_record",
        download_config=tfds.download.DownloadConfig(num_shards=num_shards),
    )
