"""The model that the flags of `workdir_flags` name."""

from pathlib import Path

from absl import flags

from t2t_jax.runs import pretrained
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.workdir import Trained, UsableModel, load_trained


def trained_of_flags() -> Trained:
    """The model that --workdir names, with its config.

    Raises:
      ValueError: there is none, or it does not fit the config.
    """
    values = flags.FLAGS
    return load_trained(Path(values.workdir).expanduser(), read_sections(values.config))


def model_of_flags() -> UsableModel:
    """The model that the flags name, with their config.

    Raises:
      ValueError: there is none, or it does not fit the config.
    """
    values = flags.FLAGS
    if values.model is None:
        return trained_of_flags()
    return pretrained.load(pretrained.directory_of(values.model, "model"), values.config)
