"""Where a ConfigDict becomes the frozen dataclasses that the rest of the code takes."""

import dataclasses
from typing import NamedTuple

from ml_collections import ConfigDict

from t2t_jax.data.config import DataConfig
from t2t_jax.decoding.config import DecodingConfig
from t2t_jax.evaluation.config import EvaluationConfig
from t2t_jax.model.config import TransformerConfig
from t2t_jax.training.config import TrainingConfig


class DevicesConfig(NamedTuple):
    """Which devices a run uses."""

    data: int  # how many a batch is cut over; -1 is all


class Sections(NamedTuple):
    """A whole config, each section checked."""

    seed: int
    data: DataConfig
    model: TransformerConfig
    training: TrainingConfig
    decoding: DecodingConfig
    evaluation: EvaluationConfig
    devices: DevicesConfig


def read_sections(config: ConfigDict) -> Sections:
    """The sections of `config`, checked one by one and against each other.

    Raises:
      ValueError, TypeError: a key is missing or unknown, a value is not allowed, or two do not
        fit together.
    """
    expected = set(Sections._fields)
    if set(config) != expected:
        wrong = ", ".join(sorted(set(config) ^ expected))
        raise ValueError(f"the config must have the sections {sorted(expected)}; see {wrong}")
    sections = Sections(
        seed=config.seed,
        data=_section(config, "data", DataConfig),
        model=_section(config, "model", TransformerConfig),
        training=_section(config, "training", TrainingConfig),
        decoding=_section(config, "decoding", DecodingConfig),
        evaluation=_section(config, "evaluation", EvaluationConfig),
        devices=_section(config, "devices", DevicesConfig),
    )
    if sections.training.keep_checkpoints < sections.decoding.average_checkpoints:
        raise ValueError(
            f"decoding.average_checkpoints={sections.decoding.average_checkpoints} needs at least "
            f"as many as training.keep_checkpoints={sections.training.keep_checkpoints}"
        )
    return sections


def check_vocabulary_fits(model: TransformerConfig, vocabulary_size: int) -> None:
    """Raises ValueError if there are more pieces than rows in the embedding."""
    if model.vocabulary_rows < vocabulary_size:
        raise ValueError(
            f"model.vocabulary_rows={model.vocabulary_rows} is less than the {vocabulary_size} "
            "pieces of the vocabulary: it must be at least as many"
        )


def _section(config: ConfigDict, name: str, section_class):
    values = dict(config[name])
    if dataclasses.is_dataclass(section_class):
        known = {field.name for field in dataclasses.fields(section_class)}
    else:
        known = set(section_class._fields)
    if unknown := sorted(set(values) - known):
        raise ValueError(f"config.{name} has no key {', '.join(unknown)}")
    if missing := sorted(known - set(values)):
        raise ValueError(f"config.{name} lacks {', '.join(missing)}")
    return section_class(**values)
