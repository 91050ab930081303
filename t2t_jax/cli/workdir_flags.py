"""Flags of the verbs that use a trained model: its directory, and its config to be changed."""

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from t2t_jax.cli.workdir import read_config


def define_workdir_flags(arguments: list[str], module_name: str) -> None:
    """--workdir, and --config.section.key with the config of the run in it as default.

    Raises:
      ValueError: `arguments` name a directory that holds no run.
    """
    flags.DEFINE_string(
        "workdir", None, "the directory of a trained model", module_name=module_name
    )
    flags.mark_flag_as_required("workdir")
    workdir = _value(arguments, "workdir")
    if workdir is not None:
        config_flags.DEFINE_config_dict("config", read_config(Path(workdir).expanduser()))


def _value(arguments: list[str], name: str) -> str | None:
    """The value of a flag that must be known before all flags can be defined."""
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        for dashes in ("--", "-"):
            if argument.startswith(f"{dashes}{name}="):
                return argument.partition("=")[2]
            if argument == f"{dashes}{name}":
                return following
    return None
