"""A corpus of text files: SPLIT.LANGUAGE in a directory, for classification SPLIT.labels too."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_jax.buckets import local_path
from t2t_jax.data.config import DataConfig
from t2t_jax.data.corpora import text_files
from t2t_jax.data.corpora.text_splits import endings


class TextCorpus(NamedTuple):
    """Line n of each file of a split is example n; a file may be gzipped."""

    config: DataConfig
    directory: str
    splits = ("train", "dev", "test")

    def make_ready(self, split: str, log: Callable[[str], None]) -> None:
        """Fetches nothing; logs which file is read if there is a plain and a gzipped one."""
        is_of_mixture = self.directory != self.config.directory
        folder = local_path(self.directory, "data.mixture" if is_of_mixture else "data.directory")
        for ending in self._endings:
            file = folder / f"{getattr(self.config, split)}.{ending}"
            if file.is_file() and (twin := text_files.unused_twin(file)):
                log(f"{folder} has {file.name} and {twin.name}: {file.name} is read")

    def check(self, split: str) -> None:
        """Reads all files to the end."""
        files = self._files(split)
        text_files.check_counts(files, [text_files.check_file(file) for file in files])

    def num_examples(self, split: str) -> int:
        """Counts the lines of one file."""
        return text_files.count_lines(self._files(split)[0])

    def read_chunks(self, split: str, examples_per_chunk: int) -> Iterator[text_files.LineChunk]:
        return text_files.read_chunks(self._files(split), examples_per_chunk)

    def class_names(self, split: str) -> dict[str, str]:
        """The classes, in alphabetical order."""
        file = self._files(split)[-1]
        places = {}
        for chunk in text_files.read_chunks([file], text_files.LINES_AT_ONCE):
            for number, (name,) in enumerate(chunk.decode(), chunk.first_line):
                if name not in places:
                    places[name] = f"{file}, line {number:,}"
        return dict(sorted(places.items()))

    def files(self, split: str) -> list[str]:
        return list(map(str, self._files(split)))

    def hashes(self, split: str, prefix: str) -> dict[str, str]:
        files = zip(self._endings, self._files(split), strict=True)
        return {f"{prefix}.{ending}": text_files.file_sha256(file) for ending, file in files}

    @property
    def _endings(self) -> tuple[str, ...]:
        return endings(self.config)

    def _files(self, split: str) -> list[Path]:
        """The files of a split, one for each string of an example."""
        names = [f"{getattr(self.config, split)}.{ending}" for ending in self._endings]
        return [text_files.find_file(self.directory, name, split) for name in names]
