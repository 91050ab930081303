"""All tables, by their command-line name: every file here that has a TABLE.

A broken file is reported only if its table is requested; it does not affect other tables.
"""

import difflib
import importlib
import pkgutil
from typing import NamedTuple

from experiments import tables
from experiments.tables.ablation import Table
from t2t_jax.cli.own_files import described


class Found(NamedTuple):
    """The tables of a folder, by name."""

    tables: dict[str, Table]
    broken: dict[str, str]  # a sentence for each file that should have one but does not


def read_tables() -> Found:
    """Reads every file of this folder."""
    found = Found({}, {})
    for file in pkgutil.iter_modules(tables.__path__):
        name, path = file.name, f"experiments/tables/{file.name}.py"
        try:
            module = importlib.import_module(f"{tables.__name__}.{name}")
        except Exception as error:  # whatever a user's file may raise
            found.broken[name] = f"{path} cannot be read: {described(error, path)}"
            continue
        if not hasattr(module, "TABLE"):
            continue
        if not isinstance(module.TABLE, Table):
            found.broken[name] = f"the TABLE of {path} must be a Table"
        elif module.TABLE.name != name:
            found.broken[name] = (
                f"the table of {path} is called {module.TABLE.name!r}: it must have the name of "
                f"its file, {name!r}"
            )
        else:
            found.tables[name] = module.TABLE
    return found


TABLES, BROKEN = read_tables()


def find_table(name: str) -> Table:
    """The table with this name.

    Raises:
      ValueError: there is none, or its file is broken.
    """
    if name in BROKEN:
        raise ValueError(BROKEN[name])
    if name not in TABLES:
        near = difflib.get_close_matches(name, TABLES, n=1, cutoff=0.75)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"no table is called {name!r}{meant}; there are {names_text()}")
    return TABLES[name]


def names_text() -> str:
    """The names of all tables, and what is wrong with broken ones."""
    return "; ".join([", ".join(TABLES), *BROKEN.values()])
