"""TensorFlow Datasets. In: any dataset with one Translation feature. Out: its sentences.

Names, directories and splits are written as in TFDS. TensorFlow itself is not needed: the examples
are read from array_record files, in the order of TFDS.
"""

import contextlib
import difflib
import importlib
import itertools
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from absl import logging

from t2t_jax.data.corpora.text_files import UnreadableError, file_sha256

# Examples read at once: enough to hide the cost of a call, few enough for memory.
_BLOCK = 4_096
_NAME_EXAMPLE = "wmt14_translate/de-en"
_MAX_REASON_LENGTH = 400  # characters of an error message of TFDS


class Dataset(NamedTuple):
    """A dataset, and the languages to read from it, in the order of the result."""

    name: str  # such as "wmt14_translate/de-en", or with its version "wmt14_translate/de-en:1.0.0"
    directory: str  # TFDS's data_dir; "" is its default
    languages: tuple[str, ...]


def make_ready(dataset: Dataset, log: Callable[[str], None]) -> None:
    """Downloads the dataset and prepares it as array_record, unless it is there already.

    Raises:
      ValueError: no such dataset, no such language in it, or it cannot be downloaded.
    """
    builder = _builder(dataset)
    if not _is_prepared(builder):
        folder = builder.data_dir
        log(f"TFDS downloads {dataset.name} and prepares it in {folder}")
        try:
            with _unpacking_without_tensorflow():
                builder.download_and_prepare(file_format="array_record")
        except Exception as error:
            if not _is_prepared(_builder(dataset)):  # by another process in the meantime
                raise ValueError(
                    f"TFDS dataset {dataset.name!r} is not prepared in {folder} and could not be "
                    f"downloaded: {_one_line(error)}; data.directory names the directory of a copy"
                ) from None
        builder = _builder(dataset)
    _check_prepared(builder, dataset)


def num_examples(dataset: Dataset, split: str) -> int:
    """Number of examples of a split or slice; raises as `read`."""
    return len(_open(dataset, split)[1])


def read(
    dataset: Dataset, split: str, start: int = 0, stop: int | None = None
) -> Iterator[tuple[str, ...]]:
    """Examples start, start + 1, ..., stop - 1 of a split: a string for each language.

    Raises:
      ValueError: no such dataset, language or split; the dataset is not prepared; the split is
        empty; during reading: a file is damaged, a text is not UTF-8.
    """
    builder, source = _open(dataset, split)
    return _read(dataset, split, source, _text_keys(builder, dataset), start, stop)


def hashes(dataset: Dataset, split: str) -> dict[str, str]:
    """sha256 of each file of a split, by dataset, version, file and the examples taken from it.

    If a sum of slices reads files in another order, or some of them twice, each name also gives
    its place.

    Raises:
      ValueError: as `read`, except during reading.
    """
    builder, _ = _open(dataset, split)
    parts = builder.info.splits[split].file_instructions
    order = [(part.basename(), part.skip) for part in parts]
    is_told_by_names = all(before < after for before, after in itertools.pairwise(order))
    names = [
        f"{builder.info.full_name}/{part.basename()}[{part.skip}:{part.skip + part.take}]"
        + ("" if is_told_by_names else f" as part {number}")
        for number, part in enumerate(parts, start=1)
    ]
    files = {part.filename for part in parts}
    with ThreadPoolExecutor() as pool:
        sha256 = dict(zip(files, pool.map(file_sha256, map(Path, files)), strict=True))
    return {name: sha256[part.filename] for name, part in zip(names, parts, strict=True)}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences TFDS's notes and warnings: our errors say what matters."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _read(
    dataset: Dataset,
    split: str,
    source: Any,
    keys: Sequence[str],
    start: int,
    stop: int | None,
) -> Iterator[tuple[str, ...]]:
    from google.protobuf.message import DecodeError

    # TFDS's own decoding goes through numpy arrays and takes three times as long.
    messages: Any = importlib.import_module("tensorflow_datasets.proto").tf_example_pb2
    parse = messages.Example.FromString
    where = f"TFDS dataset {dataset.name!r}, split {split!r}"
    numbers = range(len(source))[start:stop]
    for first in range(0, len(numbers), _BLOCK):
        block = numbers[first : first + _BLOCK]
        try:
            records = source.__getitems__(block)
        except (RuntimeError, ValueError) as error:
            raise UnreadableError(
                f"{where}, examples {block[0]:,} to {block[-1]:,}: damaged file "
                f"({_one_line(error)})"
            ) from None
        for number, record in zip(block, records, strict=True):
            try:
                features = parse(record).features.feature
                example = tuple(str(features[key].bytes_list.value[0], "utf-8") for key in keys)
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise ValueError(
                    f"{where}, example {number:,} (the first is 0): not UTF-8 (byte 0x{byte:02x} "
                    f"at position {error.start})"
                ) from None
            except (DecodeError, IndexError):
                raise ValueError(
                    f"{where}, example {number:,} (the first is 0): no text in one of "
                    f"{', '.join(dataset.languages)}"
                ) from None
            yield example


@_quiet()
def _builder(dataset: Dataset) -> Any:
    """TFDS's builder of the dataset, prepared or not, after checking its languages."""
    import tensorflow_datasets as tfds

    # TFDS knows the WMT datasets only after this import: its own import of all kinds of datasets
    # stops at the first that lacks a library, before it reaches them.
    importlib.import_module("tensorflow_datasets.translate")

    directory = os.path.expanduser(dataset.directory) or None
    try:
        builder = tfds.builder(dataset.name, data_dir=directory)
    except Exception as error:
        raise ValueError(f"TFDS dataset {dataset.name!r} {_why_not(dataset.name, error)}") from None
    if "://" in str(builder.data_dir):
        raise ValueError(
            f"TFDS dataset {dataset.name!r} is in {builder.data_dir}: copy it, and give "
            "data.directory, a path of this machine"
        )
    _text_keys(builder, dataset)
    return builder


def _why_not(name: str, error: Exception) -> str:
    """What is wrong with a dataset's name, or with the dataset itself."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.naming import is_valid_dataset_name

    if not is_valid_dataset_name(name):
        return f"is no name: write one such as {_NAME_EXAMPLE!r} or '{_NAME_EXAMPLE}:1.0.0'"
    dataset, config = (part.partition(":")[0] for part in name.partition("/")[::2])
    if isinstance(error, tfds.core.DatasetNotFoundError):
        known = tfds.list_builders(with_community_datasets=False)
        close = difflib.get_close_matches(dataset, known)
        hint = f", did you mean {' or '.join(close)}?" if close else ""
        return f"does not exist, neither in TFDS nor among the prepared datasets{hint}"
    with contextlib.suppress(Exception):  # a dataset on disk may have no code
        configs = tfds.builder_cls(dataset).builder_configs
        if config and config not in configs:
            return f"has no {config!r}, only {', '.join(configs) or 'one form, without a name'}"
    return f"cannot be opened: {_one_line(error)}"


def _text_keys(builder: Any, dataset: Dataset) -> list[str]:
    """The keys of the languages' texts in a stored example."""
    from tensorflow_datasets.core.features import FeaturesDict, Translation

    features = builder.info.features
    found = {"": features}
    if isinstance(features, FeaturesDict) and not isinstance(features, Translation):
        found = {f"{name}/": feature for name, feature in features.items()}
    translations = {name: f for name, f in found.items() if isinstance(f, Translation)}
    if len(translations) != 1:
        kinds = ", ".join(f"{name}{type(feature).__name__}" for name, feature in found.items())
        raise ValueError(
            f"TFDS dataset {dataset.name!r} has {len(translations)} Translation features, exactly "
            f"one is needed: it has {kinds}"
        )
    ((prefix, translation),) = translations.items()
    for language in dataset.languages:
        if language not in translation.languages:
            raise ValueError(
                f"TFDS dataset {dataset.name!r} has no language {language!r}, only "
                f"{', '.join(translation.languages)}"
            )
    return [prefix + language for language in dataset.languages]


@_quiet()
def _is_prepared(builder: Any) -> bool:
    return builder.is_prepared()


def _check_prepared(builder: Any, dataset: Dataset) -> None:
    folder, name = builder.data_dir, dataset.name
    if not _is_prepared(builder):
        if builder.data_path.exists():
            raise ValueError(
                f"TFDS dataset {name!r} is not whole: there is no dataset_info.json in it; delete "
                f"{folder} and prepare it again"
            )
        raise ValueError(f"TFDS dataset {name!r} is not prepared: {folder} does not exist")
    formats = sorted(form.value for form in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise ValueError(
            f"TFDS dataset {name!r} is prepared as {', '.join(formats)} in {folder}, only "
            "array_record can be read: name another directory or delete this one"
        )


@_quiet()
def _open(dataset: Dataset, split: str) -> tuple[Any, Any]:
    """The dataset's builder and the split's stored examples, by number."""
    import tensorflow_datasets as tfds

    builder = _builder(dataset)
    _check_prepared(builder, dataset)
    splits = builder.info.splits
    try:
        slices = tfds.core.ReadInstruction.from_spec(split).to_absolute(dict(splits.items()))
        sizes = [
            (splits[part.splitname].num_examples if part.to is None else part.to)
            - (part.from_ or 0)
            for part in slices
        ]
    except Exception:  # one type for an unknown name, others for a slice
        has = ", ".join(f"{name!r} ({splits[name].num_examples:,} examples)" for name in splits)
        raise ValueError(
            f"TFDS dataset {dataset.name!r} has no split {split!r}, only {has} and their slices "
            "and sums, such as 'train[:10%]'"
        ) from None
    if min(sizes) < 0 or not any(sizes):  # below 0 for a slice such as [20:10]
        raise ValueError(f"TFDS dataset {dataset.name!r}: split {split!r} has no examples")
    # This also switches `builder` to array_record if the dataset has other formats too.
    raw = tfds.decode.DeserializeMethod.RAW_BYTES
    source = builder.as_data_source(split, deserialize_method=raw)
    for part in builder.info.splits[split].file_instructions:
        file = builder.data_path / part.basename()
        if not file.exists():
            raise ValueError(f"TFDS dataset {dataset.name!r} is not whole: {file} is missing")
    return builder, source


@contextlib.contextmanager
def _unpacking_without_tensorflow() -> Iterator[None]:
    """Replaces TensorFlow's file functions, with which TFDS unpacks archives, by Python's own.

    https://github.com/tensorflow/datasets/issues/11058
    """
    from tensorflow_datasets.core.download import extractor

    tensorflow = extractor.tf
    files = SimpleNamespace(gfile=SimpleNamespace(GFile=open))
    stand_in = SimpleNamespace(compat=SimpleNamespace(as_text=os.fsdecode), io=files)
    extractor.tf = stand_in
    try:
        yield
    finally:
        extractor.tf = tensorflow


def _one_line(error: Exception) -> str:
    return textwrap.shorten(str(error), _MAX_REASON_LENGTH)
