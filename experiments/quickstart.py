"""A first look: five rows of a small model, one run per core, and some translations.

    python -m experiments.quickstart --workdir=W

is short for

    python -m experiments.sweep quickstart --base=configs/quickstart.py --samples=5 --workdir=W

with a --parallel of one run per core, GPU or chip, and takes every flag of experiments.sweep. It
runs one seed; the text below its table says what one seed cannot show. --seeds=3 shows it.
"""

import functools
import sys

from absl import app, flags

from experiments.launchers import local
from experiments.sweep import __main__ as sweep
from t2t_jax.cli.command import parse_flags

_OF_ONE_SEED = """
This was one seed on one machine. A † says that two runs differ on these sentences, not that two
rows do: with another seed or machine BLEU moves by about a point and pronoun by thirty. What is
larger, as without positions, stays. --seeds=3 tests over seeds and keeps the runs there are.
"""


def _runs_nothing() -> bool:
    return flags.FLAGS.dry_run or flags.FLAGS.plan is not None


def _sweep(argv: list[str]) -> None:
    try:
        sweep.main(argv)
    except SystemExit as end:
        if end.code == 0 and not _runs_nothing() and flags.FLAGS.seeds == 1:
            print(_OF_ONE_SEED)
        raise


def main() -> None:
    """The sweep of the table `quickstart`."""
    defaults = ["--base=configs/quickstart.py", "--samples=5"]
    others = ("--runs_per_gpu", "--launcher", "-launcher")
    if not any(argument.startswith(others) for argument in sys.argv):
        # As fast as one run at a time on all cores, with less waiting for start-up and compilation.
        defaults.append(f"--parallel={local.default_parallel(cores_per_run=1)}")
    # In sys.argv itself: ml_collections reads the overrides of single keys there.
    sys.argv[1:] = ["quickstart", *defaults, *sys.argv[1:]]
    sweep.define_flags()
    app.run(_sweep, flags_parser=functools.partial(parse_flags, "quickstart"))


if __name__ == "__main__":
    main()
