"""Loads the model named by the flags of `workdir_flags`."""

from absl import flags
from ml_collections import config_flags

from t2t_jax.buckets import directory_of
from t2t_jax.runs import pretrained
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.workdir import Trained, UsableModel, load_trained


def trained_of_flags() -> Trained:
    """The model named by --workdir, with its config.

    Raises:
      ValueError: there is none, or it does not fit the config.
    """
    values = flags.FLAGS
    workdir = directory_of(values.workdir)
    return load_trained(workdir, read_sections(values.config), values.checkpoint)


def model_of_flags() -> UsableModel:
    """The model named by the flags, with their config.

    Raises:
      ValueError: there is none, or it does not fit the config.
    """
    values = flags.FLAGS
    if values.model is None:
        return trained_of_flags()
    if values.checkpoint is not None:
        raise ValueError("--checkpoint goes with --workdir: a model in --model has no steps")
    key = "decoding.average_checkpoints"
    if key in config_flags.get_override_values(values["config"]):
        raise ValueError(f"--config.{key} goes with --workdir: a model in --model has none")
    return pretrained.load(pretrained.directory_of(values.model, "model"), values.config)
