"""Table 2: base and big on newstest2014, checkpoints averaged (paper section 6.1).

    python -m experiments.sweep table2 --base=configs/base.py --dry_run
    python -m experiments.sweep table2 --base=configs/base.py --workdir=W \
      --base.data.name=wmt14_translate/fr-en --base.data.target_language=fr \
      --base.data.vocabulary_size=32000

Base translates with the mean of its last 5 checkpoints, big with that of its last 20, as in the
paper. The paper saved one every ten minutes; here training.checkpoint_every_steps says how often.
For French, the paper's big model has a dropout of 0.1, like base. The paper's BLEU is from its own
script.
"""

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Score, Table
from experiments.tables.discrepancies import averaging
from experiments.tables.paper_base import PAPER_BASE
from experiments.tables.table3 import big_changes

# newstest2014, by target language: base, big.
_PAPER_BLEU = {"de": (27.3, 28.4), "fr": (38.1, 41.8)}
_PAPER_BASE = {key: value for key, value in PAPER_BASE.items() if key != "data.target_language"}


def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    found = _PAPER_BLEU.get(base.data.target_language, (None, None))
    scores = [None if bleu is None else Score(None, None, test_bleu=bleu) for bleu in found]
    changes = big_changes(base)
    if base.data.target_language == "fr" and not isinstance(changes, LeftOut):
        del changes["model.dropout_rate"]  # section 6.1
    return [
        _averaged(base, "base", {}, 5, scores[0], "3.3e18 FLOPs in the paper"),
        changes
        if isinstance(changes, LeftOut)
        else _averaged(base, "big", changes, 20, scores[1], "2.3e19 FLOPs in the paper"),
    ]


def _averaged(
    base: AnyConfig, name: str, changes: dict, number: int, paper: Score | None, note: str
) -> Row | LeftOut:
    steps = changes.get("training.steps", base.training.steps)
    averaged = averaging(base, number, steps)
    if isinstance(averaged, str):
        return LeftOut(name, averaged)
    return Row(name, changes | averaged, paper, note)


TABLE = Table(
    "table2",
    "Table 2: base and big, checkpoints averaged (paper section 6.1)",
    _rows,
    _PAPER_BASE,
    paper_test="newstest2014",
)
