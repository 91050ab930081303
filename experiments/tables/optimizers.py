"""Adam (paper section 5.3) and later optimizers.

    python -m experiments.sweep optimizers --base=configs/tiny.py --seeds=3 --workdir=W

The rows are all optimizers but the base's. Each takes the base's rate times a factor suggested by
its authors. That is only a starting point for tuning: at a fixed rate, this table says which
optimizer suits the base's rate.
"""

from typing import NamedTuple

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table
from t2t_jax.training.config import Optimizer


class _Start(NamedTuple):
    rate: float  # times that of Adam
    weight_decay: float
    note: str


_STARTS: dict[Optimizer, _Start] = {
    "adam": _Start(1.0, 0.0, "the paper's"),
    "adamw": _Start(1.0, 0.1, "Loshchilov and Hutter 2019: matrices decay"),
    "adafactor": _Start(10.0, 0.0, "Shazeer and Stern 2018: the rate is relative to parameters"),
    "lion": _Start(0.2, 0.5, "Chen et al. 2023: a rate 3 to 10 times lower, decay as much higher"),
    "muon": _Start(
        1.0, 0.1, "Jordan et al. 2024: matrices by orthogonal updates as large as Adam's"
    ),
}


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    training = base.training
    schedules_rate = "learning_rate_scale" if training.schedule == "paper" else "peak_learning_rate"
    rows: list[Row | LeftOut] = [Row("base", {})]
    for name, start in _STARTS.items():
        if name != training.optimizer:
            rate = training[schedules_rate] * start.rate / _STARTS[training.optimizer].rate
            changes = {
                "optimizer": name,
                schedules_rate: float(f"{rate:.4g}"),
                "weight_decay": start.weight_decay,
            }
            differing = {f"training.{k}": v for k, v in changes.items() if training[k] != v}
            note = f"{start.note}; rate and decay are to be tuned"
            rows.append(Row(name, differing, note=note))
    return rows


TABLE = Table("optimizers", "What the optimizer is worth (paper section 5.3)", _rows)
