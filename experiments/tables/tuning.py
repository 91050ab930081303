"""Which values a tuned table tries: the same points for every row, including the base.

In: --tune and --trials, and a base config. Out: points, each with a value for every tuned key.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from experiments.tables.ablation import Row, changes_text, check_row, flat
from experiments.tables.equal import STRETCHED

# Used by all trials; the seeds of a table count up from the base's.
TRIAL_SEED = 2**31 - 1

_FORM = re.compile(r"([\w.]+)=(?:(log|lin)\(([^,]*),([^,]*)\)|\[(.*)\])")
# Only these: trials are compared by perplexity of the same tokens.
_SECTIONS = ("model.", "training.")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false"}
_DIGITS = 4  # of a point inside a range: more would only be harder to read

Point = dict[str, Any]  # dotted key -> value


class Space(NamedTuple):
    """What to tune, and which points to try."""

    words: tuple[str, ...]  # as typed
    points: tuple[Point, ...]

    @property
    def keys(self) -> list[str]:
        """The tuned keys."""
        return list(self.points[0])


def runs_of_a_row(num_seeds: int, space: Space | None) -> int:
    """Runs of each row: its seeds; if it is tuned, its trials and its best point's seeds, too."""
    return num_seeds if space is None else 2 * num_seeds + len(space.points)


class _Axis(NamedTuple):
    key: str
    scale: str  # "log" | "lin" | "list"
    values: list[Any]  # the ends, or all of a list

    def at(self, share: float) -> Any:
        """The value at this share of the way from one end, 0, to the other, 1."""
        if self.scale == "list":
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        low, high = self.values
        if share in (0, 1):
            return high if share else low
        is_log = self.scale == "log"
        value = low * (high / low) ** share if is_log else low + share * (high - low)
        return round(value) if isinstance(low, int) else float(f"{value:.{_DIGITS}g}")


def space(words: Sequence[str], num_trials: int | None, base: ConfigDict) -> Space:
    """The points: for one range, evenly spaced, including its ends; for one list, all its values.

    For several keys, a Sobol sequence, which fills the space evenly.

    Args:
      words: "KEY=log(LOW,HIGH)", "KEY=lin(LOW,HIGH)" or "KEY=[A,B,C]", one key each.
      num_trials: number of points; optional for one list.

    Raises:
      ValueError: something is wrong; in words.
    """
    axes = [_axis(each, base) for each in words]
    if len({axis.key for axis in axes}) < len(axes):
        raise ValueError("--tune names a key twice")
    [first, *others] = axes
    if not others and first.scale == "list":
        if num_trials not in (None, len(first.values)):
            raise ValueError(f"--trials={num_trials}, but --tune has {len(first.values)} values")
        num_trials = len(first.values)
    if num_trials is None or num_trials < 2:
        given = "" if num_trials is None else f", not {num_trials}"
        raise ValueError(f"--tune needs --trials=N, at least 2 per row{given}")
    shares = _sobol(num_trials, len(axes)) if others else _evenly(num_trials, first)
    points = tuple(
        {axis.key: axis.at(share) for axis, share in zip(axes, its, strict=True)} for its in shares
    )
    if len({tuple(point.values()) for point in points}) < num_trials:
        raise ValueError(f"--tune={' '.join(words)} has no {num_trials} different points")
    return Space(tuple(words), points)


def at(row: Row, point: Mapping[str, Any]) -> Row:
    """The row with these values instead of its own."""
    return row._replace(changes={**row.changes, **point})


def check(found: Space, rows: Sequence[Row], base: ConfigDict) -> None:
    """Raises ValueError if a row changes tuned keys alone, or has a wrong config at some point."""
    keys = set(found.keys)
    for row in rows:
        if row.changes and keys >= row.changes.keys():
            raise ValueError(
                f"row {row.name} changes nothing but {', '.join(row.changes)}, which --tune sets "
                "in every row: leave the row out by --rows, or tune another key"
            )
        for point in found.points:
            named = row._replace(name=f"{row.name} with --tune at {changes_text(point)}")
            check_row(at(named, point), base)


def check_costs_nothing(found: Space) -> None:
    """Raises ValueError for keys that change what an update costs, or that --equal sets.

    --equal finds the updates of a row, and stretches its curve of rates, before it is tuned.
    """
    for key in found.keys:
        if key in STRETCHED - {"training.steps"}:
            raise ValueError(
                f"--tune={key} would undo what --equal sets to give every row the same curve of "
                "rates: it goes with --equal=steps"
            )
        if key.startswith(("data.", "model.")) or key in ("training.steps", "training.optimizer"):
            raise ValueError(
                f"--tune={key} changes what an update costs, or their number, which --equal has "
                "made equal before: it goes with --equal=steps"
            )


def is_number(value: Any) -> bool:
    """Whether a tuned value is a number, and so has a place on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _evenly(number: int, axis: _Axis) -> list[list[float]]:
    if axis.scale == "list":  # in the middle of each value's share, far from rounding
        return [[(place + 0.5) / number] for place in range(number)]
    return [[place / (number - 1)] for place in range(number)]


def _sobol(number: int, dimensions: int) -> list[list[float]]:
    from scipy.stats import qmc  # it takes a second to load

    # A power of two of them, for balance; shifted, since the sequence begins in a corner.
    points = qmc.Sobol(dimensions, scramble=False).random_base2(math.ceil(math.log2(number)))
    shift = np.random.default_rng(0).random(dimensions)
    return ((points[:number] + shift) % 1).tolist()


def _axis(words: str, base: ConfigDict) -> _Axis:
    if (parts := _FORM.fullmatch(words.replace(" ", ""))) is None:
        raise ValueError(
            f"--tune={words}: write KEY=log(LOW,HIGH), KEY=lin(LOW,HIGH) or KEY=[A,B,C]"
        )
    key, scale, low, high, listed = parts.groups()
    present = flat(base)
    if key not in present:
        close = difflib.get_close_matches(key, present, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"--tune={words}: there is no key {key}{hint}")
    if not key.startswith(_SECTIONS):
        raise ValueError(
            f"--tune={words}: trials are compared by perplexity of the same data, so that only "
            "keys of model and training can be tuned"
        )
    texts = [low, high] if scale else listed.split(",")
    values = [_value(text, present[key], words) for text in texts]
    if scale and (
        not is_number(present[key])
        or not values[0] < values[1] < math.inf
        or (scale == "log" and values[0] <= 0)
    ):
        above = "above 0, " if scale == "log" else ""
        raise ValueError(f"--tune={words}: LOW and HIGH must be numbers {above}LOW below HIGH")
    return _Axis(key, scale or "list", values)


def _value(text: str, of_base: Any, words: str) -> Any:
    """The text as a value of the base's type."""
    kind = type(of_base)
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise ValueError(
            f"--tune={words}: {text!r} must be {_KINDS.get(kind, kind.__name__)}, as base's "
            f"{of_base!r} is"
        ) from None
