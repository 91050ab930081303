"""What each part of a layer is worth: removed, or replaced by a common alternative.

    python -m experiments.sweep parts --base=configs/tiny.py --seeds=3 --workdir=W

The divisor of the scores (section 3.2.1), the residual sum and the norm around each sub-layer
(section 3.1), and the feed-forward network with its non-linearity (section 3.3). Rows keep the
base's rate, though without a norm or a divisor another may suit them better: `--tune` it.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table

_PARTS = {
    "divisor=none": ("model.score_divisor", "none", "softmax(Q K^T) V"),
    "divisor=sqrt_d_model": ("model.score_divisor", "sqrt_d_model", "of all heads, not of one"),
    "residual=none": ("model.residual", False, "LayerNorm(Sublayer(x))"),
    "norm=none": ("model.norm", "none", "x + Sublayer(x)"),
    "norm=pre": ("model.norm", "pre", "x + Sublayer(LayerNorm(x))"),
    "norm=rms": ("model.norm_kind", "rms", "no mean is taken away, no bias: Zhang & Sennrich 2019"),
    "feed_forward=none": ("model.feed_forward", False, "attention alone, fewer parameters"),
    "activation=none": ("model.activation", "none", "feed-forward as two linear maps, hence one"),
}


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    rows = [Row(name, {key: value}, note=note) for name, (key, value, note) in _PARTS.items()]
    return [Row("base", {}), *rows]


TABLE = Table("parts", "What each part of a layer is worth (paper section 3)", _rows)
