"""Table 3: variations on the base model, English-German, newstest2013 (paper section 6.2).

    python -m experiments.sweep table3 --base=configs/base.py --dry_run
    python -m experiments.run table3 --row=A.h=1 --base=configs/tiny.py --workdir=W

The rows are shares of the base: an eighth of its heads, a third of its layers. With
`configs/base.py` they are exactly the paper's; with a smaller base, a share that is not a whole
number is rounded or left out, as each function below says.
"""

from fractions import Fraction
from typing import Any

from experiments.tables.ablation import AnyConfig, LeftOut, Row, Score, Table, depths_of
from experiments.tables.paper_base import PAPER_BASE

# Above this, most of the network is off, and the row says nothing about the model.
_HIGHEST_DROPOUT = 0.8

_FRACTION_WORDS = {
    Fraction(1, 8): "an eighth",
    Fraction(1, 4): "a quarter",
    Fraction(1, 3): "a third",
    Fraction(1, 2): "half",
    Fraction(2, 3): "two thirds",
    Fraction(4, 3): "four thirds",
    Fraction(2): "twice",
    Fraction(3): "three times",
    Fraction(4): "four times",
}


# fmt: off
def _rows(base: AnyConfig) -> list[Row | LeftOut]:
    return [
        Row("base", {}, Score(4.92, 25.8, 65)),
        # (A) number of heads
        _heads(base, Fraction(1, 8), Score(5.29, 24.9)),
        _heads(base, Fraction(1, 2), Score(5.00, 25.5)),
        _heads(base, Fraction(2),    Score(4.91, 25.8)),
        _heads(base, Fraction(4),    Score(5.01, 25.4)),
        # (B) size of the keys
        _size(base, "B", "d_k", Fraction(1, 4), Score(5.16, 25.1, 58)),
        _size(base, "B", "d_k", Fraction(1, 2), Score(5.01, 25.4, 60)),
        # (C) size of the model
        _depth(base, Fraction(1, 3), Score(6.11, 23.7, 36)),
        _depth(base, Fraction(2, 3), Score(5.19, 25.3, 50)),
        _depth(base, Fraction(4, 3), Score(4.88, 25.5, 80)),
        _width(base, Fraction(1, 2), Score(5.75, 24.5, 28)),
        _width(base, Fraction(2),    Score(4.66, 26.0, 168)),
        _size(base, "C", "d_ff", Fraction(1, 2), Score(5.12, 25.4, 53)),
        _size(base, "C", "d_ff", Fraction(2),    Score(4.75, 26.2, 90)),
        # (D) regularisation
        _dropout(base, 0, Score(5.77, 24.6)),
        _dropout(base, 2, Score(4.95, 25.5)),
        _smoothing(base, 0, Score(4.67, 25.3)),
        _smoothing(base, 2, Score(5.47, 25.7)),
        # (E) learned positions instead of sinusoids
        Row("E.learned", {"model.positions": "learned"}, Score(4.92, 25.7)),
        _big(base, Score(4.33, 26.4, 213)),
    ]
# fmt: on


def _heads(base: AnyConfig, share: Fraction, paper: Score) -> Row | LeftOut:
    """Group (A): more or fewer heads, at least one, at constant computation h d_k and h d_v."""
    model = base.model
    exact = share * model.num_heads
    heads = max(Fraction(1), exact)
    name = f"A.h={_text(heads)}"
    whole = _whole(heads, f"{_FRACTION_WORDS[share]} of {model.num_heads} heads")
    if isinstance(whole, str):
        return LeftOut(name, whole)
    d_k = _whole(Fraction(model.num_heads * model.d_k, whole), f"d_k of {whole} heads")
    d_v = _whole(Fraction(model.num_heads * model.d_v, whole), f"d_v of {whole} heads")
    if isinstance(d_k, str) or isinstance(d_v, str):
        return LeftOut(name, d_k if isinstance(d_k, str) else str(d_v))
    note = "" if exact >= 1 else f"{_FRACTION_WORDS[share]} of {model.num_heads} heads, at least 1"
    changes = {"model.num_heads": whole, "model.d_k": d_k, "model.d_v": d_v}
    return Row(name, changes, paper, note)


def _size(base: AnyConfig, group: str, key: str, share: Fraction, paper: Score) -> Row | LeftOut:
    """Group (B), only the width of queries and keys, and (C), only that of feed-forward layers."""
    exact = share * base.model[key]
    name = f"{group}.{key}={_text(exact)}"
    size = _whole(exact, f"{_FRACTION_WORDS[share]} of {key}={base.model[key]}")
    if isinstance(size, str):
        return LeftOut(name, size)
    return Row(name, {f"model.{key}": size}, paper)


def _depth(base: AnyConfig, share: Fraction, paper: Score) -> Row:
    """Group (C): layers of encoder and decoder, rounded to whole layers, at least one each."""
    depths = depths_of(base)
    exact = {key: share * depth for key, depth in depths.items()}
    new = {key: max(1, round(depth)) for key, depth in exact.items()}
    old_text, new_text = ("+".join(map(str, each.values())) for each in (depths, new))
    note = "" if new == exact else f"{_FRACTION_WORDS[share]} of {old_text} layers, rounded"
    is_even = len({*new.values()}) == 1
    return Row(f"C.N={next(iter(new.values())) if is_even else new_text}", new, paper, note)


def _width(base: AnyConfig, share: Fraction, paper: Score) -> Row | LeftOut:
    """Group (C): d_model with d_k = d_v = d_model / h; heads and d_ff stay."""
    exact = share * base.model.d_model
    name = f"C.d_model={_text(exact)}"
    heads = base.model.num_heads
    d_model = _whole(exact, f"{_FRACTION_WORDS[share]} of d_model={base.model.d_model}")
    d_head = _whole(exact / heads, f"d_model={_text(exact)} shared by {heads} heads")
    if isinstance(d_model, str) or isinstance(d_head, str):
        return LeftOut(name, d_model if isinstance(d_model, str) else str(d_head))
    changes = {"model.d_model": d_model, "model.d_k": d_head, "model.d_v": d_head}
    return Row(name, changes, paper)


def _dropout(base: AnyConfig, factor: int, paper: Score) -> Row | LeftOut:
    """Group (D): no dropout, or twice as much; 0.1, the paper's, if the base has none."""
    rate = _product(factor, base.model.dropout_rate or 0.05)
    name = f"D.dropout={rate:g}"
    if rate > _HIGHEST_DROPOUT:
        return LeftOut(name, _too_much_dropout(factor, base.model.dropout_rate))
    # The paper has no row for dropout against none; it has none against dropout.
    return Row(name, {"model.dropout_rate": rate}, paper if base.model.dropout_rate else None)


def _smoothing(base: AnyConfig, factor: int, paper: Score) -> Row | LeftOut:
    """Group (D): no label smoothing, or twice as much."""
    smoothing = _product(factor, base.training.label_smoothing)
    name = f"D.smoothing={smoothing:g}"
    if smoothing >= 1.0:
        return LeftOut(name, f"label smoothing {smoothing:g} leaves nothing to the target")
    return Row(name, {"training.label_smoothing": smoothing}, paper)


def _big(base: AnyConfig, paper: Score) -> Row | LeftOut:
    changes = big_changes(base)
    return changes if isinstance(changes, LeftOut) else Row("big", changes, paper)


def big_changes(base: AnyConfig) -> dict[str, Any] | LeftOut:
    """The big model: twice the width and the heads, three times the dropout and the steps."""
    model = base.model
    dropout_rate = _product(3, model.dropout_rate)
    if dropout_rate > _HIGHEST_DROPOUT:
        return LeftOut("big", _too_much_dropout(3, model.dropout_rate))
    return {
        "model.d_model": 2 * model.d_model,
        "model.d_ff": 2 * model.d_ff,
        "model.num_heads": 2 * model.num_heads,
        "model.dropout_rate": dropout_rate,
        "training.steps": 3 * base.training.steps,
    }


def _whole(number: Fraction, what: str) -> int | str:
    """The number as an int, or a sentence saying that it is not whole."""
    if number.denominator == 1:
        return int(number)
    return f"{what} would be {_text(number)}, not a whole number"


def _product(factor: int, rate: float) -> float:
    # 3 * 0.1 is 0.30000000000000004, which nobody wants in a table.
    return round(factor * rate, 6)


def _too_much_dropout(factor: int, rate: float) -> str:
    words = _FRACTION_WORDS[Fraction(factor)]
    return f"{words} dropout {rate:g} would be {factor * rate:g}, above {_HIGHEST_DROPOUT:g}"


def _text(number: Fraction) -> str:
    return f"{float(number):g}" if number.denominator > 1 else str(int(number))


TABLE = Table(
    "table3",
    "Table 3: variations on the base model (paper section 6.2)",
    _rows,
    PAPER_BASE,
)
