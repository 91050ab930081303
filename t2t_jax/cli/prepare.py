"""t2t-jax prepare: learns the vocabulary and tokenises every split, once.

    t2t-jax prepare --config=configs/multi30k.py --config.data.directory=DIR

The result goes to --config.data.cache, else to T2T_JAX_CACHE of the environment, else to
~/.cache/t2t_jax, where every later command finds it. After a kill or a full disk, the same command
resumes.
"""

from absl import flags
from ml_collections import config_flags

from t2t_jax.cli.given_config import given_config


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.mark_flag_as_required("config")


def main() -> None:
    """Runs the verb."""
    from t2t_jax import hosts
    from t2t_jax.runs.prepare import prepare
    from t2t_jax.runs.sections import read_sections

    prepare(read_sections(given_config("config", hosts.log)))
