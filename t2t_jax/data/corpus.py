"""What a task reads: a config and a split go in, examples of one or two strings come out.

    translation                                  (source, target)
    language_modelling, masked_language_modelling   (text,)
    classification                               (text, class name)

Text files are read as a stream: nothing here holds a corpus in memory.
"""

import dataclasses
import gzip
import hashlib
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

from t2t_jax.data.config import DataConfig

# Enough for a score that tells two models apart, little enough to decode in seconds.
_EMBEDDED_EVALUATION_PAIRS = 1_000
# Ending of the files with a class name a line.
_LABELS = "labels"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HASH_CHUNK_BYTES = 1 << 20


def split_names(config: DataConfig) -> tuple[str, ...]:
    """The splits this corpus has; "long" (longer than any in train) only if it is embedded."""
    splits = ("train", "dev", "test")
    has_long = config.source == "embedded" and config.task != "classification"
    return (*splits, "long") if has_long else splits


def read_pairs(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of a split, whatever the task; see `read_examples`."""
    translation = dataclasses.replace(config, task="translation")
    return ((source, target) for source, target in read_examples(translation, split))


def read_examples(config: DataConfig, split: str) -> Iterator[tuple[str, ...]]:
    """The examples of a split in their order, blank ones included.

    A line ends at a line feed and nowhere else; a carriage return before it is taken off,
    and so is a byte order mark at the start of the file.

    Raises:
      ValueError: no such split; a file is missing, empty, not UTF-8 or damaged; one file has
        more lines than the other (known at the end of the shorter one).
    """
    if split not in split_names(config):
        allowed = ", ".join(split_names(config))
        raise ValueError(
            f"split {split!r} does not exist: the {config.source} corpus has {allowed}"
        )
    if config.source == "embedded":
        return _read_embedded(config, split)
    return _zip_lines(_split_files(config, split))


def class_names(config: DataConfig) -> tuple[str, ...]:
    """The classes, in the order of their numbers: all that train has; none for another task.

    Raises:
      ValueError: as `read_examples`; a line has no class; all have the same.
    """
    if config.task != "classification":
        return ()
    if config.source == "embedded":
        from t2t_jax.data.word_order import CLASSES

        return CLASSES
    names = set()
    for number, (_, name) in enumerate(read_examples(config, "train"), start=1):
        if not name.strip():
            file = _split_files(config, "train")[1]
            raise ValueError(f"{file}, line {number:,} is blank: each line must be a class")
        names.add(name)
    if len(names) < 2:
        file = _split_files(config, "train")[1]
        raise ValueError(f"{file} has the class {names.pop()!r} alone: at least 2 must occur")
    return tuple(sorted(names))


def check_corpus(config: DataConfig) -> None:
    """Reads a text corpus through, so that its mistakes are told before anything is trained.

    Raises:
      ValueError: as `read_examples` and `class_names`, for any split; a class is not in train.
    """
    if config.source == "embedded":
        return
    for split in split_names(config):
        _split_files(config, split)
    classes = class_names(config)
    for split in split_names(config):
        for number, (_, *names) in enumerate(read_examples(config, split), start=1):
            if classes and names[0] not in classes:
                file = _split_files(config, split)[1]
                raise ValueError(
                    f"{file}, line {number:,}: {names[0]!r} is no class of train, which has "
                    f"{', '.join(classes)}"
                )


def content_hashes(config: DataConfig) -> dict[str, str]:
    """sha256 of all that the sentences depend on besides the config, by name.

    Raises:
      ValueError: a file is missing.
    """
    if config.source == "embedded":
        here = Path(__file__).parent
        files = [here / "grammar.py", *sorted((here / "embedded").glob("*.py"))]
        if config.task == "classification":
            files.append(here / "word_order.py")
        return {file.name: file_sha256(file) for file in files}
    return {
        f"{split}.{ending}": file_sha256(file)
        for split in split_names(config)
        for ending, file in zip(_endings(config), _split_files(config, split), strict=True)
    }


def file_sha256(file: Path) -> str:
    """Hexadecimal sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _read_embedded(config: DataConfig, split: str) -> Iterator[tuple[str, ...]]:
    from t2t_jax.data.grammar import embedded_pairs
    from t2t_jax.data.word_order import CLASSES, swapped_pairs

    num_pairs = config.train_pairs if split == "train" else _EMBEDDED_EVALUATION_PAIRS
    if config.task == "classification":
        for pair in swapped_pairs(split, num_pairs, config.corpus_seed, config.source_language):
            yield from zip(pair, CLASSES, strict=True)
        return
    columns = [("en", "de").index(language) for language in config.languages]
    for pair in embedded_pairs(split, num_pairs, config.corpus_seed):
        yield tuple(pair[column] for column in columns)


def _endings(config: DataConfig) -> tuple[str, ...]:
    """Of the files of a split, one for each string of an example."""
    return (*config.languages, *([_LABELS] if config.task == "classification" else []))


def _split_files(config: DataConfig, split: str) -> list[Path]:
    stem = getattr(config, split)
    return [_find_file(config.directory, f"{stem}.{ending}", split) for ending in _endings(config)]


def _find_file(directory: str, name: str, split: str) -> Path:
    """`name` in `directory`, or else `name`.gz."""
    folder = Path(directory).expanduser()
    if not folder.is_dir():
        raise ValueError(f"directory={directory!r} does not exist or is no directory")
    for file in (folder / name, folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise ValueError(f"no {split} split in {folder}: neither {name} nor {name}.gz is there")


def _zip_lines(files: list[Path]) -> Iterator[tuple[str, ...]]:
    num_lines = [0] * len(files)
    for lines in itertools.zip_longest(*map(_lines, files)):
        for k, line in enumerate(lines):
            num_lines[k] += line is not None
        if None not in lines:
            yield lines
    for file, number in zip(files, num_lines, strict=True):
        if number == 0:
            raise ValueError(f"{file} is empty: one line for each example is expected")
    if len(set(num_lines)) > 1:
        (first, second), (num_first, num_second) = files, num_lines
        longer = first if num_first > num_second else second
        raise ValueError(
            f"{first} has {num_first:,} lines, {second} has {num_second:,}: line "
            f"{min(num_lines) + 1:,} of {longer.name} has no partner"
        )


def _lines(file: Path) -> Iterator[str]:
    number = 0
    try:
        # Bytes are split at line feeds only; text mode would also split at carriage returns,
        # str.splitlines at half a dozen more.
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"{file}, line {number:,}: not UTF-8 (byte 0x{byte:02x} at position {error.start})"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{file}, after line {number:,}: damaged gzip file ({error})") from error
