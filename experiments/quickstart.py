"""Five telling rows, for a first look: what heads, depth and positions are worth.

    python -m experiments.quickstart --workdir=W

is short for

    python -m experiments.sweep quickstart --base=configs/tiny.py --samples=5 --workdir=W

with a run on every core, and every flag of experiments.sweep can follow.
"""

import functools
import sys

from absl import app, flags

from experiments.ablation import AnyConfig, LeftOut, Row, Table
from experiments.launchers import local
from t2t_jax.cli.command import parse_flags


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    model = base.model
    one_head = {
        "model.num_heads": 1,
        "model.d_k": model.num_heads * model.d_k,
        "model.d_v": model.num_heads * model.d_v,
    }
    one_layer = {"model.num_encoder_layers": 1, "model.num_decoder_layers": 1}
    return [
        Row("base", {}),
        Row("one_head", one_head, note="as much computation as the base"),
        Row("one_layer", one_layer),
        Row("learned_positions", {"model.positions": "learned"}),
        Row("no_positions", {"model.positions": "none"}),
    ]


TABLE = Table("quickstart", "What heads, depth and positions are worth", _rows)


def main() -> None:
    """The sweep of this table over `configs/tiny.py`."""
    # Here, since sweep knows this table.
    from experiments import sweep

    # As fast as one after the other on all cores, and less waits on start-up and compilation.
    parallel = local.default_parallel(cores_per_run=1)
    defaults = ["--base=configs/tiny.py", "--samples=5", f"--parallel={parallel}"]
    # In sys.argv itself: ml_collections reads the overrides of single keys there.
    sys.argv[1:] = [TABLE.name, *defaults, *sys.argv[1:]]
    sweep.define_flags()
    flags.adopt_module_key_flags(sweep)
    app.run(sweep.main, flags_parser=functools.partial(parse_flags, "quickstart"))


if __name__ == "__main__":
    main()
