"""Five telling rows, for a first look: what heads, depth and positions are worth.

python -m experiments.sweep quickstart --base=configs/quickstart.py --samples=5 --workdir=W
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table, depths_of


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    model = base.model
    one_head = {
        "model.num_heads": 1,
        "model.d_k": model.num_heads * model.d_k,
        "model.d_v": model.num_heads * model.d_v,
    }
    return [
        Row("base", {}),
        Row("one_head", one_head, note="as much computation as the base"),
        Row("one_layer", dict.fromkeys(depths_of(base), 1)),
        Row("learned_positions", {"model.positions": "learned"}),
        Row("no_positions", {"model.positions": "none"}),
    ]


TABLE = Table("quickstart", "What heads, depth and positions are worth", _rows)
