"""A first look: five rows of `tiny`, a run on every core, and some translations.

    python -m experiments.quickstart --workdir=W

is short for

    python -m experiments.sweep quickstart --base=configs/tiny.py --samples=5 --workdir=W

and every flag of experiments.sweep can follow.
"""

import functools
import sys

from absl import app

from experiments.launchers import local
from experiments.sweep import __main__ as sweep
from t2t_jax.cli.command import parse_flags


def main() -> None:
    """The sweep of the table `quickstart`."""
    defaults = ["--base=configs/tiny.py", "--samples=5"]
    if not any(argument.startswith("--runs_per_gpu") for argument in sys.argv):
        # As fast as one after the other on all cores, and less waits on start-up and compilation.
        defaults.append(f"--parallel={local.default_parallel(cores_per_run=1)}")
    # In sys.argv itself: ml_collections reads the overrides of single keys there.
    sys.argv[1:] = ["quickstart", *defaults, *sys.argv[1:]]
    sweep.define_flags()
    app.run(sweep.main, flags_parser=functools.partial(parse_flags, "quickstart"))


if __name__ == "__main__":
    main()
