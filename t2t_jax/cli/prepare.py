"""t2t-jax prepare: learns the vocabulary and tokenises every split, once.

    t2t-jax prepare --config=configs/multi30k.py --config.data.directory=DIR

What it makes is kept in --config.data.cache and found again by every later command. After a kill
or on a disk that was full, the same command goes on with what is there.
"""

import sys

from absl import flags
from ml_collections import ConfigDict, config_flags

from t2t_jax import hosts
from t2t_jax.data.prepare.prepared import Prepared
from t2t_jax.data.prepare.prepared import prepare as prepare_data
from t2t_jax.data.vocabulary.vocabulary import Vocabulary
from t2t_jax.runs.sections import check_classes_fit, check_vocabulary_fits, read_sections
from t2t_jax.training.progress import Progress


def prepare(config: ConfigDict, vocabulary: Vocabulary | None = None) -> Prepared:
    """The prepared corpus of `config`, made if it is not there.

    A `vocabulary` that is given is used in the place of one that is learned.

    Raises:
      ValueError: the config or the corpus is wrong.
      OSError: a file cannot be written.
    """
    sections = read_sections(config)
    prepared = prepare_data(
        sections.data,
        hosts.log,
        vocabulary,
        make_bar=Progress,
    )
    check_vocabulary_fits(sections.model, prepared.vocabulary.size)
    check_classes_fit(sections.model, prepared.classes)
    return prepared


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    config_flags.DEFINE_config_file("config", None, "a file such as configs/tiny.py")
    flags.mark_flag_as_required("config")


def main() -> None:
    """Runs the verb."""
    try:
        hosts.first_then_others(lambda: prepare(flags.FLAGS.config))
    except KeyboardInterrupt:
        print("t2t-jax prepare: stopped; the same command goes on from there", file=sys.stderr)
        sys.exit(130)
