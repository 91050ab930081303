"""Two and four models that translate together, and one as large as two.

    python -m experiments.sweep ensembles --base=configs/tiny.py --seeds=3 --workdir=W

Models of an ensemble are trained apart. Each row costs as many times the base's computation as it
has models or parameters: `--equal=flops` gives all the base's.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table
from experiments.tables.equal_parameters import weights

_SIZES = (2, 4)


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    names = [f"models={size}" for size in _SIZES]
    if base.model.family != "encoder_decoder" or base.model.ensemble_size > 1:
        reason = "it takes a base of one encoder-decoder"
        return [Row("base", {}), *(LeftOut(name, reason) for name in [*names, "d_ff=*"])]
    rows = [
        Row(name, {"model.ensemble_size": size}) for name, size in zip(names, _SIZES, strict=True)
    ]
    return [Row("base", {}), *rows, _wide(base)]


def _wide(base: AnyConfig) -> Row | LeftOut:
    """One model with as many parameters as two, the further ones in its feed-forward layers."""
    model = base.model
    num_layers = model.num_encoder_layers + model.num_decoder_layers
    if not (model.feed_forward and num_layers):
        return LeftOut("d_ff=*", "the base has no feed-forward layers to widen")
    d_ff = model.d_ff + round(weights(base) / (2 * model.d_model * num_layers))
    return Row(f"d_ff={d_ff}", {"model.d_ff": d_ff}, note="as large as two models")


TABLE = Table("ensembles", "What several models together are worth", _rows)
