"""The predecessor: recurrent models with as many parameters as the Transformer.

    python -m experiments.sweep recurrent --base=configs/tiny.py \
      --base.evaluation.bleu_on_long=True --seeds=3 --workdir=W
    python -m experiments.inspect.gradient_reach W/recurrent/*/seed-0

The case against recurrence, as a table: BLEU (by sentence length in the report), seconds for the
same tokens, and from the second command how far a gradient reaches. Each cell with attention
(Bahdanau et al. 2015) and without (Sutskever et al. 2014), as deep as the base.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Table, differing
from experiments.tables.equal_parameters import recurrent_d_model

_CELLS = ("tanh", "gru", "lstm")


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    rows = [_row(base, cell, attends) for cell in _CELLS for attends in (True, False)]
    return [Row("base", {}), *rows]


def _row(base: AnyConfig, cell: str, attends: bool) -> Row | LeftOut:
    name = cell + ("" if attends else "_without_attention")
    if base.model.family != "encoder_decoder" or base.data.batching == "packed":
        return LeftOut(
            name, "it takes the place of an encoder-decoder, with one sentence in a row: not packed"
        )
    changes = {
        "model.family": "recurrent",
        "model.recurrent_cell": cell,
        "model.recurrent_attention": attends,
        "model.d_model": recurrent_d_model(base, cell, attends),
    }
    return Row(name, differing(changes, base))


TABLE = Table("recurrent", "Recurrent models with the Transformer's parameters", _rows)
