"""Converts a ConfigDict to the frozen dataclasses that the rest of the code takes."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ml_collections import ConfigDict

from t2t_jax.config_checks import check_at_least, check_types, config_section
from t2t_jax.data.config import DataConfig, Task
from t2t_jax.data.corpora.corpus import split_names
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.devices import Compile, MatmulPrecision
from t2t_jax.evaluation.config import EvaluationConfig
from t2t_jax.model.config import Family, TransformerConfig
from t2t_jax.model.fused_attention import asks_for_a_kernel
from t2t_jax.training.config import TrainingConfig

Section = TypeVar("Section")


@config_section
class DevicesConfig:
    """Which devices a run uses, and how; see devices.py.

    Raises:
      ValueError, TypeError: a value is not allowed, or of the wrong type.
    """

    data: int  # copies of the model, over which a batch is sharded; -1: as many as fit
    fsdp: int  # devices over which a copy's parameters are sharded
    tensor: int  # devices over which each matrix product is sharded
    compile: Compile
    matmul_precision: MatmulPrecision  # of float32 products; on a CPU only in training

    def __post_init__(self) -> None:
        check_types("devices", self)
        check_at_least("devices", self, 1, ("fsdp", "tensor"))
        if self.data != -1:
            check_at_least("devices", self, 1, ("data",))


class Sections(NamedTuple):
    """A whole config, each section checked."""

    seed: int
    data: DataConfig
    model: TransformerConfig
    training: TrainingConfig
    decoding: DecodingConfig
    evaluation: EvaluationConfig
    devices: DevicesConfig

    def values(self) -> dict[str, Any]:
        """The config as plain nested dicts, for JSON."""
        _, *sections = self._asdict().items()
        return {"seed": self.seed} | {name: dataclasses.asdict(each) for name, each in sections}


def read_sections(config: ConfigDict) -> Sections:
    """The sections of `config`, checked one by one and against each other.

    Raises:
      ValueError, TypeError: a key is missing or unknown, a value is not allowed, or two do not
        fit together.
    """
    expected = set(Sections._fields)
    if set(config) != expected:
        lacking, unknown = sorted(expected - set(config)), sorted(set(config) - expected)
        what = f"lacks {', '.join(lacking)}" if lacking else f"has an unknown {', '.join(unknown)}"
        raise ValueError(f"the config {what}: its sections are {', '.join(sorted(expected))}")
    values: dict[str, Any] = config.to_dict()
    sections = Sections(
        seed=values["seed"],
        data=read_section(values["data"], "data", DataConfig),
        model=read_section(values["model"], "model", TransformerConfig),
        training=read_section(values["training"], "training", TrainingConfig),
        decoding=read_section(values["decoding"], "decoding", DecodingConfig),
        evaluation=read_section(values["evaluation"], "evaluation", EvaluationConfig),
        devices=read_section(values["devices"], "devices", DevicesConfig),
    )
    if type(sections.seed) is not int or not 0 <= sections.seed < 2**31:
        raise ValueError(f"seed={sections.seed!r} must be a whole number from 0 to 2^31 - 1")
    check_fit(sections)
    return sections


def check_fit(sections: Sections) -> None:
    """Raises ValueError if two sections do not fit together."""
    _check_task(sections)
    data, rows = sections.data, sections.model.vocabulary_rows
    if data.vocabulary_kind in ("bpe", "unigram") and rows < data.vocabulary_size:
        raise ValueError(
            f"model.vocabulary_rows={rows} is less than data.vocabulary_size="
            f"{data.vocabulary_size}, and a vocabulary of data.vocabulary_kind="
            f"{data.vocabulary_kind!r} has all its pieces: it must be at least as many"
        )
    if asks_for_a_kernel(sections.model) and sections.devices.tensor > 1:
        raise ValueError(
            "model.attention_kernel='fused' does not go with devices.tensor="
            f"{sections.devices.tensor}: no kernel is cut over heads; it needs 'einsum'"
        )
    training = sections.training
    num_checkpoints = -(-training.steps // training.checkpoint_every_steps)
    by_steps = training.checkpoint_every_minutes == 0
    if by_steps and num_checkpoints < sections.decoding.average_checkpoints:
        raise ValueError(
            f"decoding.average_checkpoints={sections.decoding.average_checkpoints}, but "
            f"training.steps={training.steps} with training.checkpoint_every_steps="
            f"{training.checkpoint_every_steps} leaves only {num_checkpoints}"
        )
    if sections.training.keep_checkpoints < sections.decoding.average_checkpoints:
        raise ValueError(
            f"decoding.average_checkpoints={sections.decoding.average_checkpoints} is more than "
            f"training.keep_checkpoints={sections.training.keep_checkpoints}, the number kept"
        )


def _check_task(sections: Sections) -> None:
    task, model = sections.data.task, sections.model
    families = _families(task)
    if model.family not in families:
        allowed = " or ".join(map(repr, families))
        raise ValueError(
            f"data.task={task!r} cannot be learned by model.family={model.family!r}: it needs "
            f"{allowed}"
        )
    if model.family == "encoder_only" and (model.pooling == "none") == (task == "classification"):
        needed = "'cls', 'mean' or 'query'" if task == "classification" else "'none'"
        raise ValueError(
            f"data.task={task!r} does not go with model.pooling={model.pooling!r}: it needs "
            f"{needed}"
        )
    if model.family == "recurrent" and sections.data.batching == "packed":
        raise ValueError(
            "data.batching='packed' does not go with model.family='recurrent', whose state would "
            "run on from one sentence into the next: it needs 'bucketed'"
        )
    if sections.data.lowercase and task == "translation" and not sections.evaluation.bleu_lowercase:
        raise ValueError(
            "data.lowercase=True gives translations in lower case: evaluation.bleu_lowercase must "
            "be True too"
        )
    if sections.evaluation.bleu_on_long and "long" not in split_names(sections.data):
        raise ValueError(
            f"evaluation.bleu_on_long=True does not go with data.source={sections.data.source!r}: "
            "only the embedded corpus has a split of long sentences, and not to classify"
        )
    training = sections.training
    gives_padding = training.label_smoothing_mass != "others_but_padding"
    if task == "classification" and training.label_smoothing > 0 and gives_padding:
        raise ValueError(
            f"training.label_smoothing={training.label_smoothing} must be 0 where "
            "data.task='classification', or training.label_smoothing_mass 'others_but_padding': "
            "padding has a row beside the classes"
        )


def _families(task: Task) -> tuple[Family, ...]:
    """The families that can learn a task."""
    match task:
        case "translation":
            return "encoder_decoder", "recurrent"
        case "language_modelling":
            return ("decoder_only",)
        case "masked_language_modelling" | "classification":
            return ("encoder_only",)


def check_vocabulary_fits(model: TransformerConfig, vocabulary_size: int) -> None:
    """Raises ValueError if there are more pieces than rows in the embedding."""
    if model.vocabulary_rows < vocabulary_size:
        raise ValueError(
            f"model.vocabulary_rows={model.vocabulary_rows} is less than the {vocabulary_size} "
            "pieces of the vocabulary: it must be at least as many"
        )


def check_classes_fit(model: TransformerConfig, classes: tuple[str, ...]) -> None:
    """Raises ValueError unless the model has a logit for each class, if there are classes."""
    if classes and model.num_classes != len(classes):
        raise ValueError(
            f"model.num_classes={model.num_classes}, but the corpus has {len(classes)} classes "
            f"({', '.join(classes)}): it must be as many"
        )


def read_section(
    values: dict[str, Any], name: str, section_class: Callable[..., Section]
) -> Section:
    """One section of a config, checked on its own.

    Raises:
      ValueError, TypeError: a key is missing or unknown, or a value is not allowed.
    """
    known = set(inspect.signature(section_class).parameters)
    if unknown := sorted(set(values) - known):
        raise ValueError(f"config.{name} has no key {', '.join(unknown)}")
    if missing := sorted(known - set(values)):
        raise ValueError(
            f"config.{name} lacks {', '.join(missing)}, which configs/base.py has: add them to a "
            "config; a run that lacks them was made by an earlier version"
        )
    return section_class(**values)
