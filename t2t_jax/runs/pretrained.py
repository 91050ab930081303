"""Models of other libraries, hf:DIR, for the verbs that use a model and the one that trains.

DIR is in Hugging Face format: config.json, *.safetensors and the tokenizer's files. It is read from
disk; nothing is downloaded.
"""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import PyTree
from ml_collections import ConfigDict

from t2t_jax import hosts
from t2t_jax.buckets import local_path
from t2t_jax.config_checks import check_at_least, check_types, config_section
from t2t_jax.data.vocabulary.vocabulary import PAD_ID, START_ID, Vocabulary
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.devices import Devices, make_devices
from t2t_jax.interop.huggingface import Pretrained, load_pretrained
from t2t_jax.interop.keys import OF_TRAINING
from t2t_jax.interop.vocabulary import SILENT, PretrainedVocabulary
from t2t_jax.json_files import read_json
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import make_model
from t2t_jax.model.interface import Model
from t2t_jax.runs.sections import DevicesConfig, Sections, check_fit
from t2t_jax.training.config import TrainingConfig

_SCHEME = "hf:"
# Keys that give the longest sequence in a model's files, and the default if they are missing.
_LENGTH_KEYS = ("max_position_embeddings", "n_positions")
_MAX_LENGTH = 512
# Keys that must fit the task, and those that a tokenizer leaves unread.
_OF_TASK = ("family", "pooling", "num_classes")
_OF_VOCABULARY = (
    *("data.vocabulary_kind", "data.vocabulary_size", "data.vocabulary_sentences"),
    *("data.character_coverage", "data.lowercase"),
)


@config_section
class PretrainedData:
    """The data section of a model that was not trained here."""

    max_length: int  # tokens, including those that the model adds

    def __post_init__(self) -> None:
        check_types("data", self)
        check_at_least("data", self, 2, ("max_length",))  # one token and the end of the sentence


class PretrainedSections(NamedTuple):
    """The config of a model that was not trained here."""

    data: PretrainedData
    model: TransformerConfig
    decoding: DecodingConfig
    devices: DevicesConfig


class PretrainedModel(NamedTuple):
    """A model of another library, usable like a trained one."""

    sections: PretrainedSections
    vocabulary: Vocabulary
    model: Model
    params: PyTree
    devices: Devices
    classes: tuple[str, ...]
    opens_with_start: bool


class Beginning(NamedTuple):
    """The start of a run from pretrained parameters."""

    sections: Sections  # with the model section of the pretrained weights
    vocabulary: Vocabulary
    params: PyTree  # some of the model's; the others are initialised at random
    class_names: tuple[str, ...]  # of a classifier's head, by number; () if it has none


def directory_of(name: str, flag: str) -> Path:
    """DIR of hf:DIR.

    Raises:
      ValueError: `name` is not of that form.
    """
    if not name.startswith(_SCHEME) or name == _SCHEME:
        raise ValueError(f"--{flag}={name} must be hf:DIR, a directory in Hugging Face format")
    local_path(name, f"--{flag}")  # raises for an address
    return Path(name.removeprefix(_SCHEME)).expanduser()


def default_config(directory: Path) -> ConfigDict:
    """How to use the model in `directory`: as its own files say; flags can override it.

    Raises:
      ValueError: a file there is damaged.
    """
    generation: dict[str, Any] = {}
    for name in ("config.json", "generation_config.json"):  # older models use the first for both
        if (directory / name).is_file():
            generation |= read_json(directory / name)
    length_penalty = generation.get("length_penalty")
    decoding = dict(
        beam_size=generation.get("num_beams") or 1,
        length_penalty=1.0 if length_penalty is None else float(length_penalty),
        length_penalty_formula="power",
        max_extra_tokens=50,
        max_tokens=0,
        n_best=1,
        tokens_per_batch=8_192,
        weights_dtype="float32",
        average_checkpoints=1,
    )
    devices = dict(data=-1, fsdp=1, tensor=1, compile="jit", matmul_precision="highest")
    lengths = [generation[key] for key in _LENGTH_KEYS if type(generation.get(key)) is int]
    data = dict(max_length=min(lengths, default=_MAX_LENGTH))
    values = dict(data=data, model=dict(dtype="float32"), decoding=decoding, devices=devices)
    return ConfigDict(values).lock()


def load(directory: Path, config: ConfigDict) -> PretrainedModel:
    """The model in `directory`, used as `config` says.

    Raises:
      ValueError, TypeError: no model can be read there, or `config` is wrong.
    """
    values: dict[str, Any] = config.to_dict()
    pretrained = load_pretrained(directory)
    sections = PretrainedSections(
        data=PretrainedData(**values["data"]),
        model=dataclasses.replace(pretrained.config, **values["model"]),
        decoding=DecodingConfig(**values["decoding"]),
        devices=DevicesConfig(**values["devices"]),
    )
    devices = make_devices(**dataclasses.asdict(sections.devices))
    return PretrainedModel(
        sections,
        pretrained.vocabulary,
        make_model(sections.model),
        devices.put(_without_padding(pretrained)),
        devices,
        pretrained.class_names,
        pretrained.opens_with_start,
    )


def _without_padding(pretrained: Pretrained) -> PyTree:
    """The parameters, with no probability left for padding and the start of a translation.

    Marian's models start with their padding and may predict it again. `transformers` forbids it
    and renormalises; a search that only left it out would rank by what remains.
    """
    params = pretrained.params
    if pretrained.config.family != "encoder_decoder":
        return params
    bias = params["output"]["bias"].copy()
    bias[[PAD_ID, START_ID]] = SILENT
    return params | {"output": params["output"] | {"bias": bias}}


def beginning(directory: Path, sections: Sections) -> Beginning:
    """The start of a run with `sections` from the model in `directory`.

    The model section becomes that of the weights, except for dropout and how it is computed. If
    the task needs another head than the weights have, the head is initialised at random; whether a
    head is of the corpus's classes, `with_classes` sees.

    Raises:
      ValueError: no model can be read, `sections` are of another kind of model, or label
        smoothing would give probability to ids that the model can never predict.
    """
    pretrained = load_pretrained(directory, **_head(sections))
    if sections.data.lowercase:
        raise ValueError("data.lowercase=True does not go with --init, whose tokenizer decides")
    asked = sections.model
    kept = {key: getattr(asked, key) for key in OF_TRAINING}
    size = pretrained.vocabulary.size
    sections = sections._replace(
        model=dataclasses.replace(pretrained.config, **kept),
        data=dataclasses.replace(sections.data, vocabulary_size=size),
    )
    check_fit(sections)
    for key in ("family", "pooling", "ensemble_size"):
        ours, theirs = getattr(asked, key), getattr(sections.model, key)
        if ours != theirs:
            raise ValueError(
                f"model.{key}={ours!r}, but with --init it is that of the weights, {theirs!r}"
            )
    _check_smoothing(pretrained, sections.training)
    return Beginning(sections, pretrained.vocabulary, pretrained.params, pretrained.class_names)


def with_classes(begin: Beginning, classes: Sequence[str]) -> Beginning:
    """The start of a run on a corpus with these classes, by number.

    Rows of the head are put in their order. If the head is of other classes, it is initialised at
    random.
    """
    if not begin.class_names or begin.class_names == tuple(classes):
        return begin
    head = {name: begin.params[name] for name in ("classes", "output")}
    others = {name: leaf for name, leaf in begin.params.items() if name not in head}
    if sorted(begin.class_names) != sorted(classes):
        hosts.log(
            f"the weights have a head for {', '.join(begin.class_names)}, the corpus has the "
            f"classes {', '.join(classes)}: a new head begins at random"
        )
        return begin._replace(params=others, class_names=())
    rows = np.array([begin.class_names.index(name) for name in classes])
    head = jax.tree.map(lambda leaf: leaf[rows], head)
    return begin._replace(params=others | head, class_names=tuple(classes))


def check_read(given: Collection[str]) -> None:
    """Raises ValueError if a key that was set is replaced by what the weights come with."""
    for key in given:
        section, _, name = key.partition(".")
        of_model = section == "model" and name not in {*OF_TRAINING, *_OF_TASK}
        if of_model or key in _OF_VOCABULARY:
            raise ValueError(
                f"--config.{key} has no effect with --init, whose weights come with their own"
            )


def _head(sections: Sections) -> dict[str, Any]:
    """The head that the task needs."""
    match sections.data.task:
        case "classification":
            return dict(head="classes", num_classes=sections.model.num_classes)
        case "masked_language_modelling":
            return dict(head="masked")
        case _:
            return {}


def _check_smoothing(pretrained: Pretrained, training: TrainingConfig) -> None:
    """Refuses smoothing over ids that a bias of -1e9 leaves no probability: a huge loss."""
    silent = pretrained.vocabulary.rows.is_silent.nonzero()[0].tolist()
    if training.label_smoothing_mass == "others_but_padding":
        silent = [token_id for token_id in silent if token_id != PAD_ID]
    if training.label_smoothing > 0 and silent and pretrained.config.pooling == "none":
        advice = "set it to 0"
        if silent == [PAD_ID]:
            advice += " or training.label_smoothing_mass to 'others_but_padding'"
        raise ValueError(
            f"training.label_smoothing={training.label_smoothing} would give probability to "
            f"ids that stand for no token of this model ({', '.join(map(str, silent))}): {advice}"
        )


def with_pretrained(drawn: PyTree, pretrained: PyTree) -> PyTree:
    """The pretrained parameters, and the drawn ones where there are none."""
    read = flatten_dict(pretrained)
    leaves = flatten_dict(drawn)
    return unflatten_dict({path: read.get(path, leaf) for path, leaf in leaves.items()})


def load_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary in a run's directory: a learned file, or a directory of a pretrained one.

    Raises:
      ValueError: there is none.
    """
    return PretrainedVocabulary.load(path) if path.is_dir() else Vocabulary.load(path)


def given_vocabulary(path: Path) -> Vocabulary | None:
    """The pretrained vocabulary of a run, None if it learned its own."""
    return load_vocabulary(path) if path.is_dir() else None
