"""An ablation table: named rows, each a few changes to one base config.

In: a base config. Out: one complete, locked config per row, and why some rows do not fit the base.
"""

import difflib
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ml_collections import ConfigDict

from t2t_jax.cli.own_files import described
from t2t_jax.json_files import flat_dict

# A ConfigDict read by attribute. ml_collections types each value as a union of everything a config
# may hold, so that a type checker finds no attributes.
AnyConfig: TypeAlias = Any

# For tables and rows: safe as a directory, in a shell, and in every report format.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,99}")


class Score(NamedTuple):
    """The paper's numbers for one row."""

    perplexity: float | None  # per wordpiece, development set
    bleu: float | None  # percent, development set
    params: float | None = None  # millions; the paper omits it if equal to the base
    test_bleu: float | None = None  # percent, test set


class Row(NamedTuple):
    """Named changes to a base config; the name is also a directory's."""

    name: str
    changes: Mapping[str, Any]  # dotted config key -> value
    paper: Score | None = None
    note: str = ""  # what the changes do not say

    def config(self, base: ConfigDict) -> ConfigDict:
        """The base config with this row's changes, locked.

        Raises:
          KeyError: a changed key does not exist in `base`.
          TypeError: a changed value does not have the type it has in `base`.
        """
        present = flat(base)
        for key, value in self.changes.items():
            self._check(present, key, value)
        config = base.copy_and_resolve_references().lock()
        config.update_from_flattened_dict(dict(self.changes))
        return config

    def _check(self, present: Mapping[str, Any], key: str, value: Any) -> None:
        if key not in present:
            close = difflib.get_close_matches(key, present, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise KeyError(f"row {self.name} changes {key}, which the base config lacks{hint}")
        wanted = type(present[key])
        is_int_for_float = wanted is float and type(value) is int
        if type(value) is not wanted and not is_int_for_float:
            raise TypeError(
                f"row {self.name} sets {key}={value!r} ({type(value).__name__}); "
                f"the base config has {present[key]!r} ({wanted.__name__})"
            )


class LeftOut(NamedTuple):
    """A row that does not fit a base."""

    name: str
    reason: str


class Rows(NamedTuple):
    """The rows of a table at one base, and those it leaves out."""

    rows: list[Row]
    left_out: list[LeftOut]

    def select(self, patterns: str) -> "Rows":
        """The rows whose names match one of the comma-separated glob patterns.

        Raises:
          ValueError: a pattern matches no row.
        """
        wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
        if not wanted:
            raise ValueError("the row patterns are empty; '*' means every row")
        for pattern in wanted:
            if not any(fnmatch.fnmatchcase(row.name, pattern) for row in self.rows):
                raise ValueError(self._no_match(pattern))

        def is_wanted(entry: Row | LeftOut) -> bool:
            return any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in wanted)

        return Rows(list(filter(is_wanted, self.rows)), list(filter(is_wanted, self.left_out)))

    def named(self, name: str) -> Row:
        """The row with exactly this name.

        Raises:
          ValueError: there is none.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise ValueError(self._no_match(name))

    def _no_match(self, pattern: str) -> str:
        for name, reason in self.left_out:
            if fnmatch.fnmatchcase(name, pattern):
                return f"row {name} is left out at this base: {reason}"
        names = ", ".join(row.name for row in self.rows)
        return f"no row is called {pattern!r}; the rows are {names}"


# Why a row is left out.
TURN_PAIRS = "rotary positions turn pairs: d_k must be even"


class Table(NamedTuple):
    """Rows as a function of the base config.

    All others are compared with the row called "base".
    """

    name: str  # as typed on the command line
    title: str
    make_rows: Callable[[ConfigDict], Sequence[Row | LeftOut]]
    # dotted config key -> value in the paper's base model; empty if the paper has no such table
    paper_base: Mapping[str, Any] = {}
    paper_test: str = "newstest2013"  # test set of the paper's numbers

    def has_paper_base(self, base: ConfigDict) -> bool:
        """Whether `base` is the paper's, so that the paper's column can appear beside ours.

        A missing key, as in runs of an earlier version, had the paper's value.
        """
        present = flat(base)
        return bool(self.paper_base) and all(
            present.get(key, value) == value for key, value in self.paper_base.items()
        )

    def rows(self, base: ConfigDict) -> Rows:
        """The table at this base; a row that repeats an earlier one is left out.

        Raises:
          KeyError, TypeError: see `Row.config`.
          ValueError: a value of the base is not allowed; `make_rows` fails; two rows with different
            configs share a name, none is called base, or a name is invalid.
        """
        check_name(self.name, "table")
        rows: list[Row] = []
        left_out: list[LeftOut] = []
        configs: dict[str, dict[str, Any]] = {}
        has_paper_base = self.has_paper_base(base)
        try:
            entries = self.make_rows(base)
        except ValueError:
            raise
        except Exception as error:  # whatever a user's file may raise
            check_config(base, "base")  # it may be due to what cannot be trained either
            code = getattr(self.make_rows, "__code__", None)  # a partial function has none
            file = "" if code is None else code.co_filename
            raise ValueError(f"table {self.name}: {described(error, file)}") from error
        for entry in entries:
            if isinstance(entry, LeftOut):
                left_out.append(entry)
                continue
            check_name(entry.name, "row")
            config = flat(entry.config(base))
            twin = next((name for name, other in configs.items() if other == config), None)
            if twin is not None:
                other = "that row again" if twin == entry.name else f"the same as {twin}"
                reason = f"at this base it is {other}"
                if entry.note:
                    reason = f"{entry.note}: {reason}"
                left_out.append(LeftOut(entry.name, reason))
                continue
            if entry.name in configs:
                raise ValueError(f"table {self.name} has two rows that are called {entry.name}")
            configs[entry.name] = config
            rows.append(entry if has_paper_base else entry._replace(paper=None))
        if "base" not in configs:
            why = dict(left_out).get("base", "all others are compared with it")
            raise ValueError(f"table {self.name} has no row that is called base: {why}")
        return Rows(rows, left_out)


def check_name(name: Any, of: str) -> None:
    """Raises ValueError unless `name` is a valid name of `of`, a table or a row."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"the {of} {name!r} must be a name of at most 100 letters (a-z, A-Z), digits and "
            ". _ = + -, of which the first is a letter or a digit"
        )


def flat(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value."""
    return flat_dict(as_dict(config))


def differing(changes: Mapping[str, Any], base: ConfigDict) -> dict[str, Any]:
    """The changes that the base does not have already."""
    present = flat(base)
    return {key: value for key, value in changes.items() if present.get(key) != value}


def depths_of(base: AnyConfig) -> dict[str, int]:
    """The depth of each stack that this family has, by its key."""
    from t2t_jax.runs.effect import unmet

    values = flat(base)
    keys = "model.num_encoder_layers", "model.num_decoder_layers"
    return {key: values[key] for key in keys if not unmet(key, values)}


def as_dict(config: ConfigDict) -> dict[str, Any]:
    """The config as plain nested dicts."""
    return config.to_dict()


def changes_text(changes: Mapping[str, Any]) -> str:
    """Changes as one line, without section names: "num_heads=1 d_k=512 d_v=512"."""
    return " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())


def num_params(config: ConfigDict) -> int:
    """Number of parameters of the model, counted from its shapes; nothing is computed."""
    from t2t_jax.model.config import TransformerConfig
    from t2t_jax.model.families import num_parameters

    return num_parameters(TransformerConfig(**as_dict(config)["model"]))


def check_config(config: ConfigDict, name: str) -> None:
    """Checks every section and how they fit together, before anything is trained.

    Raises:
      ValueError: a value is not allowed; the message begins with `name`.
    """
    from t2t_jax.runs.sections import read_sections

    try:
        read_sections(config)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error


def check_row(row: Row, base: ConfigDict) -> None:
    """Checks the config of a row, and that everything it changes is read.

    Raises:
      ValueError: a value is not allowed, or nothing reads it though it asks for something.
    """
    from t2t_jax.runs.effect import asks_for_nothing, why_unread

    name = f"row {row.name}"
    check_config(row.config(base), name)
    before, after = flat(base), flat(row.config(base))
    for key in row.changes:
        if asks_for_nothing(key, after[key]) or after[key] == before[key]:
            continue
        if why := why_unread(key, after):
            raise ValueError(f"{name}: {key} {why}")
