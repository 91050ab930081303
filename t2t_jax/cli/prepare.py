"""t2t-jax prepare: learns the vocabulary and tokenises every split, once.

    t2t-jax prepare --config=configs/multi30k.py --config.data.directory=DIR

What it makes is kept in --config.data.cache, or where T2T_JAX_CACHE of the environment says, or in
~/.cache/t2t_jax, and found again by every later command. After a kill or on a disk that was full,
the same command goes on with what is there.
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
