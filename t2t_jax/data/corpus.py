"""Parallel sentences: a config and a split go in, (source, target) strings come out.

Text files are read as a stream: nothing here holds a corpus in memory.
"""

import gzip
import hashlib
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

from t2t_jax.data.config import DataConfig

# Enough for a score that tells two models apart, little enough to decode in seconds.
_EMBEDDED_EVALUATION_PAIRS = 1_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HASH_CHUNK_BYTES = 1 << 20


def split_names(config: DataConfig) -> tuple[str, ...]:
    """The splits this corpus has; "long" (longer than any in train) only if it is embedded."""
    splits = ("train", "dev", "test")
    return (*splits, "long") if config.source == "embedded" else splits


def read_pairs(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of a split in their order, blank ones included.

    A line ends at a line feed and nowhere else; a carriage return before it is taken off,
    and so is a byte order mark at the start of the file.

    Raises:
      ValueError: no such split; a file is missing, empty, not UTF-8 or damaged; one side has
        more lines than the other (known at the end of the shorter file).
    """
    if split not in split_names(config):
        allowed = ", ".join(split_names(config))
        raise ValueError(
            f"split {split!r} does not exist: the {config.source} corpus has {allowed}"
        )
    if config.source == "embedded":
        return _read_embedded(config, split)
    return _zip_lines(*_split_files(config, split))


def check_corpus(config: DataConfig) -> None:
    """Reads a text corpus through, so that its mistakes are told before anything is trained.

    Raises:
      ValueError: as `read_pairs`, for any split.
    """
    if config.source == "embedded":
        return
    for split in split_names(config):
        _split_files(config, split)
    for split in split_names(config):
        for _ in read_pairs(config, split):
            pass


def content_hashes(config: DataConfig) -> dict[str, str]:
    """sha256 of all that the sentences depend on besides the config, by name.

    Raises:
      ValueError: a file is missing.
    """
    if config.source == "embedded":
        here = Path(__file__).parent
        files = [here / "grammar.py", *sorted((here / "embedded").glob("*.py"))]
        return {file.name: file_sha256(file) for file in files}
    return {
        f"{split}.{language}": file_sha256(file)
        for split in split_names(config)
        for language, file in zip(
            (config.source_language, config.target_language),
            _split_files(config, split),
            strict=True,
        )
    }


def file_sha256(file: Path) -> str:
    """Hexadecimal sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _read_embedded(config: DataConfig, split: str) -> Iterator[tuple[str, str]]:
    from t2t_jax.data.grammar import embedded_pairs

    num_pairs = config.train_pairs if split == "train" else _EMBEDDED_EVALUATION_PAIRS
    pairs = embedded_pairs(split, num_pairs, config.corpus_seed)
    if config.source_language == "en":
        return pairs
    return ((german, english) for english, german in pairs)


def _split_files(config: DataConfig, split: str) -> tuple[Path, Path]:
    stem = getattr(config, split)
    source = _find_file(config.directory, f"{stem}.{config.source_language}", split)
    target = _find_file(config.directory, f"{stem}.{config.target_language}", split)
    return source, target


def _find_file(directory: str, name: str, split: str) -> Path:
    """`name` in `directory`, or else `name`.gz."""
    folder = Path(directory).expanduser()
    if not folder.is_dir():
        raise ValueError(f"directory={directory!r} does not exist or is no directory")
    for file in (folder / name, folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise ValueError(f"no {split} split in {folder}: neither {name} nor {name}.gz is there")


def _zip_lines(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    num_source = num_target = 0
    for source_line, target_line in itertools.zip_longest(_lines(source), _lines(target)):
        num_source += source_line is not None
        num_target += target_line is not None
        if source_line is not None and target_line is not None:
            yield source_line, target_line
    for file, num_lines in ((source, num_source), (target, num_target)):
        if num_lines == 0:
            raise ValueError(f"{file} is empty: one sentence a line is expected")
    if num_source != num_target:
        longer = source if num_source > num_target else target
        raise ValueError(
            f"{source} has {num_source:,} lines, {target} has {num_target:,}: line "
            f"{min(num_source, num_target) + 1:,} of {longer.name} has no partner"
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
