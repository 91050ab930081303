"""Where depth belongs: in the encoder or the decoder, at equal parameters.

    python -m experiments.sweep depth --base=configs/tiny.py --seeds=3 --workdir=W

Xu et al. 2021 find that the encoder matters more. Rows distribute the base's layers differently; a
decoder layer has one more attention, which the width of all feed-forward layers compensates.
`self_attentions=2` is the X-Transformer of Liu & Chen 2022: two self-attentions before each
feed-forward layer, and fewer layers.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table, differing
from experiments.tables.equal_parameters import Depth, d_ff_for, depth_of, layer_weights


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    own = depth_of(base)
    reason = ""
    if base.model.family != "encoder_decoder" or min(own.encoder, own.decoder) < 1:
        reason = "it shares out the layers of an encoder and a decoder, which the base lacks"
    elif not base.model.feed_forward:
        reason = "the width of feed-forward layers makes parameters equal, and the base has none"
    if reason:
        return [Row("base", {}), LeftOut("depth=*", reason), LeftOut("self_attentions=*", reason)]
    num_layers = own.encoder + own.decoder
    in_decoder = sorted({1, num_layers // 4, 3 * num_layers // 4, num_layers - 1})
    rows = [
        _row(base, f"depth={num_layers - decoder}+{decoder}", num_layers - decoder, decoder, 1)
        for decoder in in_decoder
        if 0 < decoder < num_layers
    ]
    return [Row("base", {}), *rows, _stacked(base, own)]


def _stacked(base: AnyConfig, own: Depth) -> Row | LeftOut:
    """Twice the self-attentions, with the number of layers closest to the base's weights."""
    wanted = layer_weights(base, own)
    depths = [
        Depth(encoder, decoder, 2 * own.self_attentions)
        for encoder in range(1, own.encoder + 1)
        for decoder in range(1, own.decoder + 1)
        if 0 <= encoder - decoder <= 1
    ]
    best = min(depths, key=lambda depth: abs(layer_weights(base, depth) - wanted))
    return _row(base, f"self_attentions={best.self_attentions}", best.encoder, best.decoder, 2)


def _row(base: AnyConfig, name: str, encoder: int, decoder: int, factor: int) -> Row | LeftOut:
    depth = Depth(encoder, decoder, factor * base.model.num_self_attentions)
    d_ff = d_ff_for(base, depth)
    if d_ff < 1:
        return LeftOut(name, f"its attentions alone are more than the base: d_ff would be {d_ff}")
    changes = {
        "model.num_encoder_layers": depth.encoder,
        "model.num_decoder_layers": depth.decoder,
        "model.num_self_attentions": depth.self_attentions,
        "model.d_ff": d_ff,
    }
    return Row(name, differing(changes, base))


TABLE = Table("depth", "Encoder against decoder depth at equal parameters", _rows)
