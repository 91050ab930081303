"""Flags of the verbs that use a model: its location, and changes to its config."""

import sys

from absl import flags
from ml_collections import config_flags


def define_workdir_flags(
    arguments: list[str], module_name: str, *, is_required: bool = True
) -> None:
    """--workdir, --checkpoint, and --config.section.key; the run's config gives the defaults.

    Raises:
      ValueError: `arguments` name a directory that holds no run.
    """
    flags.DEFINE_string(
        "workdir", None, "the directory of a trained model", module_name=module_name
    )
    flags.DEFINE_integer(
        "checkpoint",
        None,
        "use the checkpoint of this step, with decoding.average_checkpoints also those before it; "
        "default: the last",
        module_name=module_name,
    )
    if is_required:
        flags.mark_flag_as_required("workdir")
    define_config_of_run(arguments)


def define_config_of_run(arguments: list[str]) -> None:
    """--config.section.key; the defaults are the config of the run named by --workdir.

    Raises:
      ValueError: the directory holds no run.
    """
    workdir = value_of(arguments, "workdir")
    if workdir is not None:
        from t2t_jax.buckets import directory_of
        from t2t_jax.runs.workdir import read_config

        config_flags.DEFINE_config_dict("config", read_config(directory_of(workdir)))


def say_whose_cache(arguments: list[str]) -> None:
    """Tells the user if prepared data is looked for elsewhere than in the run's own cache.

    Raises:
      ValueError: `arguments` name a directory that holds no run.
    """
    workdir = value_of(arguments, "workdir")
    if workdir is None or value_of(arguments, "config.data.cache") is not None:
        return
    from t2t_jax.buckets import directory_of
    from t2t_jax.runs.keys import own_cache
    from t2t_jax.runs.workdir import cache_of

    before = cache_of(directory_of(workdir))
    if before != own_cache():
        print(
            f"prepared data is looked for and kept in {own_cache()}; the run had it in {before}, "
            f"which --config.data.cache={before} uses",
            file=sys.stderr,
        )


def define_model_flags(arguments: list[str], module_name: str) -> None:
    """The flags of `define_workdir_flags`, or --model=hf:DIR, a model of another library.

    Raises:
      ValueError: `arguments` name a directory that holds no run or no model, or both a run and a
        model.
    """
    define_workdir_flags(arguments, module_name, is_required=False)
    flags.DEFINE_string(
        "model",
        None,
        "hf:DIR, a directory in Hugging Face format, instead of --workdir",
        module_name=module_name,
    )
    flags.mark_flags_as_mutual_exclusive(["workdir", "model"], required=True)
    name = value_of(arguments, "model")
    if name is not None and value_of(arguments, "workdir") is None:
        from t2t_jax.runs import pretrained

        config = pretrained.default_config(pretrained.directory_of(name, "model"))
        config_flags.DEFINE_config_dict("config", config)


def value_of(arguments: list[str], name: str) -> str | None:
    """The value of a flag that is needed before all flags can be defined; the last one counts."""
    value = None
    for argument, following in zip(arguments, [*arguments[1:], None], strict=False):
        for dashes in ("--", "-"):
            if argument.startswith(f"{dashes}{name}="):
                value = argument.partition("=")[2]
            elif argument == f"{dashes}{name}":
                value = following
    return value
