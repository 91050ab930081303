"""What positional encodings (paper section 3.5) are worth.

    python -m experiments.sweep positions --base=configs/tiny.py \
      --base.evaluation.bleu_on_long=True --seeds=3 --workdir=W

The paper's sinusoids and their two other common layouts; learned positions, its row (E); the kinds
that Kazemnejad et al. 2023 compare; the two most obvious, the position's number, whole or as a
share; and none at all. On the embedded corpus, the probes show which models use word order, and
`long` which can count beyond the lengths seen in training.
"""

from experiments.tables.ablation import TURN_PAIRS, AnyConfig, LeftOut, Row, Table

_NOTES = {
    "sinusoidal": "sine and cosine alternate: the paper's equations",
    "sinusoidal_concatenated": "all sines, then all cosines: HF Marian, Sockeye",
    "sinusoidal_tensor2tensor": "the same with other frequencies",
    "learned": "the paper's row (E); no vector beyond max_positions",
    "counted": "the number of the position added to the vector",
    "scaled": "the same over max_positions: from 0 to 1",
    "none": "word order is seen by the decoder's mask alone",
    "rotary": "Su et al. 2021",
    "relative": "a bias for each bucket of distances, as in T5",
    "alibi": "Press et al. 2022; by distance alone: the encoder cannot tell before from after",
}


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    kinds = {kind: note for kind, note in _NOTES.items() if kind != base.model.positions}
    rows: list[Row | LeftOut] = [Row("base", {})]
    for kind, note in kinds.items():
        if kind == "rotary" and base.model.d_k % 2:
            rows.append(LeftOut(kind, TURN_PAIRS))
        elif kind in ("counted", "scaled") and _centres_what_it_reads(base):
            rows.append(LeftOut(kind, "layer norm takes a number added to a whole vector away"))
        else:
            rows.append(Row(kind, {"model.positions": kind}, note=note))
    return rows


def _centres_what_it_reads(base: AnyConfig) -> bool:
    model = base.model
    return model.norm_kind == "layer" and (model.norm == "pre" or model.embedding_norm)


TABLE = Table("positions", "What positions are worth (paper section 3.5)", _rows)
