r"""t2t-jax train: trains a model, or resumes a stopped run.

    t2t-jax train --config=configs/tiny.py --workdir=W
    t2t-jax train --config=configs/tiny.py --workdir=W2 --config.training.steps=500
    t2t-jax train --workdir=W                                  resumes, with the config of W
    t2t-jax train --config=configs/tiny.py --workdir=W --init=hf:DIR \
      --config.training.label_smoothing_mass=others_but_padding

--profile_steps=10:12 writes a trace of these steps to W/profile, for TensorBoard's profiler.

Run the same command again to resume from the last checkpoint; once the run is done, or was
stopped by training.patience, it does nothing. W holds the config, the vocabulary, a classifier's
classes.txt, checkpoints, metrics.jsonl and TensorBoard files.
"""

import textwrap

from absl import flags
from ml_collections import config_flags

from t2t_jax.cli.given_config import given_config
from t2t_jax.cli.workdir_flags import define_config_of_run, say_whose_cache, value_of


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    workdir = value_of(arguments, "workdir")
    if value_of(arguments, "config") is None and workdir is not None:
        from t2t_jax.runs.workdir import NoRunError

        try:
            define_config_of_run(arguments)
            say_whose_cache(arguments)
        except NoRunError as error:
            raise ValueError(f"--config is needed, such as configs/tiny.py: {error}") from error
    else:
        config_flags.DEFINE_config_file(
            "config", None, "a file such as configs/tiny.py; without it, that of the run in W"
        )
        flags.mark_flag_as_required("config")
    flags.DEFINE_string(
        "workdir",
        None,
        "the directory of the run, new or existing: a local one, or gs://B/D in a bucket",
    )
    flags.DEFINE_string(
        "init", None, "hf:DIR: start from the weights of a directory in Hugging Face format"
    )
    flags.DEFINE_string("profile_steps", None, "a:b: write a trace of these steps to W/profile")
    flags.mark_flag_as_required("workdir")


def closing_help() -> str:
    """What the help says after the keys."""
    from t2t_jax.runs.keys import may_change_text

    return textwrap.fill(may_change_text(), 100, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Runs the verb."""
    from t2t_jax import hosts
    from t2t_jax.buckets import directory_of
    from t2t_jax.runs.pretrained import check_read
    from t2t_jax.runs.sections import read_sections
    from t2t_jax.runs.train import train
    from t2t_jax.training.trace import steps_of

    values = flags.FLAGS
    sections = read_sections(given_config("config", hosts.log))
    if values.init is not None:
        check_read(config_flags.get_override_values(values["config"]))
    profiled = None if values.profile_steps is None else steps_of(values.profile_steps)
    train(sections, directory_of(values.workdir), values.init, profiled)
