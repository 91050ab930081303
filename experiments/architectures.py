"""Other models than the paper's, each a change or two: positions, depths, and the predecessor.

    python -m experiments.sweep architectures --base=configs/tiny.py --rows='base,rec*' --workdir=W

`positions=...` are the kinds that Kazemnejad et al. 2023 compare, and the paper's two;
`depth=...` shifts layers from one side to the other; `self_attentions=2` has two self-attention
sub-layers before each feed-forward one (the X-Transformer of Liu & Chen 2022); `recurrent_...` is
the recurrent encoder-decoder that the Transformer replaced, as wide and as deep as the base.
"""

from experiments.ablation import AnyConfig, LeftOut, Row, Table

_POSITIONS = ("sinusoidal", "learned", "none", "rotary", "relative", "alibi")
_CELLS = ("tanh", "gru", "lstm")


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    rows: list[Row | LeftOut] = [Row("base", {})]
    rows += [Row(f"positions={kind}", {"model.positions": kind}) for kind in _POSITIONS]
    rows += [_depth(base, 1), _depth(base, -1)]
    rows.append(Row("self_attentions=2", {"model.num_self_attentions": 2}))
    rows += [_recurrent(base, cell, attends) for cell in _CELLS for attends in (True, False)]
    return rows


def _depth(base: AnyConfig, shift: int) -> Row | LeftOut:
    """As many layers as the base, half of the decoder's moved to the encoder, or the other way."""
    encoder, decoder = base.model.num_encoder_layers, base.model.num_decoder_layers
    moved = (decoder if shift > 0 else encoder) // 2
    encoder, decoder = encoder + shift * moved, decoder - shift * moved
    name = f"depth={encoder}+{decoder}"
    if moved == 0:
        return LeftOut(name, "a side of one layer has none to give away")
    changes = {"model.num_encoder_layers": encoder, "model.num_decoder_layers": decoder}
    return Row(name, changes)


def _recurrent(base: AnyConfig, cell: str, attends: bool) -> Row | LeftOut:
    name = f"recurrent_{cell}" + ("" if attends else "_without_attention")
    if base.data.task != "translation":
        return LeftOut(name, f"it translates, and cannot learn data.task={base.data.task!r}")
    changes = {"model.recurrent_cell": cell, "model.recurrent_attention": attends}
    return Row(name, {"model.family": "recurrent"} | changes)


TABLE = Table("architectures", "Other models than the paper's", _rows)
