"""Number of heads: more but narrower ones at the same cost (paper Table 3, rows A).

    python -m experiments.sweep heads --base=configs/tiny.py --seeds=3 --workdir=W
    python -m experiments.inspect.pruning W/heads/base/seed-0    # without some heads

Every power of two that divides the base's h d_k and h d_v evenly.
"""

from experiments.tables.ablation import TURN_PAIRS, AnyConfig, LeftOut, Row, Table


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    model = base.model
    keys, values = model.num_heads * model.d_k, model.num_heads * model.d_v
    rows: list[Row | LeftOut] = [Row("base", {})]
    num_heads = 1
    while num_heads <= min(keys, values):
        if num_heads != model.num_heads and keys % num_heads == values % num_heads == 0:
            changes = {
                "model.num_heads": num_heads,
                "model.d_k": keys // num_heads,
                "model.d_v": values // num_heads,
            }
            name = f"heads={num_heads}"
            if model.positions == "rotary" and changes["model.d_k"] % 2:
                rows.append(LeftOut(name, TURN_PAIRS))
            else:
                rows.append(Row(name, changes))
        num_heads *= 2
    return rows


TABLE = Table("heads", "Heads at constant computation", _rows)
