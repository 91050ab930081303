"""A corpus from TensorFlow Datasets; its splits may be slices, in TFDS's notation."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import tfds


class TfdsChunk(NamedTuple):
    """Examples `start` to `stop` of a TFDS split; decoding the chunk opens the files."""

    dataset: tfds.Dataset
    split: str
    start: int
    stop: int

    def decode(self) -> list[tuple[str, ...]]:
        return list(tfds.read(*self))


class TfdsCorpus(NamedTuple):
    """The examples of a dataset's splits."""

    config: DataConfig
    name: str  # of the dataset
    splits = ("train", "dev", "test")

    def make_ready(self, split: str, log: Callable[[str], None]) -> None:
        """Downloads the dataset, all splits, and prepares it, unless it is there already."""
        tfds.make_ready(self._dataset, log)

    def check(self, split: str) -> None:
        """Opens the files."""
        self.num_examples(split)

    def num_examples(self, split: str) -> int:
        return tfds.num_examples(self._dataset, getattr(self.config, split))

    def read_chunks(self, split: str, examples_per_chunk: int) -> Iterator[TfdsChunk]:
        total = self.num_examples(split)
        for start in range(0, total, examples_per_chunk):
            stop = min(start + examples_per_chunk, total)
            yield TfdsChunk(self._dataset, getattr(self.config, split), start, stop)

    def class_names(self, split: str) -> dict[str, str]:
        """There are none: its texts are translations."""
        return {}

    def files(self, split: str) -> list[str]:
        """The slice, in TFDS's notation."""
        return [f"{self.name} {getattr(self.config, split)}"]

    def hashes(self, split: str, prefix: str) -> dict[str, str]:
        hashes = tfds.hashes(self._dataset, getattr(self.config, split))
        return {f"{prefix}: {file}": sha256 for file, sha256 in hashes.items()}

    @property
    def _dataset(self) -> tfds.Dataset:
        return tfds.Dataset(self.name, self.config.directory, self.config.languages)
