"""Two models that translate together, against one that is as large.

    python -m experiments.sweep ensembles --base=configs/tiny.py --seeds=3 --workdir=W

Models of an ensemble are trained apart; `d_ff=` is one model with the parameters of two. An
ensemble costs as much as its models: `--equal=flops` gives each row the base's computation.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table, num_params

_SIZES = (2, 4)


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    names = [f"models={size}" for size in _SIZES]
    if base.model.family not in ("encoder_decoder", "recurrent") or base.model.ensemble_size > 1:
        reason = "it takes a base of one model that translates"
        return [Row("base", {}), *(LeftOut(name, reason) for name in [*names, "d_ff=*"])]
    rows = [
        Row(name, {"model.ensemble_size": size}) for name, size in zip(names, _SIZES, strict=True)
    ]
    return [Row("base", {}), *rows, _wide(base)]


def _wide(base: AnyConfig) -> Row | LeftOut:
    """One model with as many parameters as two, the further ones in its feed-forward layers."""
    model = base.model
    if model.family == "recurrent" or not model.feed_forward:
        return LeftOut("d_ff=*", "the base has no feed-forward layers to widen")
    of_unit = 2 * model.d_model + model.feed_forward_biases
    num_layers = model.num_encoder_layers + model.num_decoder_layers
    d_ff = model.d_ff + round(num_params(base) / (of_unit * num_layers))
    return Row(f"d_ff={d_ff}", {"model.d_ff": d_ff}, note="as large as two models")


TABLE = Table("ensembles", "What several models together are worth", _rows)
